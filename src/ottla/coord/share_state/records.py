"""The records of `__share_group_state` as values and as bytes, in Kafka's formats. Their effects are elsewhere.

A key begins with its type (0: a snapshot, 1: an update), a value with its version (0); both are int16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from ottla.coord.runtime.machine import KeyAndValue
from ottla.coord.runtime.record_reader import RecordReader, RecordRows, UnreadableRecord
from ottla.coord.share_state.batches import StateBatch
from ottla.coord.share_state.inputs import SharePartitionKey
from ottla.wire import Malformed, decode, encode
from ottla.wire.data.share_group_state import ShareSnapshotKey, ShareSnapshotValue, ShareUpdateKey, ShareUpdateValue

SNAPSHOT, UPDATE = 0, 1
VERSION: Final = 0

LAST: Final = -1
"""The offset of a record that is not stored yet: the last of its batch. The record before has -2."""

_SHORT: Final = Struct(">h")
_SNAPSHOT_PREFIX: Final = _SHORT.pack(SNAPSHOT)


class ShareSnapshot(NamedTuple):
    """The whole state of a share partition. It replaces all earlier records. `offset` is its place in the log."""

    key: SharePartitionKey
    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    created_ms: int
    written_ms: int
    batches: tuple[StateBatch, ...]
    offset: int = LAST


class ShareUpdate(NamedTuple):
    """Changes since the last snapshot of a share partition."""

    key: SharePartitionKey
    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


class Tombstone(NamedTuple):
    """The end of a share partition. `offset` is its place in the log."""

    key: SharePartitionKey
    offset: int = LAST


StateRecord = ShareSnapshot | ShareUpdate | Tombstone


def encode_record(record: StateRecord) -> KeyAndValue:
    """Return a record's stored key and value; the value of a tombstone is None. Raises `Unencodable`."""
    group_id, topic_id, partition = record.key
    if isinstance(record, ShareUpdate):
        update_key = ShareUpdateKey(group_id=group_id, topic_id=topic_id, partition=partition)
        return _SHORT.pack(UPDATE) + encode(update_key, VERSION), _SHORT.pack(VERSION) + encode(_update(record), VERSION)
    key = _SNAPSHOT_PREFIX + encode(ShareSnapshotKey(group_id=group_id, topic_id=topic_id, partition=partition), VERSION)
    return key, None if isinstance(record, Tombstone) else _SHORT.pack(VERSION) + encode(_snapshot(record), VERSION)


def _update(record: ShareUpdate) -> ShareUpdateValue:
    return ShareUpdateValue(
        snapshot_epoch=record.snapshot_epoch,
        leader_epoch=record.leader_epoch,
        start_offset=record.start_offset,
        delivery_complete_count=record.delivery_complete_count,
        state_batches=_to_messages(record.batches),
    )


def _snapshot(record: ShareSnapshot) -> ShareSnapshotValue:
    return ShareSnapshotValue(
        snapshot_epoch=record.snapshot_epoch,
        state_epoch=record.state_epoch,
        leader_epoch=record.leader_epoch,
        start_offset=record.start_offset,
        delivery_complete_count=record.delivery_complete_count,
        create_timestamp=record.created_ms,
        write_timestamp=record.written_ms,
        state_batches=_to_messages(record.batches),
    )


def _to_messages(batches: tuple[StateBatch, ...]) -> list[ShareSnapshotValue.StateBatch]:
    return [
        ShareSnapshotValue.StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
        for first, last, state, count in batches
    ]


def _from_messages(batches: list[ShareSnapshotValue.StateBatch]) -> tuple[StateBatch, ...]:
    return tuple((each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in batches)


def decode_record(key: bytes, value: bytes | None) -> StateRecord | None:
    """Decode a stored record; None if the key's type is unknown. Raises `UnreadableRecord` if it is malformed."""
    kind = _prefix(key)
    if kind not in (SNAPSHOT, UPDATE):
        return None
    try:
        known = decode(ShareSnapshotKey, VERSION, key[2:])  # both keys have the same fields
        place = SharePartitionKey(known.group_id, known.topic_id, known.partition)
        if value is None and kind == SNAPSHOT:
            return Tombstone(place)
        if value is None:
            raise UnreadableRecord(f"an update of share partition {place.coordinator_key()!r} has no value")
        if (version := _prefix(value)) != VERSION:
            raise UnreadableRecord(f"the state of share partition {place.coordinator_key()!r} has version {version}")
        return _decode_snapshot(place, value) if kind == SNAPSHOT else _decode_update(place, value)
    except Malformed as malformed:
        raise UnreadableRecord(str(malformed)) from malformed


def _decode_snapshot(key: SharePartitionKey, value: bytes) -> ShareSnapshot:
    stored = decode(ShareSnapshotValue, VERSION, value[2:])
    return ShareSnapshot(
        key,
        stored.snapshot_epoch,
        stored.state_epoch,
        stored.leader_epoch,
        stored.start_offset,
        stored.delivery_complete_count,
        stored.create_timestamp,
        stored.write_timestamp,
        _from_messages(stored.state_batches),
    )


def _decode_update(key: SharePartitionKey, value: bytes) -> ShareUpdate:
    stored = decode(ShareUpdateValue, VERSION, value[2:])
    batches = _from_messages(stored.state_batches)
    epochs = stored.snapshot_epoch, stored.leader_epoch
    return ShareUpdate(key, *epochs, stored.start_offset, stored.delivery_complete_count, batches)


def _prefix(data: bytes) -> int:
    if len(data) < _SHORT.size:
        raise UnreadableRecord(f"a coordinator record of {len(data)} bytes has no kind or version")
    number: int = _SHORT.unpack_from(data)[0]
    return number


class ShareStateReader(RecordReader[StateRecord]):
    """The reader of one partition of `__share_group_state`. It skips records that a later snapshot replaces, undecoded."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(decode_record)

    def read_all(self, rows: RecordRows, read_row: Callable[[int], StateRecord | None]) -> Iterator[StateRecord]:
        """Yield the newest readable snapshot of each share partition, and its later updates, in their order in the log."""
        kept: list[tuple[int, StateRecord]] = []
        replaced: set[bytes] = set()
        for row in range(len(rows.keys_at) - 1, -1, -1):
            key = rows.key(row) or b""
            if key[2:] in replaced:
                continue
            record = read_row(row)
            if record is None:
                continue
            if not isinstance(record, ShareUpdate):
                replaced.add(key[2:])
                record = record._replace(offset=rows.offsets[row])
            kept.append((row, record))
        return (record for _, record in reversed(kept))
