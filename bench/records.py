"""Speed of the records, each figure beside a peer or what the machine itself sets as a limit, in the same run.

Opening, building, checking on arrival, objects and conversion of batches; `bench.wire` writes the page.
"""

from __future__ import annotations

import gc
import random
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import cramjam
from aiokafka.record._crecords.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from crc32c import crc32c

from ottla.client.types import TopicPartition
from ottla.records import kernel
from ottla.records.batches.arrow import to_arrow
from ottla.records.batches.builder import build
from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import HEADER_BYTES, read_header
from ottla.records.batches.verification import Demands, check_at_once
from ottla.records.compression import codecs
from ottla.records.message_sets.conversion import down_convert
from ottla.wire import decode, encode
from ottla.wire.api.fetch import FetchResponse

NOW = 1_700_000_000_000
COUNT = 10_000
BATCH_BYTES = 1_000_000
"""About what a broker takes as one batch."""
ROUNDS = 9
ROUND_S = 0.05
REPEATS = 10_000
MB = 1e6
RECORDS = "M records/s"


class Figure(NamedTuple):
    """One line: our figure, what stands beside it, and what is to be reached: of the figure, or of its ratio to that."""

    name: str
    unit: str
    ours: float
    beside: str = ""
    theirs: float | None = None
    wanted: float | None = None
    wanted_ratio: float | None = None

    @property
    def ratio(self) -> float | None:
        return self.ours / self.theirs if self.theirs else None

    @property
    def verdict(self) -> str:
        asked = []
        if self.wanted is not None:
            asked.append((f"≥ {self.wanted:g}", self.ours >= self.wanted))
        if self.wanted_ratio is not None and self.ratio is not None:
            asked.append((f"≥ {self.wanted_ratio:g} times", self.ratio >= self.wanted_ratio))
        return ", ".join(f"{what}: {'reached' if reached else '**missed**'}" for what, reached in asked)


def seconds(*calls: Callable[[], Any]) -> list[float]:
    """The best time of each call, measured in turn so that a busy moment hits all; results die within the time, as for users."""
    best = [float("inf")] * len(calls)
    for _ in range(ROUNDS):
        for index, call in enumerate(calls):
            for _ in range(5):
                start = time.perf_counter()
                call()
                best[index] = min(best[index], time.perf_counter() - start)
    return best


def lasting(*calls: Callable[[], Any]) -> list[float]:
    """The time of each call when it is repeated, with the garbage collector's share, which belongs to those who make objects.

    What there was before is kept from the collector, or its share would be that of this program. Of the processor's time, so that
    whoever else is at work on the machine disturbs less: rounds are long.
    """
    gc.collect()
    gc.freeze()
    best = [float("inf")] * len(calls)
    for _ in range(ROUNDS):
        for index, call in enumerate(calls):
            done, start = 0, time.process_time()
            while (taken := time.process_time() - start) < ROUND_S:
                call()
                done += 1
            best[index] = min(best[index], taken / done)
    gc.unfreeze()
    return best


def text(size: int, choose: random.Random) -> bytes:
    """Half letters, half digits: codecs halve it about, as they do with what people store."""
    words = b"flight arrival departure carrier delayed JFK LAX ORD ATL".split()
    out = b""
    while len(out) < size:
        out += choose.choice(words) + b'":"%d",' % choose.randrange(10**6)
    return out[:size]


