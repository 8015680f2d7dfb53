"""What a start takes with many groups: `python -m bench.group_starts`, and part of `make bench`. Ottla alone.

A hundred thousand groups of one member each, gone by now, with ten offsets each are in the log; the broker is started on it several
times, before the topic was compacted and after. Figures are of the process's own CPU time too, for the machine may have others.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from functools import partial
from pathlib import Path

import psutil

from bench.loads import Figures
from ottla.broker.partitions.partition import Partition
from ottla.broker.settings import BrokerSettings
from ottla.cluster.names import OFFSETS_TOPIC
from ottla.coord.coordinator_partitions import partition_of
from ottla.coord.records import GroupStored, OffsetCommitted, Stored, StoredMember, encode_record
from ottla.log.cleaner.compaction import Compaction
from ottla.log.cleaner.dirty_range import dirtiness
from ottla.net.server.listeners import Listen
from ottla.net.startup.start import Running, start
from ottla.ports import Disk, Now
from ottla.records.batches.builder import build
from ottla.records.batches.header import read_header
from ottla.testing.process import BrokerProcess

GROUPS, OFFSETS = 100_000, 10
SUBSCRIPTION = b"\0\1\0\0\0\1\0\x05topic\xff\xff\xff\xff\0\0\0\0"
START_TIMEOUT_S = 120.0


def now() -> Now:
    return Now(int(time.time() * 1000), int(time.monotonic() * 1000))


def append(partition: Partition, records: list[Stored], at: Now) -> None:
    encoded = [encode_record(record) for record in records]
    batch = build([key for key, _ in encoded], [value for _, value in encoded], at.wall_ms)
    partition.append(batch, (read_header(batch),), at, origin_client=False)


def group(number: int, at: Now) -> list[list[Stored]]:
    """What the life of one group leaves behind, batch by batch: it begins, commits twice half of its partitions each, and ends."""
    name, member_id = f"group-{number:06d}", f"consumer-{number}-00000000-0000-0000-0000-000000000000"
    member = StoredMember(member_id, None, "consumer", "/127.0.0.1", 300_000, 45_000, SUBSCRIPTION, b"")
    commits: list[Stored] = [
        OffsetCommitted(name, "topic", index, number + index, 0, "", at.wall_ms, topic_id=b"1" * 16) for index in range(OFFSETS)
    ]
    began = GroupStored(name, "consumer", 1, "range", member_id, at.wall_ms, (member,))
    ended = GroupStored(name, "consumer", 2, None, None, at.wall_ms, ())
    return [[began], commits[: OFFSETS // 2], commits[OFFSETS // 2 :], [ended]]


def fill(running: Running, groups: int) -> None:
    """Write what so many groups leave behind, in an order in which they take turns."""
    broker, at = running.broker, now()
    broker.groups.coordinators.ensure()
    for first in range(0, groups, 1_000):
        lives = [group(number, at) for number in range(first, min(first + 1_000, groups))]
        for turn in zip(*lives, strict=True):
            for number, records in enumerate(turn, first):
                index = partition_of(f"group-{number:06d}", broker.settings.offsets_topic_num_partitions)
                partition = broker.partitions.get(OFFSETS_TOPIC, index)
                assert partition is not None
                append(partition, records, at)


def compact(running: Running, topic: str = OFFSETS_TOPIC) -> None:
    """Compact every partition of the topic, as the cleaner would in time."""
    for partition in running.broker.partitions:
        if partition.topic == topic and partition.log.size_bytes:
            partition.log.roll()
            _compact(partition, running.broker.disk)


def _compact(partition: Partition, disk: Disk) -> None:
    at = now()
    for files in Compaction(partition.log, disk, dirtiness(partition.log, 0, at), at, bytes(16)).run():
        for file in files or ():
            file.sync()


async def with_broker(directory: Path, work: partial[None]) -> None:
    running = await start(str(directory), [Listen("127.0.0.1", 0)], BrokerSettings.parse({}))
    try:
        work(running)
    finally:
        await running.stop()


def starts(directory: Path, times: int) -> list[tuple[float, float]]:
    """(seconds until it answers, seconds of CPU) of each of several starts that follow orderly stops."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        with BrokerProcess(directory, start_timeout_s=START_TIMEOUT_S) as broker:
            took = time.perf_counter() - began
            cpu = psutil.Process(broker.pid).cpu_times()
            taken.append((took, cpu.user + cpu.system))
    return taken


def measure(groups: int = GROUPS, times: int = 3) -> list[Figures]:
    """The figures of each start."""
    many = f"start with {groups} groups and {groups * OFFSETS} offsets"
    figures: list[Figures] = []
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as home:
        data = Path(home) / "data"
        asyncio.run(with_broker(data, partial(fill, groups=groups)))
        figures += [{f"{many}, s": took, f"{many}, CPU s": cpu} for took, cpu in starts(data, times)]
        asyncio.run(with_broker(data, partial(compact)))
        figures += [{f"{many}, compacted, s": took, f"{many}, compacted, CPU s": cpu} for took, cpu in starts(data, times)]
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.group_starts", description=__doc__)
    parser.add_argument("--groups", type=int, default=GROUPS)
    for figures in measure(parser.parse_args().groups):
        print(", ".join(f"{name}: {value:.2f}" for name, value in figures.items()))


if __name__ == "__main__":
    main()
