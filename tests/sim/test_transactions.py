"""Transactions live through zombies, power cuts and a bad network: a share of what `make sim` does."""

from __future__ import annotations

import pytest

from ottla.sim.world import World
from tests.sim import transactions
from tests.sim.lives import transaction_life
from tests.sim.seeds import Violation
from tests.support.kinds import one_of_each

SHARES = 4
SEEDS_PER_SHARE = 2


@pytest.mark.parametrize("share", one_of_each(range(SHARES), 0, 1, seconds=6))
def test_what_must_be_true_of_transactions_is_true_whatever_happens(share: int) -> None:
    for seed in range(share * SEEDS_PER_SHARE, (share + 1) * SEEDS_PER_SHARE):
        lived = transactions.live(seed)  # raises what was violated
        assert lived.seed == seed
        assert lived.commits >= lived.plan.copiers


def test_these_seeds_meet_every_kind_of_trouble() -> None:
    plans = [transaction_life.plan(World(seed)) for seed in range(SHARES * SEEDS_PER_SHARE)]
    for kind in ("forgets", "prepares", "compacts", "faults", "jumps", "levels", "deletes"):
        assert any(getattr(plan, kind) for plan in plans), kind
    assert {"classic", "both"} <= {plan.members for plan in plans if plan.by_group}


@pytest.mark.parametrize("seed", one_of_each([47, 1059], seconds=4))
def test_a_seed_that_was_not_well_once_is_well(seed: int) -> None:
    """47: offsets were stored behind the end of their transaction, which nothing ended any more.

    1059: an earlier life, whose first answer came late, aborted what a later one had decided to commit.
    """
    assert transactions.live(seed).seed == seed


def test_a_seed_is_lived_the_same_way_every_time() -> None:
    assert transactions.live(0) == transactions.live(0)


def test_a_violation_names_the_command_that_shows_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_life, "PATIENCE_MS", 0)
    with pytest.raises(
        Violation, match=r"seed 5: .*soon done: not in 0 ms.*python -m tests.sim.transactions --seed 5 --protocol newer"
    ):
        transactions.live(5, protocol="newer")


def test_the_command_tells_what_was_lived(capsys: pytest.CaptureFixture[str]) -> None:
    assert transactions.main(["--seeds", "2", "--jobs", "1"]) == 0
    assert "lived 2 seeds in" in capsys.readouterr().out
