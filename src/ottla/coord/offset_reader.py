"""The reader of millions of committed offsets: a fast path for the two layouts of nearly all records.

The layouts are values of version 3, and of version 4 with a topic id as the only tag (KIP-848), both without metadata.
`ottla.coord.records.decode_record` reads records of all other layouts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from struct import Struct, error
from typing import Final

from ottla.coord.offsets import ByPartition, Committed, OffsetsCommitted
from ottla.coord.records import (
    BARE_V3,
    BARE_V4,
    EMPTY_V4,
    NO_TIMESTAMP,
    NO_TOPIC_ID,
    OFFSET_KINDS,
    ONE_TAG,
    OffsetCommitted,
    OffsetPending,
    Stored,
    TransactionEnded,
    decode_record,
)
from ottla.coord.runtime.record_reader import RecordReader, RecordRows

PARTITION_BYTES: Final = 4
GAP_BYTES: Final = 1
"""The bytes between key and value in a record of magic 2: the size of a value up to 63 bytes takes one byte."""

_V3: Final = Struct(">ixhqihq0s")
_V4: Final = Struct(">ixhqiBq19s")
"""The format from a key's partition on: one byte between, then a value without metadata.

The value has version, offset, leader epoch, length of the metadata, commit timestamp, and tags.
"""
_SHAPES: Final = {BARE_V3.size: (_V3.unpack_from, 3, 0), BARE_V4.size: (_V4.unpack_from, 4, *EMPTY_V4)}
"""Value size -> (unpacking function, expected version, expected length of the metadata)."""

_NO_SHAPE: Final = (_V3.unpack_from, 0, 0)

_TOPIC_ID_TAG: Final = bytes(ONE_TAG)
_LENGTH: Final = Struct(">h")
_new = tuple.__new__
"""The constructor of tuples, which takes half the time of a NamedTuple's."""


Replayed = Stored | OffsetPending | TransactionEnded
"""The types of values that a partition of `__consumer_offsets` is replayed as."""


class OffsetReader(RecordReader[Replayed]):
    """The reader of one partition of `__consumer_offsets`. Equal topic names and ids become one object, to save memory."""

    __slots__ = ("_places", "_topic_ids", "_topics")

    def __init__(self) -> None:
        super().__init__(decode_record)
        self._places: dict[bytes, tuple[str, str]] = {}
        self._topics: dict[str, str] = {}
        self._topic_ids: dict[bytes, bytes] = {b"": NO_TOPIC_ID, _TOPIC_ID_TAG + NO_TOPIC_ID: NO_TOPIC_ID}

    def read(self, key: bytes | None, value: bytes | None) -> Replayed | None:
        """Return one record, decoded by `decode_record`; None for an unknown kind."""
        record = super().read(key, value)
        if not isinstance(record, OffsetCommitted):
            return record
        topic = self._topics.setdefault(record.topic, record.topic)
        topic_id = self._topic_ids.setdefault(_TOPIC_ID_TAG + record.topic_id, record.topic_id)
        return record._replace(topic=topic, topic_id=topic_id)

    def read_all(self, rows: RecordRows, read_row: Callable[[int], Replayed | None]) -> Iterator[Replayed]:  # noqa: C901 - called by the million
        """Yield the records of all rows in order.

        Consecutive offsets of one group and topic become one record. `read_row` decodes rows of other layouts.
        """
        data, places, topic_ids = rows[0], self._places, self._topic_ids
        prefix = place = tags = topic_id = run = None
        filed: ByPartition = {}
        size = its_version = 0
        timestamp_ms = NO_TIMESTAMP
        for row, key_at, key_size, value_at, value_size in zip(range(len(rows[2])), *rows[2:], strict=True):
            partition_at = key_at + key_size - PARTITION_BYTES
            if value_size != size:
                size = value_size
                unpack, its_version, its_length = _SHAPES.get(size, _NO_SHAPE)
            if its_version and value_at == partition_at + PARTITION_BYTES + GAP_BYTES:
                partition, version, offset, leader_epoch, length, its_ms, its_tags = unpack(data, partition_at)
                its_prefix = data[key_at:partition_at]
                if its_prefix != prefix:
                    if run is not None:
                        yield run
                        run = None
                    prefix = its_prefix
                    place = places.get(prefix) or self._place(prefix)
                if its_tags != tags:
                    tags = its_tags
                    topic_id = topic_ids.get(tags) or self._topic_id_in(tags)
                if its_ms != timestamp_ms:
                    timestamp_ms = its_ms
                if place is not None and topic_id is not None and version == its_version and length == its_length:
                    fields = offset, leader_epoch, "", timestamp_ms, NO_TIMESTAMP, topic_id
                    if run is None:
                        run = _new(OffsetsCommitted, (*place, partition, *fields))
                        run.filed = filed = {}
                    filed[partition] = _new(Committed, fields)
                    continue
            if run is not None:
                yield run
                run = None
            record = read_row(row)
            if record is not None:
                yield record
        if run is not None:
            yield run

    def of_transaction(self, producer_id: int, records: Iterable[Replayed]) -> Iterator[Replayed]:
        """Yield a transaction's offsets as pending offsets. Transactions contain no other records."""
        for record in records:
            if isinstance(record, OffsetsCommitted):
                yield from (OffsetPending(producer_id, each) for each in record.each())
            elif isinstance(record, OffsetCommitted):
                yield OffsetPending(producer_id, record)
            else:
                yield record

    def transaction_ended(self, producer_id: int, *, committed: bool) -> Iterable[Replayed]:
        """Return the event by which the transaction's pending offsets become valid or are dropped."""
        return (TransactionEnded(producer_id, committed),)

    def _place(self, prefix: bytes) -> tuple[str, str] | None:
        """Return group and topic from the key of an offset without its partition; None if the key is malformed."""
        try:
            group_end = 4 + _LENGTH.unpack_from(prefix, 2)[0]
            topic_end = group_end + 2 + _LENGTH.unpack_from(prefix, group_end)[0]
            kind = _LENGTH.unpack_from(prefix)[0]
            if kind not in OFFSET_KINDS or not 4 <= group_end <= topic_end - 2 or topic_end != len(prefix):
                return None
            group_id, topic = prefix[4:group_end].decode(), prefix[group_end + 2 : topic_end].decode()
        except (error, UnicodeDecodeError):
            return None
        place = self._places[prefix] = group_id, self._topics.setdefault(topic, topic)
        return place

    def _topic_id_in(self, tags: bytes) -> bytes | None:
        """Return the topic id in the tagged fields of a stored offset; None if the topic id is not the only tagged field."""
        head, topic_id = tags[: len(_TOPIC_ID_TAG)], tags[len(_TOPIC_ID_TAG) :]
        return self._topic_ids.setdefault(tags, topic_id) if head == _TOPIC_ID_TAG else None
