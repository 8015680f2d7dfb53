"""What the journal costs beside requests: the first acknowledgements, memory, and starts after SIGKILL with a full journal."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import psutil

from bench import raw
from bench.figures import MB, Figure
from bench.journal_loads import ALL, NO_JOURNAL, in_turns, journal_made, number
from bench.log_served import create, settled
from bench.paced import ask
from bench.servers import JOURNAL
from ottla.testing.process import BrokerProcess
from ottla.wire.api.list_offsets import ListOffsetsRequest

FIRST_S: Final = 3.0
"""How long a new broker is looked at: its journal is made in this time."""

PARTITIONS: Final = 64
FULL_MB: Final = 120
"""What is acknowledged before SIGKILL: nearly all that both files of the journal take."""

LOST_MB: Final = 56
"""The same of the logs' only copy: a file of the journal that was left for the other one is soon in the logs' own files."""

BATCH: Final = raw.batch(bytes(1000), 16)
TOPIC: Final = "killed"
SETTINGS: Final[Sequence[dict[str, object]]] = (JOURNAL, NO_JOURNAL)
"""With the journal, and without."""


def first_acknowledgements(rounds: int = 3) -> list[Figure]:
    """A producer with acks=all on a new data directory."""
    ours, without = in_turns([partial(first, settings) for settings in SETTINGS], rounds, cold=0)
    limit = f"without the journal: {number(without[0])}; p99 {number(ours[1])} and {number(without[1])}"
    return [Figure(f"acks=all on a new data directory, worst of {FIRST_S:.0f} s, ms", number(ours[0]), limit, "", None)]


def first(settings: dict[str, object]) -> list[float]:
    """[worst, p99] in ms"""
    with TemporaryDirectory(prefix="ottla-bench-journal-") as home, BrokerProcess(f"{home}/data", settings) as broker:
        create(broker.address, TOPIC)
        began, took = time.monotonic(), list[float]()
        while time.monotonic() - began < FIRST_S:
            took += raw.one_at_a_time(broker.address, TOPIC, 10, acks=ALL)
    return [max(took) * 1000, sorted(took)[len(took) * 99 // 100] * 1000]


def memory() -> list[Figure]:
    """Resident memory after the journal was written full once."""
    ours, without = (resident_mb(settings) for settings in SETTINGS)
    more = ours - without
    limit = f"without the journal: {without:.0f}"
    return [
        Figure(f"resident memory after {2 * FULL_MB} MB, acks=all, MB", f"{ours:.0f}", limit, f"≤ 8 more: {more:.0f}", more <= 8)
    ]


def resident_mb(settings: dict[str, object]) -> float:
    with TemporaryDirectory(prefix="ottla-bench-journal-") as home, BrokerProcess(f"{home}/data", settings) as broker:
        create(broker.address, TOPIC, PARTITIONS)
        for _ in range(2):
            fill(broker.address)
        return float(psutil.Process(broker.pid).memory_info().rss) / MB


def fill(address: str, size_mb: int = FULL_MB) -> None:
    """Produce, acks=all, a few requests in flight, to all partitions in turn."""
    for index in range(PARTITIONS):
        raw.pipelined(address, TOPIC, size_mb * MB // PARTITIONS // len(BATCH), 5, 16, size=1000, acks=ALL, index=index)


def killed(rounds: int = 3) -> list[Figure]:
    """A broker starts after SIGKILL with a full journal; then once more where the logs have lost all that the journal holds.

    The latter is what a power cut can leave. That every record is there afterwards is part of it.
    """
    starts = [[start_s(settings, is_lost=is_lost) for settings, is_lost in CASES] for _ in range(rounds)]
    ours, without, lost = (median(taken) for taken in zip(*starts, strict=True))
    found = []
    for what, took_s in (("with a full journal", ours), ("with all of it to put back", lost)):
        more = took_s - without
        limit = f"without the journal: {without:.2f}"
        found.append(Figure(f"start after SIGKILL {what}, s", f"{took_s:.2f}", limit, f"< 1 more: {more:.2f}", more < 1))
    return found


CASES: Final[Sequence[tuple[dict[str, object], bool]]] = ((JOURNAL, False), (NO_JOURNAL, False), (JOURNAL, True))


def start_s(settings: dict[str, object], *, is_lost: bool) -> float:
    """Seconds that the start after SIGKILL takes."""
    with TemporaryDirectory(prefix="ottla-bench-journal-") as home:
        data = Path(home, "data")
        with BrokerProcess(data, settings) as broker:
            create(broker.address, TOPIC, PARTITIONS)
            if is_lost:
                wait_for_journal(data, broker.address)
            fill(broker.address, LOST_MB if is_lost else FULL_MB)
            before = ends(broker.address)
            broker.kill()
            if is_lost:
                for path in data.glob(f"{TOPIC}-*/*.log"):
                    path.write_bytes(b"")
            settled(home)
            began = time.monotonic()
            broker.start()
            took_s = time.monotonic() - began
            assert ends(broker.address) == before, "records are gone"
    return took_s


def wait_for_journal(data: Path, address: str) -> None:
    """Have the journal made, and return once it is there; the record for that goes into the own file of another topic."""
    create(address, "first")
    raw.one_at_a_time(address, "first", 1, acks=ALL)
    journal_made(data)


def ends(address: str) -> list[int]:
    """The offset at the end of each partition."""
    of_partition = ListOffsetsRequest.ListOffsetsPartition
    wanted = [of_partition(partition_index=index, timestamp=-1) for index in range(PARTITIONS)]
    topics = [ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=wanted)]
    answer = ask(address, 2, 5, ListOffsetsRequest(replica_id=-1, topics=topics))
    assert not any(one.error_code for one in answer.topics[0].partitions), answer
    return [one.offset for one in sorted(answer.topics[0].partitions, key=lambda one: one.partition_index)]
