"""The decoding of a chunk. A chunk that is too large for memory, or damaged, is decoded part by part. Pure functions.

The pieces of a chunk have control batches only if the user wants them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.client.consumer.fetcher import Chunk
from ottla.client.errors import BrokerError, broker_error
from ottla.client.types import TopicPartition
from ottla.records.batches.columns import Columns, open_batches
from ottla.records.batches.header import BadBatch, BatchHeader, batches
from ottla.records.compression.codecs import CodecFailed
from ottla.wire.errors import CORRUPT_MESSAGE

TOGETHER_BYTES: Final = 64 * 1024 * 1024
"""The total size to which compressed batches may expand when they are decoded together. A larger batch is decoded alone."""


class OpenedPart(NamedTuple):
    """The decoded records at the beginning of a chunk, and the rest of the chunk, or None."""

    columns: list[Columns]
    rest: Chunk | None


def open_part(chunk: Chunk, *, one_by_one: bool) -> OpenedPart:
    """Return the first records of a chunk as columns, and the rest of the chunk.

    All records are returned if they fit in memory and are undamaged. `one_by_one` skips the attempt to decode them together. Raises
    `BrokerError` (CORRUPT_MESSAGE) if the first batch cannot be decoded. A damaged batch after it stays in the rest.
    """
    if not one_by_one:
        left_bytes, opened = TOGETHER_BYTES, []
        try:
            for piece in chunk.pieces:
                columns = open_batches(piece, from_offset=chunk.from_offset, limit_bytes=left_bytes, control=True)
                left_bytes -= _new_bytes(columns)
                opened.append(columns)
        except (BadBatch, CodecFailed):
            pass  # too large together, or one batch is damaged: decode one by one below
        else:
            return OpenedPart([columns for columns in opened if columns.record_count], None)
    return _first_batches(chunk)


def _first_batches(chunk: Chunk) -> OpenedPart:
    """Decode the first batches, at least one, up to the memory limit or a damaged batch."""
    opened: list[Columns] = []
    sum_bytes = 0
    for index, piece in enumerate(chunk.pieces):
        for position, header in batches(piece):
            if sum_bytes >= TOGETHER_BYTES:
                return OpenedPart(opened, _from(chunk, index, position, header))
            try:
                columns = open_batches(piece[position : position + header.size], from_offset=chunk.from_offset, control=True)
            except (BadBatch, CodecFailed) as error:
                if not opened:
                    raise _unreadable(chunk.where, header, error) from error
                return OpenedPart(opened, _from(chunk, index, position, header))
            sum_bytes += _new_bytes(columns)
            if columns.record_count:
                opened.append(columns)
    return OpenedPart(opened, None)


def _from(chunk: Chunk, index: int, position: int, header: BatchHeader) -> Chunk:
    """Return the rest of a chunk, from the batch in piece `index` at `position` on."""
    pieces = [chunk.pieces[index][position:], *chunk.pieces[index + 1 :]]
    return chunk._replace(pieces=pieces, from_offset=max(chunk.from_offset, header.base_offset))


def _new_bytes(columns: Columns) -> int:
    """Return the number of decompressed bytes in `columns`, without uncompressed batches, which are views of fetched bytes."""
    return sum(len(run.data) for run in columns.runs if run.header.codec)


def _unreadable(where: TopicPartition, header: BatchHeader, error: BadBatch | CodecFailed) -> BrokerError:
    which = f"The batch of offsets {header.base_offset} to {header.last_offset} cannot be opened"
    return broker_error(
        CORRUPT_MESSAGE,
        f"Opening {where.topic}-{where.partition}",
        f"{which} ({str(error).rstrip('.')}): seek to offset {header.next_offset} to read on.",
    )
