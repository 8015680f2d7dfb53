"""What records in flight cost: `python -m bench.share_window`. Memory of 100 000 of them, and the time of each decision about them.

The share partition runs alone, without broker, log and persister. Times are of the process's own CPU, the best of three rounds.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence

from ottla.share.acknowledge import ACCEPT, REJECT, RELEASE
from ottla.share.outcome import (
    AcknowledgeRecords,
    AcquireRecords,
    ExpireLocks,
    ReleaseMember,
    ShareLimits,
    StateRead,
    WriteResult,
)
from ottla.share.partition import SharePartition
from ottla.wire.errors import NONE

RECORDS = 100_000
BATCH = 500
ROUNDS = 3
MOST_MB = 20
LIMITS = ShareLimits(5, 2 * RECORDS, 30_000)


def new() -> SharePartition:
    partition = SharePartition("group", b"t" * 16, 0, 1, LIMITS)
    partition.submit(StateRead(1, 0), 0)
    return partition


def acquire(partition: SharePartition, member: str, size: int, now_ms: int = 0, batches: Sequence[tuple[int, int]] = ()) -> None:
    at = partition.next_fetch_offset
    partition.submit(AcquireRecords(member, at, batches or [(at, at + size - 1)], size, size), now_ms)


def acknowledge(partition: SharePartition, member: str, first: int, last: int, types: list[int]) -> None:
    write = partition.submit(AcknowledgeRecords(member, [(first, last, types)]), 1).write
    if write is not None:
        partition.submit(WriteResult(write.token, NONE), 2)


def filled(size: int, *, members: int = 1, step_ms: float = 0) -> SharePartition:
    """Return a share partition with all records acquired, so many at a time, by members in turn."""
    partition = new()
    for number in range(RECORDS // size):
        acquire(partition, f"member-{number % members}", size, int(number * step_ms))
    return partition


def alternating() -> SharePartition:
    """Return a share partition of which every other record was accepted, so that each record is a run."""
    partition = filled(BATCH)
    for first in range(0, RECORDS, BATCH):
        acknowledge(partition, "member-0", first, first + BATCH - 1, [RELEASE, ACCEPT] * (BATCH // 2))
    return partition


def shapes() -> Iterator[tuple[str, Callable[[], SharePartition]]]:
    """Yield states of 100 000 records in flight, the cheapest first."""
    yield "acquired 500 at a time by 8 members", lambda: filled(BATCH, members=8)
    yield "acquired one at a time by one member", lambda: filled(1)
    yield "every other record accepted", alternating
    yield "acquired one at a time by 8 members in turn, 30 s long", lambda: filled(1, members=8, step_ms=30_000 / RECORDS)


def measure_memory() -> int:
    """Print the memory of each shape. Returns how many take more than they may."""
    missed = 0
    for name, make in shapes():
        gc.collect()
        tracemalloc.start()
        partition = make()
        gc.collect()
        taken_mb = tracemalloc.get_traced_memory()[0] / 1e6
        tracemalloc.stop()
        missed += taken_mb > MOST_MB
        print(f"{taken_mb:8.2f} MB  {sum(1 for _ in partition.runs()):7} runs  {name} (at most {MOST_MB} MB)")
    return missed


def cpu_us(call: Callable[[], object], count: int = 1) -> float:
    """Return the microseconds of each of so many calls that one call does."""
    began = time.process_time()
    call()
    return (time.process_time() - began) * 1e6 / count


def cycles(size: int, count: int, *, kinds: Sequence[int] = (ACCEPT,), before: int = 0) -> Callable[[], float]:
    """Return a measurement of acquiring and acknowledging `size` records, with `before` records in flight that stay there."""

    def measure() -> float:
        partition = new()
        for _ in range(before):
            acquire(partition, "slow", 1)
        types = (list(kinds) * size)[:size] if len(kinds) > 1 else list(kinds)

        def run() -> None:
            for _ in range(count):
                at = partition.next_fetch_offset
                acquire(partition, "member", size)
                acknowledge(partition, "member", at, at + size - 1, types)

        return cpu_us(run, count)

    return measure


def whole(make: Callable[[], SharePartition], asked: object, now_ms: int) -> Callable[[], float]:
    """Return a measurement of one input that changes all records in flight."""

    def measure() -> float:
        partition = make()
        return cpu_us(lambda: partition.submit(asked, now_ms))  # type: ignore[arg-type]  # one of its inputs

    return measure


COSTS: Sequence[tuple[str, Callable[[], float]]] = (
    ("acquire and accept 1 record, stored", cycles(1, 2_000)),
    ("acquire and accept 500 records, stored", cycles(500, 2_000)),
    ("… with 10 000 single records in flight", cycles(500, 500, before=10_000)),
    ("acquire and acknowledge 500 records, each of another type", cycles(500, 200, kinds=(ACCEPT, REJECT))),
    ("end the session that holds 100 000 records in 200 batches", whole(lambda: filled(BATCH), ReleaseMember("member-0"), 1)),
    ("… in 10 000 runs", whole(lambda: filled(10, members=8), ReleaseMember("member-0"), 1)),
    ("end 500 of 10 000 locks", whole(lambda: filled(10, members=8), ExpireLocks(), 40_000)),
)


def main() -> int:
    """Print memory and times. Returns the exit code: 1 if records in flight take more memory than they may."""
    missed = measure_memory()
    for name, measure in COSTS:
        print(f"{min(measure() for _ in range(ROUNDS)):8.1f} µs  {name}")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
