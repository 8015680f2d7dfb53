"""Messages of fetched batches: transaction states by lists of aborted transactions and by markers, bounds, and broken batches."""

from __future__ import annotations

import struct

from ottla.client.consumer.visible_batches import AbortedTransaction
from ottla.console.messages.found_messages import (
    ABORT_MARKER,
    ABORTED,
    COMMIT_MARKER,
    COMMITTED,
    MOST_HEADERS,
    NONE,
    OPEN,
    FoundMessage,
    ReadBatch,
    decide,
    found_message,
    read_batches,
)
from ottla.records.batches.builder import build
from ottla.records.compression.codecs import GZIP

WHERE = ("t", 2)
EVERYTHING = 0, 1 << 40


def a_batch(offset: int, count: int = 1, producer: int = -1, *, commit: bool | None = None, codec: int = 0) -> bytes:
    """Return a batch of a transaction, if it has a producer; with `commit`, its marker."""
    values = [b"v%d" % number for number in range(count)]
    if commit is not None:
        key, value = struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 7)
        return bytes(build([key], [value], 5, producer_id=producer, transactional=True, control=True, base_offset=offset))
    return bytes(build(None, values, 5, producer_id=producer, transactional=producer >= 0, base_offset=offset, codec=codec))


def read(data: bytes, aborted: list[AbortedTransaction] | None, start: int = 0, end: int = 1 << 40) -> list[tuple[int, str]]:
    return [(each.offset, each.transaction) for each in messages(data, aborted, start, end)]


def messages(data: bytes, aborted: list[AbortedTransaction] | None, start: int = 0, end: int = 1 << 40) -> list[FoundMessage]:
    found: list[FoundMessage] = []
    for batch in read_batches(memoryview(data), WHERE, aborted, start, end):
        decide(found, batch)
        found += [found_message(record, batch, 1000) for record in batch.records]
    return found


LOG = b"".join(
    (
        a_batch(0, 2),
        a_batch(2, 2, producer=1),
        a_batch(4, 1, producer=2),
        a_batch(5, commit=False, producer=1),
        a_batch(6, 1, producer=1),
        a_batch(7, commit=True, producer=1),
        a_batch(8, commit=True, producer=2),
        a_batch(9, 1, producer=3),
    )
)


def test_the_list_of_aborted_transactions_decides_what_is_stable() -> None:
    assert read(LOG, [AbortedTransaction(1, 2)]) == [
        (0, NONE), (1, NONE), (2, ABORTED), (3, ABORTED), (4, COMMITTED), (5, ABORT_MARKER), (6, COMMITTED), (7, COMMIT_MARKER),
        (8, COMMIT_MARKER), (9, COMMITTED),
    ]  # fmt: skip


def test_markers_decide_what_is_not_stable_yet() -> None:
    assert read(LOG, None) == [
        (0, NONE), (1, NONE), (2, ABORTED), (3, ABORTED), (4, COMMITTED), (5, ABORT_MARKER), (6, COMMITTED), (7, COMMIT_MARKER),
        (8, COMMIT_MARKER), (9, OPEN),
    ]  # fmt: skip


def test_a_fetch_that_begins_within_an_aborted_transaction_knows_it() -> None:
    assert read(LOG, [AbortedTransaction(1, 2)], start=3, end=6) == [(3, ABORTED), (4, COMMITTED), (5, ABORT_MARKER)]
    assert read(LOG[len(a_batch(0, 2)) :], [AbortedTransaction(1, 1)], start=3, end=4) == [(3, ABORTED)]


def test_only_beginnings_are_kept() -> None:
    headers = [(f"h{number}", b"x" * 5000) for number in range(MOST_HEADERS + 5)]
    data = bytes(build([b"k" * 5000], [b"v" * 9000], 5, [tuple(headers)], codec=GZIP))
    (found,) = messages(data, None)
    assert (len(found.key or b""), len(found.value or b""), found.key_size, found.value_size) == (1000, 1000, 5000, 9000)
    assert (len(found.headers), found.header_count, len(found.headers[0][1] or b"")) == (MOST_HEADERS, MOST_HEADERS + 5, 1000)
    assert (found.compression, found.batch_records, found.kept_bytes) == ("gzip", 1, 2000)


def test_a_batch_that_cannot_be_opened_is_named_and_passed() -> None:
    broken = bytearray(a_batch(2, 3, codec=GZIP))
    broken[-10:] = b"\xff" * 10
    found = list(read_batches(memoryview(a_batch(0, 2) + bytes(broken) + a_batch(5)), WHERE, None, *EVERYTHING))
    assert [len(each.records) for each in found] == [2, 0, 1]
    assert "The batch of t-2 from offset 2 to 4 cannot be opened" in found[1].trouble


def test_bytes_that_are_no_batches_are_named_and_passed() -> None:
    garbage = bytearray(a_batch(2))
    garbage[16] = 9
    found = list(read_batches(memoryview(a_batch(0, 2) + bytes(garbage)), WHERE, None, 0, 3))
    assert [len(each.records) for each in found] == [2, 0]
    assert "cannot be read" in found[1].trouble
    assert found[1].header.next_offset == 3


def test_an_unknown_control_record_decides_nothing() -> None:
    data = bytearray(build([b"\0"], [b""], 5, producer_id=1, transactional=True, control=True, base_offset=1))
    assert read(a_batch(0, 1, producer=1) + bytes(data), None) == [(0, OPEN), (1, "control record")]
    decide([], ReadBatch(next(read_batches(memoryview(data), WHERE, None, *EVERYTHING)).header, NONE, (), 0))
