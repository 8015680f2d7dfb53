"""Share groups live through deaths, bad networks, jumping clocks and administrators: a share of what `make sim` does."""

from __future__ import annotations

import pytest

from ottla.coord.share import initialization, simple_assignor, target
from tests.sim import share_groups
from tests.sim.lives import share_group_life

SHARES = 10
SEEDS_PER_SHARE = 10


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.rows(3, seconds=2)
def test_what_must_be_true_of_share_groups_is_true_whatever_happens(share: int) -> None:
    for seed in range(share * SEEDS_PER_SHARE, (share + 1) * SEEDS_PER_SHARE):
        lived = share_groups.live(seed)  # raises what was violated
        assert lived.seed == seed
        assert lived.beats <= share_group_life.MOST_BEATS


def test_share_groups_that_are_served_in_the_smallest_slices_live_through_everything_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "MOST_AT_ONCE", -1)
    monkeypatch.setattr(target, "STORED_AT_ONCE", 1)
    monkeypatch.setattr(initialization, "MOST_BEGUN", 1)
    for module in (target, simple_assignor):
        monkeypatch.setattr(module, "BETWEEN_PAUSES", 1)
    for seed in range(SEEDS_PER_SHARE):
        assert share_groups.live(seed).beats <= share_group_life.MOST_BEATS


def test_a_seed_of_share_groups_is_lived_the_same_way_every_time() -> None:
    assert share_groups.live(3) == share_groups.live(3)
