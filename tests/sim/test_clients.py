"""The shipped clients live through lost connections, wrong answers and dying brokers: a share of what `make sim` does."""

from __future__ import annotations

import pytest

from ottla.client.types import TopicPartition
from ottla.sim.world import World
from tests.sim import clients
from tests.sim.lives import client_life
from tests.sim.lives.client_ledger import PLAIN, ClientLedger, Handed, Share, Stored
from tests.sim.seeds import Violation
from tests.support.kinds import one_of_each

SHARES, SEEDS_PER_SHARE = 6, 4


@pytest.mark.parametrize("share", one_of_each(range(SHARES), 0, 1, seconds=4))
def test_what_must_be_true_of_clients_is_true_whatever_happens(share: int) -> None:
    for seed in range(share * SEEDS_PER_SHARE, (share + 1) * SEEDS_PER_SHARE):
        lived = clients.live(seed)  # raises what was violated
        assert lived.seed == seed
        assert lived.callbacks


def test_these_seeds_meet_every_kind_of_trouble() -> None:
    plans = [client_life.plan(World(seed)) for seed in range(SHARES * SEEDS_PER_SHARE)]
    assert {plan.kind for plan in plans} == set(client_life.KINDS)
    for fault in ("delay", "lose", "silence", "refuse", "split"):
        assert any(getattr(plan.streams, fault) for plan in plans), fault
    for lie in ("error", "stale"):
        assert any(getattr(plan.lies, lie) for plan in plans), lie


def test_a_seed_is_lived_the_same_way_every_time() -> None:
    assert clients.live(1) == clients.live(1)


def test_a_violation_names_the_command_that_shows_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_life, "PATIENCE_MS", 0)
    with pytest.raises(
        Violation, match=r"seed 1: .*progress once quiet: WritingProgram end: not in 0 ms.*python -m tests.sim.clients --seed 1"
    ):
        clients.live(1)


def test_a_record_that_was_read_before_a_power_cut_removed_it_may_be_missing_and_no_other() -> None:
    where = TopicPartition("in", 0)
    before = [Stored(offset, b"%d" % offset, PLAIN) for offset in range(4)]
    after = [*before[:2], Stored(2, b"another", PLAIN), Stored(3, b"one more", PLAIN)]
    for lost, violation in ((before, ""), (before[:3], "no gaps: reader handed out b'3' as offset 3")):
        ledger = ClientLedger()
        share = Share("readers", "reader", where)
        ledger.shares.append(share)
        for record in before:
            ledger.handed_out(share, Handed(record.offset, record.value, 0))
        ledger.lose(where, lost, after)
        ledger.check_consumers({where: after})
        assert violation in ledger.violation
        assert bool(ledger.violation) == bool(violation)


def test_the_command_tells_what_was_lived(capsys: pytest.CaptureFixture[str]) -> None:
    assert clients.main(["--seeds", "2", "--jobs", "1"]) == 0
    assert "lived 2 seeds in" in capsys.readouterr().out
