"""Pipelines live through drivers and tasks that die, repeat and go on as zombies: a share of what `make sim` does."""

from __future__ import annotations

import pytest

from tests.sim import pipelines
from tests.sim.lives import pipeline_life
from tests.sim.lives.pipeline_life import PipelineLife
from tests.sim.seeds import Violation


@pytest.mark.parametrize("share", range(3))
def test_every_row_is_visible_once_whatever_happens(share: int) -> None:
    for seed in range(share * 100, (share + 1) * 100):
        assert pipelines.live(seed).seed == seed  # raises what was violated


@pytest.mark.parametrize("seed", [168, 262, 9591, 61631])
def test_a_seed_that_was_not_well_once_is_well(seed: int) -> None:
    """168: two drivers at once; 262: a late task used the id again that was to tell that its batch was committed.

    9591: a driver that paused while it cleared away fenced what another one had decided meanwhile. 61631: the same with the next
    transaction of an id that it had seen open.
    """
    assert not pipelines.live(seed).torn


def test_brokers_die_too() -> None:
    assert pipelines.live(5).starts > 1
    assert pipelines.live(4).starts == 1


def test_a_seed_is_lived_the_same_way_every_time() -> None:
    assert pipelines.live(3) == pipelines.live(3)


def test_a_violation_names_the_command_that_shows_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PipelineLife, "is_done", False)
    monkeypatch.setattr(pipeline_life, "PATIENCE_MS", 0)
    with pytest.raises(Violation, match=r"seed 3: .*done in time: .*python -m tests.sim.pipelines --seed 3"):
        pipelines.live(3)


def test_the_command_tells_what_was_lived(capsys: pytest.CaptureFixture[str]) -> None:
    assert pipelines.main(["--seeds", "2", "--jobs", "1"]) == 0
    assert "lived 2 seeds in" in capsys.readouterr().out