def rows(size: int, *, keyed: bool, count: int = COUNT) -> tuple[list[bytes | None] | None, list[bytes], list[int]]:
    choose = random.Random(7)
    keys: list[bytes | None] = [b"k%07d" % n for n in range(count)]
    return keys if keyed else None, [text(size, choose) for _ in range(count)], [NOW + n // 10 for n in range(count)]


def aiokafka_objects(batch: bytes) -> list[Any]:
    return list(MemoryRecords(batch).next_batch())


def opening(size: int, wanted: float) -> Iterator[Figure]:
    count = BATCH_BYTES // size
    batch = bytes(build(*rows(size, keyed=False, count=count)))
    columns, arrow, peer = (
        count / taken / 1e6
        for taken in lasting(
            lambda: open_batches(batch), lambda: to_arrow(open_batches(batch), topic="t"), lambda: aiokafka_objects(batch)
        )
    )
    yield Figure(f"open into columns, {size} B", RECORDS, columns, "aiokafka's objects", peer, wanted)
    yield Figure(f"open into a pyarrow.RecordBatch, {size} B", RECORDS, arrow, "aiokafka's objects", peer)


def objects(size: int) -> Iterator[Figure]:
    count = BATCH_BYTES // size
    batch = bytes(build(*rows(size, keyed=True, count=count)))
    where = TopicPartition("t", 0)
    plain, consumed, peer = (
        count / taken / 1e6
        for taken in lasting(
            lambda: open_batches(batch).records(), lambda: open_batches(batch).records(where), lambda: aiokafka_objects(batch)
        )
    )
    yield Figure(f"objects, {size} B and a key", RECORDS, plain, "aiokafka", peer, wanted_ratio=1.5)
    yield Figure(f"the consumer's objects, {size} B and a key", RECORDS, consumed, "aiokafka", peer, wanted_ratio=1.5)


def aiokafka_build(keys: list[bytes | None] | None, values: list[bytes], times: list[int]) -> Any:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 30)
    for index, (time_ms, value) in enumerate(zip(times, values, strict=True)):
        builder.append(index, time_ms, keys[index] if keys else None, value, [])
    return builder.build()


def building(*, keyed: bool) -> Iterator[Figure]:
    made = rows(92 if keyed else 100, keyed=keyed)
    ours, peer = rates(lambda: build(*made), lambda: aiokafka_build(*made))
    name = "build of Python bytes, 92 B and a key of 8" if keyed else "build of Python bytes, 100 B"
    yield Figure(name, RECORDS, ours, "aiokafka", peer, 25)


def checking() -> Iterator[Figure]:
    """The look at each record on arrival, beside the checksum over the same bytes, which every broker computes."""
    batch = memoryview(build(*rows(92, keyed=True)))
    header, demands = read_header(batch), Demands()
    ours, limit = rates(lambda: check_at_once(batch, header, demands, NOW), lambda: crc32c(batch[HEADER_BYTES:]))
    yield Figure("check of records on arrival, 92 B and a key", RECORDS, ours, "CRC-32C of the same", limit, 60)
    one = memoryview(build(None, [bytes(100)], NOW))
    first = read_header(one)
    taken, limit_s = seconds(repeated(lambda: check_at_once(one, first, demands, NOW)), repeated(lambda: crc32c(one)))
    yield Figure(
        "check of a batch of one record", "M batches/s", REPEATS / taken / 1e6, "CRC-32C of the same", REPEATS / limit_s / 1e6, 1
    )


def repeated(call: Callable[[], Any]) -> Callable[[], None]:
    def run() -> None:
        for _ in range(REPEATS):
            call()

    return run


def converting(magic: int) -> Iterator[Figure]:
    """Bytes of records, before compression, per second; the limit is the codec's own work on them."""
    batch = bytes(build(*rows(100, keyed=True), codec=codecs.LZ4))
    body = bytes(codecs.decompress(codecs.LZ4, batch[HEADER_BYTES:]))
    packed = cramjam.lz4.compress_block(body)
    taken, limit = seconds(
        lambda: b"".join(down_convert(batch, magic)),
        lambda: (cramjam.lz4.decompress_block(packed), cramjam.lz4.compress_block(body)),
    )
    size = len(body) / MB
    yield Figure(f"down-conversion 2 → {magic}, lz4, 100 B", "MB/s", size / taken, "lz4 alone", size / limit, 150)


def fetch_response_mb() -> float:
    """What decoding a fetch response of 100 MB takes beyond its buffer."""
    of = FetchResponse
    part = of.PartitionData(partition_index=0, high_watermark=1, records=bytes(100_000_000))
    frame = encode(of(responses=[of.FetchableTopicResponse(topic="t", partitions=[part])]), 12)
    tracemalloc.start()
    decode(of, 12, frame)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / MB


def rates(*calls: Callable[[], Any]) -> list[float]:
    """Millions of records a second."""
    return [COUNT / taken / 1e6 for taken in seconds(*calls)]


def figures() -> Iterator[Figure]:
    if not kernel.COMPILED:
        raise SystemExit(
            "The kernels are not compiled, and figures without them say nothing: install a C compiler, then reinstall Ottla."
        )
    yield from opening(100, 60)
    yield from opening(1000, 5)
    yield from objects(100)
    yield from objects(1000)
    yield from building(keyed=False)
    yield from building(keyed=True)
    yield from checking()
    yield from converting(1)
    yield from converting(0)
