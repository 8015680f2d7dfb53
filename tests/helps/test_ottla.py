"""Every example of every help does on Ottla what its help says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.command.parser import Example
from tests.helps.clusters import HelpCluster, ottla_cluster
from tests.helps.runs import run_example
from tests.helps.scenario import SCENARIOS, examples_of, load

load()
EXAMPLES = examples_of()


@pytest.fixture(scope="module")
def cluster() -> Iterator[HelpCluster]:
    with ottla_cluster() as cluster:
        yield cluster


def rows() -> Iterator[Any]:
    """Yield the examples. Those that take seconds are marked `full`."""
    for example in EXAMPLES:
        seconds = SCENARIOS[example.line].seconds if example.line in SCENARIOS else 0
        yield pytest.param(example, marks=[pytest.mark.full(seconds=seconds)] if seconds else (), id=example.line)


@pytest.mark.rows(80, seconds=0.2)
@pytest.mark.parametrize("example", [*rows()])
def test_an_example_does_what_its_help_says(example: Example, cluster: HelpCluster, tmp_path: Path) -> None:
    assert run_example(example.line, cluster, tmp_path) > 0


def test_each_scenario_has_an_example_and_no_example_is_in_two_helps() -> None:
    lines = [example.line for example in EXAMPLES]
    assert len(set(lines)) == len(lines)
    assert SCENARIOS.keys() - set(lines) == set()
