"""A fixed share of what `make sim` does at length: logs with a journal that live through power cuts."""

from __future__ import annotations

import re

import pytest

from tests.sim import journals
from tests.sim.lives import journaled_log


@pytest.mark.rows(1, seconds=1)
@pytest.mark.parametrize("first", range(0, 40, 5))
def test_logs_with_a_journal_survive_power_cuts_at_any_operation(first: int) -> None:
    assert sum(map(journals.survive, range(first, first + 5))) >= 5 * journals.CUTS_PER_SEED


def test_a_fault_names_its_seed_and_the_command_that_shows_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journaled_log.JournaledLog, "faults", lambda life: ["something is lost"])
    with pytest.raises(AssertionError, match=r"(?s)seed 7: .*something is lost.*python -m tests.sim.journals --seed 7"):
        journals.survive(7)


def test_the_same_seed_lives_the_same_life() -> None:
    lives = [journals.live(3), journals.live(3)]
    assert lives[0].disk.operations == lives[1].disk.operations
    assert [one.known for one in lives[0].logs] == [one.known for one in lives[1].logs]


def test_the_command_tells_how_many_power_cuts_were_survived(capsys: pytest.CaptureFixture[str]) -> None:
    assert journals.main(["--points", "10", "--jobs", "1"]) == 0
    assert re.search("survived 1[0-9] power cuts of seeds 0 to 0 in", capsys.readouterr().out)
    assert journals.main(["--points", "20", "--seconds", "0", "--jobs", "1"]) == 2
