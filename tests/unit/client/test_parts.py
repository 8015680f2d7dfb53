"""A chunk that opens to very much is handed out a part at a time, and what cannot be opened takes nothing before it along."""

from __future__ import annotations

import pytest

from ottla.client.consumer import cursor as cursors
from ottla.client.consumer.cursor import Cursor
from ottla.client.consumer.fetcher import Chunk
from ottla.client.errors import BrokerError
from ottla.client.types import TopicPartition
from ottla.records.batches.columns import build
from ottla.records.batches.header import HEADER_BYTES, stamp
from ottla.records.compression.codecs import DEFAULT_LIMIT_BYTES, GZIP

WHERE = TopicPartition("t", 0)
ROW = bytes(64 * 1024)


def batch(base_offset: int, rows: int, row: bytes = ROW, codec: int = GZIP) -> bytes:
    return bytes(build(None, [row] * rows, 0, base_offset=base_offset, codec=codec))


def damaged(base_offset: int, rows: int) -> bytes:
    made = batch(base_offset, rows)
    return made[:HEADER_BYTES] + bytes(len(made) - HEADER_BYTES)


def chunk_of(*batches: bytes, from_offset: int, next_offset: int) -> Chunk:
    return Chunk(WHERE, [memoryview(b"".join(batches))], from_offset, next_offset)


def handed_out(cursor: Cursor) -> list[list[int]]:
    """The offsets of each part, with the position behind it."""
    found = []
    while not cursor.exhausted:
        found.append([record.offset for record in cursor.next_records(10_000)])
        assert cursor.position() == found[-1][-1] + 1
        assert cursor.first_unprocessed() == found[-1][0]
        cursor.mark_processed()
    return found


@pytest.mark.slow
def test_more_than_may_be_opened_at_once_comes_in_parts() -> None:
    one = bytearray(batch(0, 16))
    batches = []
    for index in range(DEFAULT_LIMIT_BYTES // (16 * len(ROW)) + 8):
        stamp(one, 0, 16 * index, 0)
        batches.append(bytes(one))
    total = 16 * len(batches)
    assert total * len(ROW) > DEFAULT_LIMIT_BYTES
    found = handed_out(Cursor(chunk_of(*batches, from_offset=3, next_offset=total)))
    assert [offset for part in found for offset in part] == list(range(3, total))
    assert max(map(len, found)) * len(ROW) <= cursors.TOGETHER_BYTES + 16 * len(ROW)


def test_columns_come_in_parts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursors, "TOGETHER_BYTES", 3 * len(ROW))
    cursor = Cursor(chunk_of(batch(0, 2), batch(2, 2), batch(4, 2), from_offset=1, next_offset=6))
    found = []
    while not cursor.exhausted:
        found.append([list(columns.offsets) for columns in cursor.remaining_columns()])
        assert cursor.held
        cursor.mark_processed()
    assert found == [[[1], [2, 3]], [[4, 5]]]


def test_what_is_before_a_batch_that_cannot_be_opened_is_handed_out_and_what_is_behind_it_waits() -> None:
    batches = batch(0, 2), batch(2, 2), damaged(4, 3), batch(7, 1)
    cursor = Cursor(chunk_of(*batches, from_offset=1, next_offset=8))
    assert [record.offset for record in cursor.next_records(100)] == [1, 2, 3]
    assert not cursor.exhausted
    cursor.mark_processed()
    for _ in range(2):
        with pytest.raises(BrokerError, match=r"Opening t-0: CORRUPT_MESSAGE: The batch of offsets 4 to 6 .* seek to offset 7 to"):
            cursor.next_records(100)
    assert cursor.position() == 4


def test_what_is_not_compressed_comes_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursors, "TOGETHER_BYTES", 1)
    batches = [batch(index, 1, b"v", codec=0) for index in range(5)]
    assert handed_out(Cursor(chunk_of(*batches, from_offset=0, next_offset=5))) == [[0, 1, 2, 3, 4]]


def test_nothing_more_comes_of_a_part_that_was_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursors, "TOGETHER_BYTES", 1)
    cursor = Cursor(chunk_of(batch(0, 2), batch(2, 2), from_offset=0, next_offset=4))
    assert len(cursor.next_records(1)) == 1
    assert cursor.drop() == 1
    cursor.mark_processed()
    assert cursor.exhausted
    assert cursor.position() == 1
