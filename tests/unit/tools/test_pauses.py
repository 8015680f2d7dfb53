"""The tables of `make bench-pauses`: which causes the time of spans is counted for."""

from __future__ import annotations

from bench.paced import Latency
from bench.pauses import OUTSIDE, histogram, judge

CAUSES = ["waits for events", "request: Produce", "garbage collector"]
MS = 1_000_000
ITERATIONS = [(0, MS, 0), (MS, 2 * MS, 1), (2 * MS, 5 * MS, 2), (5 * MS, 6 * MS, 1), (6 * MS, 9 * MS, 0), (9 * MS, 10 * MS, 1)]
"""One iteration of 5 ms, 3 ms of them for a collection, and one of 1 ms."""


def test_each_cause_of_a_pause_is_counted_by_its_own_time() -> None:
    counts, worst_ms, busy = histogram(CAUSES, ITERATIONS)
    assert counts == {"request: Produce": [0, 0, 1, 1, 0, 0], "garbage collector": [0, 0, 0, 1, 0, 0]}
    assert worst_ms == {"request: Produce": 2.0, "garbage collector": 3.0}
    assert busy == {"request: Produce": 3 * MS, "garbage collector": 3 * MS}


def test_the_time_of_the_slowest_request_is_divided_among_what_the_loop_did_meanwhile() -> None:
    quick = [(0.0, 0.0001)] * 98
    found = judge(Latency(1, 1, 1, 1), [*quick, (0.0005, 0.0105), (0.0104, 0.0106)], CAUSES, ITERATIONS)
    assert {cause: round(share, 2) for cause, share in found.shares.items()} == {
        OUTSIDE: 0.4,  # half a millisecond before the first iteration and one after the last, and the wait between them
        "request: Produce": 0.3,
        "garbage collector": 0.3,
    }
    assert found.slowest_ms == 10.0
