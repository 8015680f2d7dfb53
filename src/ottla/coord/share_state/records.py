"""The records of `__share_group_state` as values and as bytes, in Kafka's formats. Their effects are elsewhere.

A key begins with its type (0: a snapshot, 1: an update), a value with its version (0); both are int16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from struct import Struct
from typing import Final, NamedTuple

from ottla.coord.runtime.machine import KeyAndValue
from ottla.coord.runtime.record_reader import RecordReader, RecordRows, UnreadableRecord
from ottla.coord.share_state.batches import StateBatch
from ottla.coord.share_state.inputs import SharePartitionKey
from ottla.wire import Malformed, decode, encode
from ottla.wire.data.share_group_state import ShareSnapshotKey, ShareSnapshotValue, ShareUpdateValue

SNAPSHOT, UPDATE = 0, 1
VERSION: Final = 0

LAST: Final = -1
"""The offset of a record that is not stored yet: the last of its batch. The record before has -2."""

UNKNOWN_COUNT: Final = -1
"""The delivery complete count that is not known, and not stored."""

_SHORT: Final = Struct(">h")
_SNAPSHOT: Final = Struct(">hiiiqqq")
"""The start of a snapshot's value: version, three epochs, start offset, two times."""
_UPDATE: Final = Struct(">hiiq")
"""The start of an update's value: version, two epochs, start offset."""
_BATCH: Final = Struct(">qqbhx")
"""A state batch, and its number of tags, which is 0."""
MOST_JOINED: Final = 64
_BATCHES: Final = Struct(">" + "qqbhx" * MOST_JOINED)
_COMPLETE_TAG: Final = Struct(">BBBi")
"""The tags of a value with a delivery complete count: number of tags, tag, size, count."""
NO_TAGS, ONE_TAG = b"\0", b"\1\0\4"
MOST_KEYS: Final = 1_000
"""The most share partitions whose stored key is cached."""
_SNAPSHOT_PREFIX: Final = _SHORT.pack(SNAPSHOT)
_UPDATE_PREFIX: Final = _SHORT.pack(UPDATE)
_VERSION_PREFIX: Final = _SHORT.pack(VERSION)


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
    if isinstance(record, ShareUpdate):
        return _UPDATE_PREFIX + _encode_key(record.key), _pack_update(record)
    return _SNAPSHOT_PREFIX + _encode_key(record.key), None if isinstance(record, Tombstone) else _pack_snapshot(record)


@lru_cache(MOST_KEYS)
def _encode_key(key: SharePartitionKey) -> bytes:
    """Return a stored key without its type. Snapshots and updates have the same fields."""
    group_id, topic_id, partition = key
    return encode(ShareSnapshotKey(group_id=group_id, topic_id=topic_id, partition=partition), VERSION)


def _pack_update(record: ShareUpdate) -> bytes:
    epochs = record.snapshot_epoch, record.leader_epoch
    return _UPDATE.pack(VERSION, *epochs, record.start_offset) + _pack_rest(record)


def _pack_snapshot(record: ShareSnapshot) -> bytes:
    epochs = record.snapshot_epoch, record.state_epoch, record.leader_epoch
    times = record.created_ms, record.written_ms
    return _SNAPSHOT.pack(VERSION, *epochs, record.start_offset, *times) + _pack_rest(record)


def _pack_rest(record: ShareUpdate | ShareSnapshot) -> bytes:
    """Return the end of a value: its batches, and its tag if the delivery complete count is known.

    It is packed directly, because a state can have thousands of batches.
    """
    batches = b"".join(_pack_batches(record.batches))
    complete = record.delivery_complete_count
    tags = NO_TAGS if complete == UNKNOWN_COUNT else _COMPLETE_TAG.pack(1, 0, 4, complete)
    return _varint(len(record.batches) + 1) + batches + tags


def _pack_batches(batches: Sequence[StateBatch]) -> Iterator[bytes]:
    """Yield the bytes of state batches, many of them with one call."""
    joined = len(batches) // MOST_JOINED * MOST_JOINED
    for at in range(0, joined, MOST_JOINED):
        yield _BATCHES.pack(*chain.from_iterable(batches[at : at + MOST_JOINED]))
    for batch in batches[joined:]:
        yield _BATCH.pack(*batch)


def _varint(number: int) -> bytes:
    """Return an unsigned number in groups of seven bits, the lowest first."""
    packed = bytearray()
    while number > 0x7F:
        packed.append(number & 0x7F | 0x80)
        number >>= 7
    packed.append(number)
    return bytes(packed)


def _read_varint(value: bytes, at: int) -> tuple[int, int]:
    """Return an unsigned number of at most 32 bits, and the position after it. The number is 0 if it cannot be read."""
    number = 0
    for shift, byte in zip(range(0, 35, 7), value[at : at + 5], strict=False):
        number |= (byte & 0x7F) << shift
        if byte <= 0x7F:
            return number, at + shift // 7 + 1
    return 0, at


