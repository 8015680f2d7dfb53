"""The records of one chunk as columns, with the offsets of their partition: for users that handle many records at once."""

from __future__ import annotations

from typing import NamedTuple

from ottla.client.consumer.cursor import Cursor
from ottla.client.consumer.fetcher import UNKNOWN_OFFSET, Fetcher
from ottla.client.types import TopicPartition
from ottla.records.batches.columns import Columns


class FetchedColumns(NamedTuple):
    """Records of one partition as columns, up to `next_offset`.

    The high watermark and the other offsets are those of the partition's last fetch, -1 if unknown.
    """

    where: TopicPartition
    columns: list[Columns]
    next_offset: int
    log_start_offset: int
    last_stable_offset: int
    high_watermark: int


def fetched_columns(cursor: Cursor, fetcher: Fetcher) -> FetchedColumns:
    """Return all remaining records of the decoded part of a cursor's chunk.

    Raises `BrokerError` (CORRUPT_MESSAGE) for damaged records.
    """
    columns, where = cursor.remaining_columns(joined=False), cursor.where
    ends = (UNKNOWN_OFFSET,) * 3
    if where in fetcher.partitions:  # otherwise the partition was revoked meanwhile
        reading = fetcher.state_of(where)
        ends = reading.log_start_offset, reading.last_stable_offset, reading.high_watermark
    return FetchedColumns(where, columns, cursor.position(), *ends)
