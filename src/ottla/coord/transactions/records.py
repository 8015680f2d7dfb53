"""The records of `__transaction_state` as values and as bytes, in Kafka's formats. Their effects are elsewhere.

A key begins with its type (0: a transactional id), a value with its version (0 or 1); both are int16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import groupby
from struct import Struct
from typing import Final

from ottla.coord.runtime.machine import KeyAndValue
from ottla.coord.runtime.record_reader import RecordReader, RecordRows, UnreadableRecord
from ottla.coord.transactions.transaction import NO_PRODUCER_ID, Forgotten, Partitions, Status, Stored, Transaction
from ottla.wire import Malformed, decode, encode
from ottla.wire.data.transaction_log import TransactionLogKey, TransactionLogValue

KIND: Final = 0
OLDEST_READ, NEWEST_READ = 0, 1
FLEXIBLE: Final = 1
"""The first version of values with tags, for raised epochs (KIP-890) and kept transactions (KIP-939)."""

_SHORT: Final = Struct(">h")
_INT: Final = Struct(">i")
_KEY: Final = Struct(">hh")
_HEAD: Final = Struct(">hqhib")
"""The start of a value: version, producer id, producer epoch, timeout, status."""
_TAIL: Final = Struct(">qqBBBqBBh")
"""The end of a value: two timestamps, then two tags with number and size: 0 previous producer id, 2 transaction version."""
MOST_PACKED: Final = 126
"""The largest count or size that is encoded in one byte."""
MOST_KEPT: Final = 256
"""The most lists of partitions whose bytes are cached."""
NO_LIST: Final = b"\0"
"""The partitions of a transaction that is empty: null."""
LONGEST_NAME_BYTES: Final = 32_767
_Partitions = TransactionLogValue.PartitionsSchema


def encode_record(record: Stored, version: int) -> KeyAndValue:
    """Return a record's stored key and value; the value of a tombstone is None. Raises `Unencodable`.

    The value has this `version`. It has a later version if a producer has kept the transaction of an earlier producer.
    """
    name = record.transactional_id
    key = _key(name.encode()) if name.isascii() else None
    if key is None:
        key = _SHORT.pack(KIND) + encode(TransactionLogKey(transactional_id=name), 0)
    if isinstance(record, Forgotten):
        return key, None
    version = max(version, FLEXIBLE) if record.is_kept else version
    if version == FLEXIBLE and (packed := _pack(record)) is not None:
        return key, packed
    value = TransactionLogValue(
        producer_id=record.producer_id,
        producer_epoch=record.producer_epoch,
        transaction_timeout_ms=record.timeout_ms,
        transaction_status=record.status.value,
        transaction_partitions=None if record.status is Status.EMPTY else _by_topic(record.partitions),
        transaction_last_update_timestamp_ms=record.updated_ms,
        transaction_start_timestamp_ms=record.started_ms,
    )
    if version >= FLEXIBLE:
        value.previous_producer_id = record.previous_producer_id
        value.next_producer_id = record.next_producer_id
        value.next_producer_epoch = record.next_producer_epoch
        value.client_transaction_version = record.transaction_version
    return key, _SHORT.pack(version) + encode(value, version)


def _key(name: bytes) -> bytes | None:
    """Return the key of an id; None if it is too long. Encoding the declared message then raises."""
    return _KEY.pack(KIND, len(name)) + name if len(name) <= LONGEST_NAME_BYTES else None


def _pack(record: Transaction) -> bytes | None:
    """Return the value in version 1, in a quarter of the usual time, because each transaction stores three values.

    Return None for long names, and for the few states that have other tags than the previous producer id and the version.
    """
    if record.next_producer_id != NO_PRODUCER_ID or record.is_kept or record.previous_producer_id == NO_PRODUCER_ID:
        return None
    if len(record.partitions) > MOST_PACKED or not record.transaction_version:
        return None
    partitions = NO_LIST if record.status is Status.EMPTY else _pack_partitions(record.partitions)
    if partitions is None:
        return None
    head = _HEAD.pack(FLEXIBLE, record.producer_id, record.producer_epoch, record.timeout_ms, record.status.value)
    version = record.transaction_version
    return head + partitions + _TAIL.pack(record.updated_ms, record.started_ms, 2, 0, 8, record.previous_producer_id, 2, 2, version)


@lru_cache(MOST_KEPT)
def _pack_partitions(partitions: Partitions) -> bytes | None:
    """Return the list of a transaction's partitions in version 1; None for long names. A producer often has the same again."""
    by_topic = _by_topic(partitions)
    packed = bytearray((len(by_topic) + 1,))
    for each in by_topic:
        name, ids = each.topic.encode(), each.partition_ids
        if len(name) > MOST_PACKED:
            return None
        packed.append(len(name) + 1)
        packed += name
        packed.append(len(ids) + 1)
        for index in ids:
            packed += _INT.pack(index)
        packed.append(0)
    return bytes(packed)


