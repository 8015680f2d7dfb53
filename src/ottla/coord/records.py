"""The records of `__consumer_offsets`, as values and as bytes in Kafka's formats. Their effects are elsewhere.

A key begins with its type (0 and 1: an offset, 2: a classic group, 10 to 15: a share group, others: a consumer group), a value with
its version; both are int16.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import NamedTuple, Never

from ottla.coord.consumer import records as consumer
from ottla.coord.runtime.record_reader import UnreadableRecord
from ottla.coord.share import records as share
from ottla.coord.streams import records as streams
from ottla.wire import Malformed, decode, encode
from ottla.wire.data.group_metadata import GroupMetadataKey, GroupMetadataValue
from ottla.wire.data.offset_commits import OffsetCommitKey, OffsetCommitValue

NO_TOPIC_ID = bytes(16)
NO_TIMESTAMP = -1

LEGACY_OFFSET_KIND, OFFSET_KIND, GROUP_KIND = 0, 1, 2
OFFSET_KINDS = LEGACY_OFFSET_KIND, OFFSET_KIND
GROUP_VERSION = 3
OFFSET_VERSION, OFFSET_VERSION_WITH_EXPIRY, OFFSET_VERSION_WITH_TOPIC_ID = 3, 1, 4
OLDEST_READ, NEWEST_READ = 0, 4

_SHORT = Struct(">h")
_INT = Struct(">i")

BARE_V3 = Struct(">hqihq")
"""An offset without metadata: version, offset, leader epoch, length of the metadata, commit timestamp."""
BARE_V4 = Struct(">hqiBqBBB16s")
"""An offset without metadata in version 4: as `BARE_V3`, but the length is one byte (length + 1). One tag follows: the topic id."""
EMPTY_V4 = (1,)
ONE_TAG = (1, 0, 16)


class OffsetCommitted(NamedTuple):
    """A group's offset in one partition. `expire_timestamp_ms` is -1 unless the client requested a retention with the commit."""

    group_id: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_TIMESTAMP
    topic_id: bytes = NO_TOPIC_ID


class OffsetForgotten(NamedTuple):
    """A tombstone: the group no longer has an offset in this partition."""

    group_id: str
    topic: str
    partition: int


class OffsetPending(NamedTuple):
    """An offset committed in an open transaction, which is not valid until the transaction is committed (KIP-98, KIP-447)."""

    producer_id: int
    offset: OffsetCommitted


class TransactionEnded(NamedTuple):
    """The end of a producer's transaction: its pending offsets become valid if `committed`, else they are dropped."""

    producer_id: int
    committed: bool


class StoredMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupStored(NamedTuple):
    """A classic group: all of its state that survives a restart of the coordinator."""

    group_id: str
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[StoredMember, ...]


class GroupForgotten(NamedTuple):
    """A tombstone: the group was deleted."""

    group_id: str


Stored = (
    OffsetCommitted
    | OffsetForgotten
    | GroupStored
    | GroupForgotten
    | consumer.ConsumerStored
    | share.ShareStored
    | streams.StreamsStored
)


def encode_record(record: Stored) -> tuple[bytes, bytes | None]:
    """Return a record's stored key and value. The value of a tombstone is None."""
    return _ENCODE[type(record)](record)  # type: ignore[arg-type]  # the table's keys are the records' types


def decode_record(key: bytes, value: bytes | None) -> Stored | None:
    """Decode a stored record; None if the key's type is unknown. Raises `UnreadableRecord` if it is malformed."""
    read = _DECODE.get(_prefix(key))
    try:
        return None if read is None else read(key, value)
    except Malformed as malformed:
        raise UnreadableRecord(str(malformed)) from malformed


def _prefix(data: bytes) -> int:
    if len(data) < 2:
        raise UnreadableRecord(f"a coordinator record of {len(data)} bytes has no kind or version")
    number: int = _SHORT.unpack_from(data)[0]
    return number


def _version(value: bytes) -> int:
    version = _prefix(value)
    if not OLDEST_READ <= version <= NEWEST_READ:
        raise UnreadableRecord(f"a coordinator record's value has version {version}; {NEWEST_READ} is the newest supported")
    return version


def _offset_key(group_id: str, topic: str, partition: int) -> bytes:
    return _place(group_id, topic) + _INT.pack(partition)


@lru_cache(maxsize=10_000)
def _place(group_id: str, topic: str) -> bytes:
    """Return an offset's key without the partition at its end. The key is cached, because groups commit repeatedly."""
    return _SHORT.pack(OFFSET_KIND) + encode(OffsetCommitKey(group=group_id, topic=topic), 0)[: -_INT.size]


