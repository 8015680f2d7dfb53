"""Followers live through changes of leaders, refusals and ends at any operation of the disk: a share of what `make sim` does."""

from __future__ import annotations

import pytest

from tests.sim import followers
from tests.sim.lives import follower_life
from tests.sim.lives.follower_ledger import FollowerLedger
from tests.sim.seeds import Violation

SHARES = 6
SEEDS_PER_SHARE = 4


@pytest.mark.parametrize("share", range(SHARES))
def test_followers_have_what_their_leaders_have_whatever_happens(share: int) -> None:
    for seed in range(share * SEEDS_PER_SHARE, (share + 1) * SEEDS_PER_SHARE):
        assert followers.live(seed).settled > 0  # it raises what was violated


def test_a_compaction_keeps_what_a_marker_ended_that_was_lost_above_the_high_watermark() -> None:
    assert followers.live(41).settled > 0


def test_a_seed_of_a_follower_is_lived_the_same_way_every_time() -> None:
    assert followers.live(3) == followers.live(3)


def test_a_violation_of_a_follower_names_the_command_that_shows_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> None:
        raise Violation("catches up: never")

    monkeypatch.setattr(FollowerLedger, "check", wrong)
    with pytest.raises(Violation, match=r"seed 3: .*catches up: never.*python -m tests.sim.followers --seed 3"):
        followers.live(3)


def test_the_command_tells_what_followers_lived(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(follower_life, "ACTS", 20)
    assert followers.main(["--seeds", "2", "--jobs", "1"]) == 0
    assert "lived 2 seeds in" in capsys.readouterr().out
