"""The batches that a consumer sees in fetched bytes with markers, aborted transactions and damage."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.client.consumer.cursor import Cursor
from ottla.client.consumer.fetcher import Chunk
from ottla.client.consumer.visible_batches import AbortedTransaction, visible
from ottla.records.batches.header import BadBatch
from tests.unit.client.test_fetcher import A, batch


def control(base_offset: int, producer_id: int) -> bytes:
    return batch(base_offset, [b""], producer_id=producer_id, producer_epoch=0, transactional=True, control=True)


def in_transaction(base_offset: int, producer_id: int, size: int = 1) -> bytes:
    return batch(base_offset, [b"v"] * size, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)


def offsets(buffer: bytes, aborted: Sequence[AbortedTransaction] = (), *, control: bool = False) -> list[int]:
    seen = visible(memoryview(buffer), aborted, control=control)
    chunk = Chunk(A, seen.pieces, 0, seen.next_offset or 0)
    return [record.offset for record in Cursor(chunk).open()]


def test_control_batches_are_seen_only_where_they_are_asked_for() -> None:
    buffer = in_transaction(0, 5) + control(1, 5) + batch(2, [b"w"])
    assert offsets(buffer) == [0, 2]
    assert offsets(buffer, control=True) == [0, 1, 2]
    aborted = [AbortedTransaction(5, 0)]
    assert offsets(buffer, aborted, control=True) == [1, 2]


def test_aborted_transactions_are_not_seen_from_their_first_offset_to_their_end() -> None:
    buffer = (
        in_transaction(0, 5) + in_transaction(1, 6) + in_transaction(2, 5) + control(3, 5) + in_transaction(4, 5) + control(5, 6)
    )
    assert offsets(buffer, [AbortedTransaction(5, 2)]) == [0, 1, 4]
    assert offsets(buffer, [AbortedTransaction(5, 0), AbortedTransaction(6, 1)]) == [4]
    assert offsets(buffer) == [0, 1, 2, 4]


def test_a_buffer_of_hidden_batches_alone_still_moves_the_reader_on() -> None:
    seen = visible(memoryview(control(7, 5)))
    assert (seen.pieces, seen.next_offset) == ([], 8)


def test_a_buffer_without_transactions_is_one_uncut_piece() -> None:
    buffer = memoryview(batch(0, [b"x"]) + batch(1, [b"y"]))
    [piece] = visible(buffer, check_crcs=True).pieces
    assert piece.obj is buffer.obj
    assert len(piece) == len(buffer)


def test_a_checksum_that_differs_is_found_only_where_it_is_asked_for() -> None:
    damaged = bytearray(batch(0, [b"x" * 20]))
    damaged[-1] ^= 1
    assert visible(memoryview(damaged)).next_offset == 1
    with pytest.raises(BadBatch, match="checksum"):
        visible(memoryview(damaged), check_crcs=True)
