"""Clusters live through kills, pauses, cuts and lost sessions: a share of what `make sim` does."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import pytest

from ottla.sim.world import World
from tests.sim import clusters
from tests.sim.lives import cluster_life
from tests.sim.seeds import Violation
from tests.support.kinds import one_of_each

SEEDS = range(6)
MENDED = (33580, 36458)
"""Seeds in which clusters once did not heal."""


@pytest.mark.parametrize("seed", one_of_each(SEEDS, 0, 1, 2, seconds=6))
def test_what_must_be_true_of_clusters_is_true_whatever_happens(seed: int) -> None:
    lived = clusters.live(seed)  # raises what was violated
    assert lived.seed == seed
    assert lived.acknowledged > 0


@pytest.mark.parametrize("seed", MENDED)
def test_a_cluster_heals_where_one_once_did_not(seed: int) -> None:
    assert clusters.live(seed).healed_ms < cluster_life.PATIENCE_MS


def test_these_seeds_meet_every_kind_of_trouble() -> None:
    plans = [cluster_life.plan(World(seed)) for seed in SEEDS]
    for kind in ("drifts", "power", "cuts", "copying", "groups"):
        assert any(getattr(plan, kind) for plan in plans), kind


def test_a_seed_is_lived_the_same_way_every_time() -> None:
    assert clusters.live(2) == clusters.live(2)


@pytest.mark.full(seconds=8)
def test_the_command_lives_a_seed_the_same_way_in_every_process() -> None:
    told = {
        subprocess.run(
            [sys.executable, "-m", "tests.sim.clusters", "--seed", "52"],
            env=os.environ | {"PYTHONHASHSEED": hashes},
            capture_output=True,
            check=True,
        ).stdout
        for hashes in ("1", "2")
    }
    assert len(told) == 1


def test_a_violation_names_the_command_that_shows_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_life, "PATIENCE_MS", 0)
    monkeypatch.setattr(cluster_life.ClusterLife, "_is_well", lambda life: False)
    with pytest.raises(Violation, match=r"seed 1: .*heals: not in 0 ms.*python -m tests.sim.clusters --seed 1"):
        clusters.live(1)


@pytest.mark.expects_errors("nobody expects this")
def test_a_line_at_error_fails_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def live(life: cluster_life.ClusterLife) -> None:
        logging.getLogger("ottla.broker").error("nobody expects %s", "this")

    monkeypatch.setattr(cluster_life.ClusterLife, "live", live)
    with pytest.raises(Violation, match=r"seed 1: .*nothing at ERROR: ERROR ottla.broker: nobody expects this"):
        clusters.live(1)


def test_the_command_tells_what_was_lived(capsys: pytest.CaptureFixture[str]) -> None:
    assert clusters.main(["--seeds", "2", "--jobs", "1"]) == 0
    assert "lived 2 seeds in" in capsys.readouterr().out