def _from_messages(batches: list[ShareSnapshotValue.StateBatch]) -> tuple[StateBatch, ...]:
    return tuple((each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in batches)


def decode_record(key: bytes, value: bytes | None) -> StateRecord | None:
    """Decode a stored record; None if the key's type is unknown. Raises `UnreadableRecord` if it is malformed."""
    return None if _prefix(key) not in (SNAPSHOT, UPDATE) else decode_value(_prefix(key), decode_key(key), value)


def decode_key(key: bytes) -> SharePartitionKey:
    """Decode the key of a snapshot or an update, which have the same fields. Raises `UnreadableRecord` if it is malformed."""
    try:
        known = decode(ShareSnapshotKey, VERSION, key[2:])
    except Malformed as malformed:
        raise UnreadableRecord(str(malformed)) from malformed
    return SharePartitionKey(known.group_id, known.topic_id, known.partition)


def decode_value(kind: int, key: SharePartitionKey, value: bytes | None) -> StateRecord:
    """Decode the value of a snapshot or an update. Raises `UnreadableRecord` if it is malformed."""
    if value is None and kind == SNAPSHOT:
        return Tombstone(key)
    if value is None:
        raise UnreadableRecord(f"an update of share partition {key.coordinator_key()!r} has no value")
    if (version := _prefix(value)) != VERSION:
        raise UnreadableRecord(f"the state of share partition {key.coordinator_key()!r} has version {version}")
    head = _SNAPSHOT if kind == SNAPSHOT else _UPDATE
    rest = _unpack_rest(value, head.size)
    if rest is None:
        try:
            return _decode_snapshot(key, value) if kind == SNAPSHOT else _decode_update(key, value)
        except Malformed as malformed:
            raise UnreadableRecord(str(malformed)) from malformed
    return _from_parts(kind, key, value, *rest)


def _from_parts(
    kind: int, key: SharePartitionKey, value: bytes, complete: int, batches: tuple[StateBatch, ...]
) -> ShareSnapshot | ShareUpdate:
    if kind == UPDATE:
        _, snapshot_epoch, leader_epoch, start_offset = _UPDATE.unpack_from(value)
        return ShareUpdate(key, snapshot_epoch, leader_epoch, start_offset, complete, batches)
    _, snapshot_epoch, state_epoch, leader_epoch, start_offset, created_ms, written_ms = _SNAPSHOT.unpack_from(value)
    return ShareSnapshot(key, snapshot_epoch, state_epoch, leader_epoch, start_offset, complete, created_ms, written_ms, batches)


def _unpack_rest(value: bytes, at: int) -> tuple[int, tuple[StateBatch, ...]] | None:
    """Return the delivery complete count and the batches at the end of a value; None if it needs the declared message.

    One call reads all batches, because a coordinator reads a million of them when it is loaded.
    """
    number, at = _read_varint(value, at)
    end = at + (number - 1) * _BATCH.size
    if number < 1 or end >= len(value):
        return None
    packed = bytes(value[at:end])
    if packed[_BATCH.size - 1 :: _BATCH.size].count(0) != number - 1:
        return None
    tags = value[end:]
    complete = UNKNOWN_COUNT
    if tags != NO_TAGS:
        if len(tags) != _COMPLETE_TAG.size or tags[:3] != ONE_TAG:
            return None
        complete = _COMPLETE_TAG.unpack(tags)[3]
    return complete, tuple(_BATCH.iter_unpack(packed))


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

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        super().__init__(decode_record)
        self._keys: dict[bytes, SharePartitionKey] = {}
        """The share partitions of stored keys, without their types."""

    def read_all(self, rows: RecordRows, read_row: Callable[[int], StateRecord | None]) -> Iterator[StateRecord]:
        """Yield the newest readable snapshot of each share partition, and its later updates, in their order in the log."""
        kept: list[StateRecord] = []
        replaced: set[bytes] = set()
        for row in range(len(rows.keys_at) - 1, -1, -1):
            key = rows.key(row) or b""
            if key[2:] in replaced:
                continue
            record = self._read_usual(key, rows, row) or read_row(row)
            if record is None:
                continue
            if not isinstance(record, ShareUpdate):
                replaced.add(key[2:])
                record = record._replace(offset=rows.offsets[row])
            self._keys[key[2:]] = record.key
            kept.append(record)
        return reversed(kept)

    def _read_usual(self, key: bytes, rows: RecordRows, row: int) -> StateRecord | None:
        """Decode a record of the usual form whose share partition is known; None for others."""
        known, kind = self._keys.get(key[2:]), key[:2]
        if known is None or kind not in (_SNAPSHOT_PREFIX, _UPDATE_PREFIX):
            return None
        at = rows.values_at[row]
        value = rows.data[at : at + max(0, rows.value_sizes[row])]
        is_update = kind == _UPDATE_PREFIX
        head = _UPDATE if is_update else _SNAPSHOT
        rest = _unpack_rest(value, head.size) if value[:2] == _VERSION_PREFIX else None
        return None if rest is None else _from_parts(UPDATE if is_update else SNAPSHOT, known, value, *rest)
