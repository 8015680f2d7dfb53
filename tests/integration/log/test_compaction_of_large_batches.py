"""Batches that open to very much, in a compacted log: a pass takes bounded memory, and none of them stands in its way."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from ottla.log.cleaner import batches as compaction_batches
from ottla.log.cleaner.batches import MOST_BYTES
from ottla.log.cleaner.compaction import Compaction, chunks
from ottla.log.cleaner.dirty_range import dirtiness
from ottla.log.log import Log, LogConfig
from ottla.ports import Buffer
from ottla.records.batches.builder import build
from ottla.records.batches.columns import ROW_BYTES, open_batches
from ottla.records.batches.header import batches
from ottla.records.compression.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD
from ottla.sim.disk import SimDisk
from tests.unit.log.batches import NOW, sync

MB = 1 << 20


def holding(*contents: Buffer) -> tuple[SimDisk, Log]:
    disk = SimDisk()
    log = Log.open(disk, "t-0", LogConfig(cleanup_policy="compact"), NOW, clean=False)
    for content in contents:
        batch = bytearray(content)
        log.append(batch, [header for _, header in batches(batch)], 0, NOW)
    log.roll()
    sync(log)
    return disk, log


def compacted(disk: SimDisk, log: Log) -> list[int]:
    """The base offsets of the batches with records that a pass leaves."""
    for files in Compaction(log, disk, dirtiness(log, 0, NOW), NOW, bytes(16)).run():
        for file in files or ():
            file.sync()
    first = log.segments[0]
    return [header.base_offset for view in chunks(first, 0) for _, header in batches(view) if header.record_count]


def keyed(key: bytes, size: int, codec: int) -> Buffer:
    return build([key], [bytes(size)], NOW.wall_ms, codec=codec)


def test_many_batches_that_open_to_much_are_not_opened_together() -> None:
    disk, log = holding(*[keyed(b"key", 12 * MB, ZSTD) for _ in range(25)], keyed(b"other", 5, ZSTD))
    assert log.segments[0].size < 40_000, "so that they come in one read"
    assert compacted(disk, log) == [24, 25]


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_batch_that_opens_to_too_much_stays_as_it_is(codec: int) -> None:
    large = keyed(b"large", 70 * MB, codec)
    disk, log = holding(keyed(b"a", 5, codec), large, keyed(b"a", 5, codec), large)
    assert compacted(disk, log) == [1, 2, 3]


def test_records_count_by_their_columns() -> None:
    count = MOST_BYTES // ROW_BYTES // 2
    many = build([b""] * count, [b""] * count, NOW.wall_ms, codec=ZSTD)
    disk, log = holding(many, many, many)
    assert [len(list(batches(view))) for view in chunks(log.segments[0], 0)] == [1, 1, 1]
    assert compacted(disk, log) == [2 * count]


def test_large_batches_are_opened_where_others_do_not_wait() -> None:
    """At each pause before a large batch its work can be done on another thread; what comes of it is the same."""
    large = [
        build([b"key-%d" % (key % 900) for key in range(1000)], [bytes(5000)] * 1000, NOW.wall_ms, codec=ZSTD) for _ in range(2)
    ]
    small = [keyed(b"key-%d" % key, 500, ZSTD) for key in range(30)]
    found: list[list[int]] = []
    for elsewhere in (False, True):
        disk, log = holding(large[0], *small, large[1], *small)
        pass_ = Compaction(log, disk, dirtiness(log, 0, NOW), NOW, bytes(16))
        threads = list[int]()

        def work(steps: Iterator[int], ran: list[int]) -> None:
            ran.append(sum(steps))

        for files in pass_.run():
            if elsewhere and pass_.large is not None:
                thread = threading.Thread(target=work, args=(pass_.large.steps(), threads))
                thread.start()
                thread.join()
            for file in files or ():
                file.sync()
        assert threads == ([MOST_BYTES] * 4 if elsewhere else []), "two batches, each of them twice"
        found.append([header.record_count for view in chunks(log.segments[0], 0) for _, header in batches(view)])
    assert found[0] == found[1] == [870, *[1] * 30]


@pytest.mark.parametrize("codec", [NONE, LZ4, ZSTD])
def test_a_large_batch_of_which_records_go_is_written_in_pieces(monkeypatch: pytest.MonkeyPatch, codec: int) -> None:
    monkeypatch.setattr(compaction_batches, "WRITTEN_AT_ONCE_BYTES", 100)
    values = [bytes([at % 251]) * (at * 7 % 2000) for at in range(300)]
    disk, log = holding(build([b"%d" % (at % 200) for at in range(300)], values, NOW.wall_ms, codec=codec))
    compacted(disk, log)
    records = open_batches(log.segments[0].file.read(0, log.segments[0].size), check_crcs=True).records()
    assert [(record.offset, record.key, record.value) for record in records] == [
        (at, b"%d" % (at % 200), values[at]) for at in range(100, 300)
    ]
