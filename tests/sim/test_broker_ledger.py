"""What the ledger of a simulated broker's partitions takes for granted, and what it takes for a mistake."""

from __future__ import annotations

import pytest

from tests.sim.lives.broker_ledger import DAY_MS, CleanupRules, ObservedPartition, PartitionLedger, SentRecord
from tests.sim.seeds import Violation

NOW_MS = 100 * DAY_MS


def ledger(*ages_ms: int, retention_bytes: int = 1_000) -> PartitionLedger:
    """A partition with records of these ages."""
    past = PartitionLedger("t-0", CleanupRules(True, False, 3 * DAY_MS, retention_bytes, DAY_MS))
    sent = [SentRecord(b"k", b"%d" % number, NOW_MS - age_ms, NOW_MS) for number, age_ms in enumerate(ages_ms)]
    past.send(sent)
    past.acknowledge(sent, 0, durable=True)
    past.look(ObservedPartition(0, len(sent), 5_000, NOW_MS))
    return past


def test_age_may_take_what_size_had_left() -> None:
    """The young went for their size, and behind them the old for their age: less is left than size leaves."""
    past = ledger(0, 0, 10 * DAY_MS, 10 * DAY_MS, 0)
    past.look(ObservedPartition(4, 5, 900, NOW_MS))
    assert (past.start, past.end) == (4, 5), "it is taken for what is there now"


def test_a_power_cut_may_take_what_size_had_left() -> None:
    past = ledger(0, 0, 0, 0, 0)
    written = SentRecord(b"k", b"new", NOW_MS, NOW_MS)
    past.send([written])
    past.acknowledge([written], 5, durable=False)
    past.lost_power()
    past.look(ObservedPartition(4, 5, 950, NOW_MS))
    assert (past.start, past.end) == (4, 5), "the new one was there when the oldest went"
    past.lost_power()
    with pytest.raises(Violation, match="the young stay: t-0 began at 4"):
        past.look(ObservedPartition(5, 5, 950, NOW_MS))


@pytest.mark.parametrize(
    ("start", "size_bytes", "retention_bytes"),
    [(4, 500, 1_000), (5, 900, 1_000), (4, 900, -1)],
    ids=["too little was behind them", "nothing old was behind the last", "no size is set"],
)
def test_the_young_stay_where_size_did_not_take_them(start: int, size_bytes: int, retention_bytes: int) -> None:
    past = ledger(0, 0, 10 * DAY_MS, 10 * DAY_MS, 0, retention_bytes=retention_bytes)
    with pytest.raises(Violation, match="the young stay: t-0 began at 0"):
        past.look(ObservedPartition(start, 5, size_bytes, NOW_MS))


def test_the_old_may_go_whatever_is_left() -> None:
    past = ledger(10 * DAY_MS, 10 * DAY_MS, 0)
    past.look(ObservedPartition(2, 3, 100, NOW_MS))
    assert (past.start, past.end) == (2, 3)
