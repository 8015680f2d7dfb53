"""The run of one example on one cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla import NotSupported
from tests.helps.clusters import HelpCluster
from tests.helps.scenario import SCENARIOS, Scenario
from tests.helps.world import HelpWorld, Refused


def run_example(line: str, cluster: HelpCluster, home: Path) -> int:
    """Run the scenario of an example, which checks its effect. Return how often it ran the example.

    Skip it with its reason where it cannot have its effect.
    """
    scenario = SCENARIOS.get(line)
    assert scenario is not None, f"`ottla {line}` has no scenario: add one to tests/helps/scenarios that checks its effect"
    if scenario.only_ottla and not cluster.is_ottla:
        pytest.skip(scenario.only_ottla)
    if scenario.only_current and not cluster.secured:
        pytest.skip(scenario.only_current)
    with HelpWorld(cluster, line, home) as world:
        world.is_too_old = cluster.release < scenario.since or (cluster.has_zookeeper and scenario.needs_kraft)
        if not world.is_too_old:
            scenario.check(world)
            return world.example_runs
        with pytest.raises(Refused):
            _check_refused(scenario, world)
        return world.example_runs


def _check_refused(scenario: Scenario, world: HelpWorld) -> None:
    try:
        scenario.check(world)
    except (NotSupported, Refused):
        if world.example_runs:
            raise
        world.run()  # the preparation needs a newer broker, too
