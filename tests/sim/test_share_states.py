"""Share coordinators live through power cuts, failing disks and deletions: a share of what `make sim` does."""

from __future__ import annotations

import re

import pytest

from tests.sim import share_states
from tests.sim.lives.share_state_ledger import ShareStateLedger
from tests.sim.seeds import Violation

SEEDS_PER_SHARE = 8


@pytest.mark.rows(2, seconds=2)
@pytest.mark.parametrize("share", range(8))
def test_states_that_are_read_back_are_those_that_were_acknowledged(share: int) -> None:
    lived = [share_states.live(seed) for seed in range(share * SEEDS_PER_SHARE, (share + 1) * SEEDS_PER_SHARE)]
    assert sum(each.acknowledged for each in lived) > 60 * SEEDS_PER_SHARE
    assert sum(each.lives for each in lived) > 5 * SEEDS_PER_SHARE


def test_the_log_is_pruned_in_some_lives() -> None:
    assert sum(share_states.live(seed).pruned for seed in range(4)) > 10


def test_the_same_seed_lives_the_same_life() -> None:
    assert share_states.live(3) == share_states.live(3)


def test_a_violation_names_its_seed_and_the_command_that_shows_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ShareStateLedger, "is_quiet", False)
    with pytest.raises(Violation, match=r"seed 1: .*not answered in time.*python -m tests.sim.share_states --seed 1"):
        share_states.live(1)


def test_the_command_tells_what_it_has_seen(capsys: pytest.CaptureFixture[str]) -> None:
    assert share_states.main(["--seeds", "2", "--jobs", "1"]) == 0
    assert re.search(r"lived 2 seeds in \d+ s, .* lives of brokers, \d+ operations answered", capsys.readouterr().out)