def _group_key(group_id: str) -> bytes:
    return _SHORT.pack(GROUP_KIND) + encode(GroupMetadataKey(group=group_id), 0)


def _offset_value(record: OffsetCommitted) -> bytes:
    version = OFFSET_VERSION
    if record.expire_timestamp_ms != NO_TIMESTAMP:
        version = OFFSET_VERSION_WITH_EXPIRY
    elif record.topic_id != NO_TOPIC_ID:
        version = OFFSET_VERSION_WITH_TOPIC_ID
    if not record.metadata and version != OFFSET_VERSION_WITH_EXPIRY:
        return _bare_value(record, version)
    value = OffsetCommitValue(
        offset=record.offset,
        leader_epoch=record.leader_epoch,
        metadata=record.metadata,
        commit_timestamp=record.commit_timestamp_ms,
        expire_timestamp=record.expire_timestamp_ms,
        topic_id=record.topic_id,
    )
    return _SHORT.pack(version) + encode(value, version)


def _bare_value(record: OffsetCommitted, version: int) -> bytes:
    """Return the value of nearly every commit, which has one fixed layout without metadata."""
    _, _, _, offset, leader_epoch, _, timestamp_ms, _, topic_id = record
    if version == OFFSET_VERSION:
        return BARE_V3.pack(version, offset, leader_epoch, 0, timestamp_ms)
    return BARE_V4.pack(version, offset, leader_epoch, *EMPTY_V4, timestamp_ms, *ONE_TAG, topic_id)


def _group_value(record: GroupStored) -> bytes:
    value = GroupMetadataValue(
        protocol_type=record.protocol_type,
        generation=record.generation,
        protocol=record.protocol,
        leader=record.leader,
        current_state_timestamp=record.state_timestamp_ms,
        members=[_member_value(member) for member in record.members],
    )
    return _SHORT.pack(GROUP_VERSION) + encode(value, GROUP_VERSION)


def _member_value(member: StoredMember) -> GroupMetadataValue.MemberMetadata:
    return GroupMetadataValue.MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.subscription,
        assignment=member.assignment,
    )


def _decode_offset(data: bytes, value: bytes | None) -> OffsetCommitted | OffsetForgotten:
    key = decode(OffsetCommitKey, 0, data[2:])
    if value is None:
        return OffsetForgotten(key.group, key.topic, key.partition)
    held = decode(OffsetCommitValue, _version(value), value[2:])
    return OffsetCommitted(
        key.group,
        key.topic,
        key.partition,
        held.offset,
        held.leader_epoch,
        held.metadata,
        held.commit_timestamp,
        held.expire_timestamp,
        bytes(held.topic_id),
    )


def _decode_group(data: bytes, value: bytes | None) -> GroupStored | GroupForgotten:
    key = decode(GroupMetadataKey, 0, data[2:])
    if value is None:
        return GroupForgotten(key.group)
    held = decode(GroupMetadataValue, _version(value), value[2:])
    return GroupStored(
        key.group,
        held.protocol_type,
        held.generation,
        held.protocol,
        held.leader,
        held.current_state_timestamp,
        tuple(map(_decode_member, held.members)),
    )


def _decode_member(member: GroupMetadataValue.MemberMetadata) -> StoredMember:
    """Return a stored member. Version 0 of the format has no rebalance timeout, so the session timeout is used instead."""
    rebalance_timeout_ms = member.rebalance_timeout if member.rebalance_timeout != -1 else member.session_timeout
    return StoredMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        rebalance_timeout_ms,
        member.session_timeout,
        bytes(member.subscription),
        bytes(member.assignment),
    )


_ENCODE: dict[type, Callable[[Never], tuple[bytes, bytes | None]]] = {
    OffsetCommitted: lambda record: (_offset_key(record.group_id, record.topic, record.partition), _offset_value(record)),
    OffsetForgotten: lambda record: (_offset_key(record.group_id, record.topic, record.partition), None),
    GroupStored: lambda record: (_group_key(record.group_id), _group_value(record)),
    GroupForgotten: lambda record: (_group_key(record.group_id), None),
    **dict.fromkeys(consumer.STORED, consumer.encode_record),
    **dict.fromkeys(share.KINDS.stored, share.KINDS.encode),
    **dict.fromkeys(streams.RECORDS.stored, streams.RECORDS.encode),
}
_DECODE: dict[int, Callable[[bytes, bytes | None], Stored]] = {
    **dict.fromkeys(OFFSET_KINDS, _decode_offset),
    GROUP_KIND: _decode_group,
    **consumer.KINDS.decoders,
    **share.KINDS.decoders,
    **streams.RECORDS.decoders,
}
STORED = frozenset(_ENCODE)
"""The types of stored records. All other changes of groups are volatile events."""