def decode_record(key: bytes, value: bytes | None) -> Stored | None:
    """Decode a stored record; None if the key's type is unknown. Raises `UnreadableRecord` if it is malformed."""
    if _prefix(key) != KIND:
        return None
    try:
        transactional_id = decode(TransactionLogKey, 0, key[2:]).transactional_id
        return Forgotten(transactional_id) if value is None else _transaction(transactional_id, value)
    except Malformed as malformed:
        raise UnreadableRecord(str(malformed)) from malformed


class TransactionReader(RecordReader[Stored]):
    """The reader of one partition of `__transaction_state`. A record has the whole state of an id, so only the last one counts."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(decode_record)

    def read_all(self, rows: RecordRows, read_row: Callable[[int], Stored | None]) -> Iterator[Stored]:
        """Yield only the newest readable record of each id. Older records are not decoded."""
        rows_of: dict[bytes | None, list[int]] = {}
        for row in range(len(rows.keys_at)):
            rows_of.setdefault(rows.key(row), []).append(row)
        for same in rows_of.values():
            newest = next((record for row in reversed(same) if (record := read_row(row)) is not None), None)
            if newest is not None:
                yield newest


def _transaction(transactional_id: str, value: bytes) -> Transaction:
    version = _prefix(value)
    if not OLDEST_READ <= version <= NEWEST_READ:
        raise UnreadableRecord(f"the state of transactional id {transactional_id!r} has version {version}, which is unknown")
    stored = decode(TransactionLogValue, version, value[2:])
    try:
        status = Status(stored.transaction_status)
    except ValueError:
        sentence = f"the state of transactional id {transactional_id!r} has status {stored.transaction_status}, which is unknown"
        raise UnreadableRecord(sentence) from None
    return Transaction(
        transactional_id,
        producer_id=stored.producer_id,
        producer_epoch=stored.producer_epoch,
        timeout_ms=stored.transaction_timeout_ms,
        status=status,
        updated_ms=stored.transaction_last_update_timestamp_ms,
        partitions=frozenset((each.topic, index) for each in stored.transaction_partitions or () for index in each.partition_ids),
        started_ms=stored.transaction_start_timestamp_ms,
        previous_producer_id=stored.previous_producer_id,
        next_producer_id=stored.next_producer_id,
        next_producer_epoch=stored.next_producer_epoch,
        transaction_version=stored.client_transaction_version,
    )


def _by_topic(partitions: Partitions) -> list[_Partitions]:
    return [
        _Partitions(topic=topic, partition_ids=[index for _, index in members])
        for topic, members in groupby(sorted(partitions), key=lambda partition: partition[0])
    ]


def _prefix(data: bytes) -> int:
    if len(data) < _SHORT.size:
        raise UnreadableRecord(f"a coordinator record of {len(data)} bytes has no kind or version")
    number: int = _SHORT.unpack_from(data)[0]
    return number
