"""The batches that a consumer reads: with read_committed without aborted transactions, and by default without control batches.

Only batch headers are read; records stay encoded. Fetched bytes without control batches and aborted transactions, the usual case,
stay one piece, and a kernel passes their headers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.records.batches.header import CONTROL_BIT, BadBatch, BatchHeader, batches, crc_is_valid
from ottla.records.kernel_sound import pass_alike


class AbortedTransaction(NamedTuple):
    """An aborted transaction. Readers skip its producer's records from `first_offset` to the producer's next control batch."""

    producer_id: int
    first_offset: int


class Visible(NamedTuple):
    """The fetched batches that a reader can see: runs of whole batches (`pieces`), and the offset of the next fetch
    (`next_offset`).

    `next_offset` is None if no whole batch was fetched.
    """

    pieces: list[memoryview]
    next_offset: int | None
    record_count: int


def visible(
    records: memoryview, aborted: Sequence[AbortedTransaction] = (), *, check_crcs: bool = False, control: bool = False
) -> Visible:
    """Return the fetched batches that a reader may see, and with `control` control batches, too.

    `aborted` is empty for read_uncommitted.

    Raises `BadBatch` if the bytes are not batches, or with `check_crcs` if a checksum is wrong.
    """
    if not aborted:
        passed, record_count, following, has_all = pass_alike(records, 0 if control else CONTROL_BIT, 0, check_crcs)
        if has_all:
            return Visible([records[:passed]], following, record_count) if passed else Visible([], None, 0)
    void = sorted(aborted, key=lambda transaction: transaction.first_offset)
    pieces: list[memoryview] = []
    active: set[int] = set()
    start = end = count = 0
    next_offset: int | None = None
    for position, header in batches(records):
        if check_crcs and not crc_is_valid(records[position : position + header.size]):
            raise BadBatch(position, "the checksum does not match the batch's header: the batch was damaged in transit.")
        if void:
            _open_aborted(void, active, header)
        if _hidden(header, active, control):
            if end > start:
                pieces.append(records[start:end])
            start = end = position + header.size
        else:
            end = position + header.size
            count += header.record_count
        next_offset = header.next_offset
    if end > start:
        pieces.append(records[start:end])
    return Visible(pieces, next_offset, count)


def _open_aborted(void: list[AbortedTransaction], active: set[int], header: BatchHeader) -> None:
    while void and void[0].first_offset <= header.last_offset:
        active.add(void.pop(0).producer_id)


def _hidden(header: BatchHeader, active: set[int], control: bool) -> bool:
    if header.is_control:
        active.discard(header.producer_id)
        return not control
    return header.is_transactional and header.producer_id in active
