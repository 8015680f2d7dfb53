"""What a start takes with many transactional ids: `python -m bench.transaction_starts`, and part of `make bench`. Ottla alone.

Ten thousand ids that have had two transactions each are in the log, every state that they went through in a batch of its own, as a
log that was not compacted yet has them. Figures are of the process's own CPU time too, for the machine may have others.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from functools import partial
from pathlib import Path

from bench.group_starts import compact, now, starts, with_broker
from bench.loads import Figures
from ottla.cluster.names import TRANSACTIONS_TOPIC
from ottla.coord.coordinator_partitions import partition_of
from ottla.coord.transactions.records import encode_record
from ottla.coord.transactions.transaction import NO_PRODUCER_ID, Status, Transaction
from ottla.net.startup.start import Running
from ottla.records.batches.builder import build
from ottla.records.batches.header import read_header

IDS, TRANSACTIONS = 10_000, 2
PLACES = frozenset({("input", 0), ("output", 3), ("__consumer_offsets", 17)})


def states(number: int, wall_ms: int) -> list[Transaction]:
    """What an id goes through."""
    known = Transaction(f"copier-{number:05d}", number, 0, 60_000, Status.EMPTY, wall_ms)
    passed = [known]
    for _ in range(TRANSACTIONS):
        begun = known.with_partitions(PLACES, 2, wall_ms)
        ended = begun.prepare(committed=True, transaction_version=2, next_producer_id=NO_PRODUCER_ID, now_ms=wall_ms)
        known = ended.complete(wall_ms)
        passed += [begun, ended, known]
    return passed


def fill(running: Running, ids: int) -> None:
    """Write what so many ids leave behind, in an order in which they take turns."""
    broker, at = running.broker, now()
    broker.transactions.coordinators.ensure()
    for first in range(0, ids, 1_000):
        for turn in zip(*(states(number, at.wall_ms) for number in range(first, min(first + 1_000, ids))), strict=True):
            for state in turn:
                index = partition_of(state.transactional_id, broker.settings.transaction_state_log_num_partitions)
                partition = broker.partitions.get(TRANSACTIONS_TOPIC, index)
                assert partition is not None
                key, value = encode_record(state, version=1)
                batch = build([key], [value], at.wall_ms)
                partition.append(batch, (read_header(batch),), at, origin_client=False)


def measure(ids: int = IDS, times: int = 3) -> list[Figures]:
    """The figures of each start."""
    many = f"start with {ids} transactional ids"
    figures: list[Figures] = []
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as home:
        data = Path(home) / "data"
        asyncio.run(with_broker(data, partial(fill, ids=ids)))
        figures += [{f"{many}, s": took, f"{many}, CPU s": cpu} for took, cpu in starts(data, times)]
        asyncio.run(with_broker(data, partial(compact, topic=TRANSACTIONS_TOPIC)))
        figures += [{f"{many}, compacted, s": took, f"{many}, compacted, CPU s": cpu} for took, cpu in starts(data, times)]
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.transaction_starts", description=__doc__)
    parser.add_argument("--ids", type=int, default=IDS)
    for figures in measure(parser.parse_args().ids):
        print(", ".join(f"{name}: {value:.2f}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
