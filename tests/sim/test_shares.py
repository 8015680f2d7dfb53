"""Share partitions live through leaders, members and coordinators that come and go: a share of what `make sim` does."""

from __future__ import annotations

import pytest

from tests.sim import shares
from tests.sim.lives import share_life
from tests.sim.lives.share_ledger import ShareLedger
from tests.sim.seeds import Violation

SHARES = 4
SEEDS_PER_SHARE = 25


@pytest.mark.parametrize("share", range(SHARES))
def test_records_are_accepted_once_whatever_happens(share: int) -> None:
    lived = [shares.live(seed) for seed in range(share * SEEDS_PER_SHARE, (share + 1) * SEEDS_PER_SHARE)]
    assert all(each.compared for each in lived)
    assert sum(each.accepted for each in lived) > sum(each.records for each in lived) / 2


def test_a_seed_of_a_share_partition_is_lived_the_same_way_every_time() -> None:
    assert shares.live(3) == shares.live(3)


def test_a_violation_of_a_share_partition_names_the_command_that_shows_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> None:
        raise Violation("nothing lost: all")

    monkeypatch.setattr(ShareLedger, "check_end", wrong)
    with pytest.raises(Violation, match=r"seed 3: .*nothing lost: all.*python -m tests.sim.shares --seed 3"):
        shares.live(3)


def test_the_command_tells_what_share_partitions_lived(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(share_life, "ACTS", 20)
    assert shares.main(["--seeds", "2", "--jobs", "1"]) == 0
    assert "lived 2 seeds in" in capsys.readouterr().out
