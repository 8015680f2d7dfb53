"""What a fetch of an old version costs, whose batches become message sets on the way: `python -m bench.old_fetch`.

One client reads a topic in version 1, as Kafka 0.9 did, a megabyte at a time, while another asks for versions again and again. Told
are megabytes of records as they are opened, by the clock and by the broker's processor time, what the broker's memory grew by, and
how long the other client waited: while nothing goes on, and meanwhile. The same read in version 4, which converts nothing, stands
beside.
"""

from __future__ import annotations

import random
import struct
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

from bench.paced import Latency, latency
from ottla.records.batches.builder import build
from ottla.records.compression import codecs
from ottla.testing import BrokerProcess
from tests.support.frames import FETCH, Cursor, Raw, array, fetch_v4, string

MAX_BYTES = 1 << 20
TOTAL_BYTES = 100_000_000
SHAPES = (("lz4", 1000, 100), ("lz4", 1000, 1000), ("lz4", 100, 1000), ("lz4", 100, 10), ("none", 1000, 1000), ("gzip", 1000, 1000))
"""(codec, bytes of a value, records of a batch)"""

WORDS = [b"%012x" % (number * 0x9E3779B97F4A7C15 % (1 << 48)) for number in range(300)]


class Read(NamedTuple):
    """What reading it all took: seconds by the clock and of the broker's processor, bytes of memory that it grew by."""

    took_s: float
    cpu_s: float
    grown_bytes: int


def text(size: int, chance: random.Random) -> bytes:
    """Words, of which a codec leaves about a third."""
    return b" ".join(chance.choice(WORDS) for _ in range(size // 12 + 1))[:size]


def records_of(reply: Cursor, version: int) -> bytes:
    """The records of the one partition in a fetch response."""
    reply.next_records("ii")
    reply.string()
    reply.next_records("iihq" if version < 4 else "iihqqi")
    return reply.blob()


def next_offset(records: bytes, version: int) -> int:
    """Where a reader goes on: after the last whole message, or batch."""
    pos, after = 0, -1
    while pos + 27 <= len(records):
        offset, size = struct.unpack_from(">qi", records, pos)
        if pos + 12 + size > len(records):
            break
        after = offset + 1 + (struct.unpack_from(">i", records, pos + 23)[0] if version >= 4 else 0)
        pos += 12 + size
    return after


def read_all(raw: Raw, pid: int, end: int, version: int) -> Read:
    process = psutil.Process(pid)
    before, began = process.cpu_times(), time.perf_counter()
    memory = largest = process.memory_info().rss
    offset = 0
    while offset < end:
        body = struct.pack(">iii", -1, 0, 1) + array(string("t") + array(struct.pack(">iqi", 0, offset, MAX_BYTES)))
        reply = raw.ask(FETCH, version, body if version < 4 else fetch_v4("t", 0, offset, max_bytes=MAX_BYTES))
        offset = next_offset(records_of(reply, version), version)
        largest = max(largest, process.memory_info().rss)
    took, after = time.perf_counter() - began, process.cpu_times()
    return Read(took, after.user + after.system - before.user - before.system, largest - memory)


@contextmanager
def another_client(address: str) -> Iterator[list[float]]:
    """Seconds that a client waited who asks for versions a thousand times a second, at most."""
    waited: list[float] = []
    over = threading.Event()

    def ask() -> None:
        with Raw(address, timeout_s=60) as raw:
            while not over.wait(0.001):
                began = time.perf_counter()
                raw.is_served()
                waited.append(time.perf_counter() - began)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield waited
    finally:
        over.set()
        thread.join()


def measure(home: Path, codec: str, value_bytes: int, count: int) -> str:
    """One line of the table."""
    chance = random.Random(1)
    values = [text(value_bytes, chance) for _ in range(count)]
    batch = bytes(build(None, values, 1_700_000_000_000, codec=codecs.NAMES.index(codec)))
    batches = TOTAL_BYTES // (value_bytes * count)
    settings = {"ottla.acks.all.sync": "false", "message.max.bytes": 20_000_000}
    with BrokerProcess(home / f"{codec}-{value_bytes}-{count}", settings) as broker, Raw(broker.address, timeout_s=60) as raw:
        raw.create_topic("t")
        for _ in range(batches):
            raw.produce("t", batch, acks=1)
        with another_client(broker.address) as idle:
            time.sleep(1)
        plain = read_all(raw, broker.pid, batches * count, 4)
        with another_client(broker.address) as meanwhile:
            old = read_all(raw, broker.pid, batches * count, 1)
    return row(f"{codec}, {count} x {value_bytes} B, {len(batch)} B", old, plain, latency(idle), latency(meanwhile))


def row(shape: str, old: Read, plain: Read, idle: Latency, meanwhile: Latency) -> str:
    mb = TOTAL_BYTES / 1e6
    speeds = f"{mb / old.took_s:.0f} | {mb / old.cpu_s:.0f} | {mb / max(plain.cpu_s, 0.01):.0f}"
    return f"| {shape} | {speeds} | {old.grown_bytes / 1e6:.1f} | {idle} | {meanwhile} |"


def main() -> None:
    print("| batches | MB/s | MB per CPU second | in version 4 | grown by MB | idle ms: median / p99 / worst | meanwhile ms |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as home:
        for shape in SHAPES:
            print(measure(Path(home), *shape), flush=True)


if __name__ == "__main__":
    main()
