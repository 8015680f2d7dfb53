"""The records of a consumer group in `__consumer_offsets`, as values and as bytes in Kafka's formats (KIP-848).

Their effects are elsewhere. The first field of each record is the group id. Records named `…Forgotten` are tombstones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Never, TypeVar

from ottla.coord.consumer.assign import Partitions
from ottla.coord.consumer.member import Classic, Epochs
from ottla.coord.consumer.names import in_order
from ottla.coord.consumer.states import MemberState
from ottla.wire.data import consumer_groups as data
from ottla.wire.data import decode_key, decode_value, encode_key, encode_value
from ottla.wire.schema import Message

VERSION = 0

K = TypeVar("K", bound=Message)
V = TypeVar("V", bound=Message)


class EpochStored(NamedTuple):
    """The group's epoch, and the hash of its topics' metadata."""

    group_id: str
    epoch: int
    metadata_hash: int


class EpochForgotten(NamedTuple):
    """A tombstone: the group was deleted."""

    group_id: str


class OldMetadataStored(NamedTuple):
    """The record of the topics in Kafka 4.0, which a hash has replaced (KIP-1101). Ottla only deletes such records."""

    group_id: str


class OldMetadataForgotten(NamedTuple):
    group_id: str


class MemberStored(NamedTuple):
    """A member's report about itself."""

    group_id: str
    member_id: str
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    topics: frozenset[str]
    pattern: str
    rebalance_timeout_ms: int
    assignor: str | None
    classic: Classic | None


class MemberForgotten(NamedTuple):
    group_id: str
    member_id: str


class TargetEpochStored(NamedTuple):
    """The group epoch of the target assignment, and the wall time at which it was computed (0 if unknown)."""

    group_id: str
    epoch: int
    wall_ms: int


class TargetEpochForgotten(NamedTuple):
    group_id: str


class TargetStored(NamedTuple):
    """The target assignment of a member."""

    group_id: str
    member_id: str
    partitions: Partitions


class TargetForgotten(NamedTuple):
    group_id: str
    member_id: str


class CurrentStored(NamedTuple):
    """A member's assignment, and its state of reconciliation."""

    group_id: str
    member_id: str
    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Epochs
    revoking: Epochs


class CurrentForgotten(NamedTuple):
    group_id: str
    member_id: str


class PatternStored(NamedTuple):
    """The topics that match a regular expression, and the time and version of the metadata."""

    group_id: str
    pattern: str
    topics: frozenset[str]
    version: int
    wall_ms: int


class PatternForgotten(NamedTuple):
    group_id: str
    pattern: str


ConsumerStored = (
    EpochStored
    | EpochForgotten
    | OldMetadataStored
    | OldMetadataForgotten
    | MemberStored
    | MemberForgotten
    | TargetEpochStored
    | TargetEpochForgotten
    | TargetStored
    | TargetForgotten
    | CurrentStored
    | CurrentForgotten
    | PatternStored
    | PatternForgotten
)


def encode_record(record: ConsumerStored) -> tuple[bytes, bytes | None]:
    """Return a record's stored key and value. The value of a tombstone is None. Raises `Unencodable`."""
    if type(record) is TargetStored and not record.partitions:  # a fast path: thousands of members can have an empty target
        return encode_key(_target_key(record)), _NOTHING
    key, value = _ENCODE[type(record)](record)  # type: ignore[arg-type]  # the table goes by the record's type
    return encode_key(key), None if value is None else encode_value(value, VERSION)


def _group_key(record: EpochStored | EpochForgotten) -> data.ConsumerGroupMetadataKey:
    return data.ConsumerGroupMetadataKey(group_id=record.group_id)


def _old_key(record: OldMetadataStored | OldMetadataForgotten) -> data.ConsumerGroupPartitionMetadataKey:
    return data.ConsumerGroupPartitionMetadataKey(group_id=record.group_id)


def _member_key(record: MemberStored | MemberForgotten) -> data.ConsumerGroupMemberMetadataKey:
    return data.ConsumerGroupMemberMetadataKey(group_id=record.group_id, member_id=record.member_id)


def _target_epoch_key(
    record: TargetEpochStored | TargetEpochForgotten,
) -> data.ConsumerGroupTargetAssignmentMetadataKey:
    return data.ConsumerGroupTargetAssignmentMetadataKey(group_id=record.group_id)


def _target_key(record: TargetStored | TargetForgotten) -> data.ConsumerGroupTargetAssignmentMemberKey:
    return data.ConsumerGroupTargetAssignmentMemberKey(group_id=record.group_id, member_id=record.member_id)


def _current_key(record: CurrentStored | CurrentForgotten) -> data.ConsumerGroupCurrentMemberAssignmentKey:
    return data.ConsumerGroupCurrentMemberAssignmentKey(group_id=record.group_id, member_id=record.member_id)


def _pattern_key(record: PatternStored | PatternForgotten) -> data.ConsumerGroupRegularExpressionKey:
    return data.ConsumerGroupRegularExpressionKey(group_id=record.group_id, regular_expression=record.pattern)


def _group_value(record: EpochStored) -> data.ConsumerGroupMetadataValue:
    return data.ConsumerGroupMetadataValue(epoch=record.epoch, metadata_hash=record.metadata_hash)


def _old_value(record: OldMetadataStored) -> data.ConsumerGroupPartitionMetadataValue:
    return data.ConsumerGroupPartitionMetadataValue()


def _member_value(record: MemberStored) -> data.ConsumerGroupMemberMetadataValue:
    value = data.ConsumerGroupMemberMetadataValue
    classic = None
    if record.classic is not None:
        protocols = [value.ClassicProtocol(name=name, metadata=metadata) for name, metadata in record.classic.protocols]
        classic = value.ClassicMemberMetadata(session_timeout_ms=record.classic.session_timeout_ms, supported_protocols=protocols)
    return value(
        instance_id=record.instance_id,
        rack_id=record.rack_id,
        client_id=record.client_id,
        client_host=record.client_host,
        subscribed_topic_names=in_order(record.topics),
        subscribed_topic_regex=record.pattern,
        rebalance_timeout_ms=record.rebalance_timeout_ms,
        server_assignor=record.assignor,
        classic_member_metadata=classic,
    )


def _target_epoch_value(record: TargetEpochStored) -> data.ConsumerGroupTargetAssignmentMetadataValue:
    value = data.ConsumerGroupTargetAssignmentMetadataValue
    return value(assignment_epoch=record.epoch, assignment_timestamp=record.wall_ms)


def _target_value(record: TargetStored) -> data.ConsumerGroupTargetAssignmentMemberValue:
    value = data.ConsumerGroupTargetAssignmentMemberValue
    return value(
        topic_partitions=[
            value.TopicPartition(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in record.partitions.items()
        ]
    )


_NOTHING = encode_value(_target_value(TargetStored("", "", {})), VERSION)


def _current_value(record: CurrentStored) -> data.ConsumerGroupCurrentMemberAssignmentValue:
    return data.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=record.epoch,
        previous_member_epoch=record.previous_epoch,
        state=record.state.value,
        assigned_partitions=_with_epochs(record.assigned),
        partitions_pending_revocation=_with_epochs(record.revoking),
    )


def _with_epochs(epochs: Epochs) -> list[data.ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions]:
    held = data.ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions
    return [
        held(topic_id=topic_id, partitions=list(partitions), assignment_epochs=list(partitions.values()))
        for topic_id, partitions in epochs.items()
    ]


def _pattern_value(record: PatternStored) -> data.ConsumerGroupRegularExpressionValue:
    return data.ConsumerGroupRegularExpressionValue(
        topics=in_order(record.topics), version=record.version, timestamp=record.wall_ms
    )


def _read_member(key: data.ConsumerGroupMemberMetadataKey, value: data.ConsumerGroupMemberMetadataValue) -> MemberStored:
    classic = None
    if value.classic_member_metadata is not None:
        held = value.classic_member_metadata
        protocols = tuple((protocol.name, bytes(protocol.metadata)) for protocol in held.supported_protocols)
        classic = Classic(held.session_timeout_ms, protocols)
    return MemberStored(
        key.group_id,
        key.member_id,
        value.instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        frozenset(value.subscribed_topic_names),
        value.subscribed_topic_regex or "",
        value.rebalance_timeout_ms,
        value.server_assignor,
        classic,
    )


def _read_target(
    key: data.ConsumerGroupTargetAssignmentMemberKey, value: data.ConsumerGroupTargetAssignmentMemberValue
) -> TargetStored:
    partitions = {bytes(topic.topic_id): frozenset(topic.partitions) for topic in value.topic_partitions}
    return TargetStored(key.group_id, key.member_id, partitions)


def _read_current(
    key: data.ConsumerGroupCurrentMemberAssignmentKey, value: data.ConsumerGroupCurrentMemberAssignmentValue
) -> CurrentStored:
    """Return a member's assignment.

    An unknown state becomes UNKNOWN. Before Kafka 4.3 partitions had no epochs, so the member's epoch is used.
    """
    states = MemberState._value2member_map_
    state = MemberState(value.state) if value.state in states else MemberState.UNKNOWN
    epoch = max(value.member_epoch, 0)
    return CurrentStored(
        key.group_id,
        key.member_id,
        value.member_epoch,
        value.previous_member_epoch,
        state,
        _read_epochs(value.assigned_partitions, epoch),
        _read_epochs(value.partitions_pending_revocation, epoch),
    )


def _read_epochs(
    topics: list[data.ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions], epoch: int
) -> dict[bytes, Mapping[int, int]]:
    read: dict[bytes, Mapping[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [epoch] * len(topic.partitions)
        read[bytes(topic.topic_id)] = dict(zip(topic.partitions, epochs, strict=True))
    return read


def _read_pattern(key: data.ConsumerGroupRegularExpressionKey, value: data.ConsumerGroupRegularExpressionValue) -> PatternStored:
    topics = frozenset(value.topics)
    return PatternStored(key.group_id, key.regular_expression, topics, value.version, value.timestamp)


Encode = Callable[[Never], tuple[Message, Message | None]]

_ENCODE: dict[type, Encode] = {
    EpochStored: lambda record: (_group_key(record), _group_value(record)),
    EpochForgotten: lambda record: (_group_key(record), None),
    OldMetadataStored: lambda record: (_old_key(record), _old_value(record)),
    OldMetadataForgotten: lambda record: (_old_key(record), None),
    MemberStored: lambda record: (_member_key(record), _member_value(record)),
    MemberForgotten: lambda record: (_member_key(record), None),
    TargetEpochStored: lambda record: (_target_epoch_key(record), _target_epoch_value(record)),
    TargetEpochForgotten: lambda record: (_target_epoch_key(record), None),
    TargetStored: lambda record: (_target_key(record), _target_value(record)),
    TargetForgotten: lambda record: (_target_key(record), None),
    CurrentStored: lambda record: (_current_key(record), _current_value(record)),
    CurrentForgotten: lambda record: (_current_key(record), None),
    PatternStored: lambda record: (_pattern_key(record), _pattern_value(record)),
    PatternForgotten: lambda record: (_pattern_key(record), None),
}

STORED = frozenset(_ENCODE)
"""The types of all records of consumer groups."""


Decoder = Callable[[bytes, bytes | None], ConsumerStored]


def _decoder(
    key_type: type[K], value_type: type[V], read: Callable[[K, V], ConsumerStored], forgotten: Callable[[K], ConsumerStored]
) -> Decoder:
    """Return a decoder for one type of record. `read` creates a record from key and value, `forgotten` a tombstone from a key."""

    def decode(key: bytes, value: bytes | None) -> ConsumerStored:
        names = decode_key(key_type, key)
        return forgotten(names) if value is None else read(names, decode_value(value_type, value)[1])

    return decode


DECODE: dict[int, Decoder] = {
    3: _decoder(
        data.ConsumerGroupMetadataKey,
        data.ConsumerGroupMetadataValue,
        lambda key, value: EpochStored(key.group_id, value.epoch, value.metadata_hash),
        lambda key: EpochForgotten(key.group_id),
    ),
    4: _decoder(
        data.ConsumerGroupPartitionMetadataKey,
        data.ConsumerGroupPartitionMetadataValue,
        lambda key, value: OldMetadataStored(key.group_id),
        lambda key: OldMetadataForgotten(key.group_id),
    ),
    5: _decoder(
        data.ConsumerGroupMemberMetadataKey,
        data.ConsumerGroupMemberMetadataValue,
        _read_member,
        lambda key: MemberForgotten(key.group_id, key.member_id),
    ),
    6: _decoder(
        data.ConsumerGroupTargetAssignmentMetadataKey,
        data.ConsumerGroupTargetAssignmentMetadataValue,
        lambda key, value: TargetEpochStored(key.group_id, value.assignment_epoch, value.assignment_timestamp),
        lambda key: TargetEpochForgotten(key.group_id),
    ),
    7: _decoder(
        data.ConsumerGroupTargetAssignmentMemberKey,
        data.ConsumerGroupTargetAssignmentMemberValue,
        _read_target,
        lambda key: TargetForgotten(key.group_id, key.member_id),
    ),
    8: _decoder(
        data.ConsumerGroupCurrentMemberAssignmentKey,
        data.ConsumerGroupCurrentMemberAssignmentValue,
        _read_current,
        lambda key: CurrentForgotten(key.group_id, key.member_id),
    ),
    16: _decoder(
        data.ConsumerGroupRegularExpressionKey,
        data.ConsumerGroupRegularExpressionValue,
        _read_pattern,
        lambda key: PatternForgotten(key.group_id, key.regular_expression),
    ),
}
"""The decoder of key and value, by the number with which the key begins. Decoders raise `Malformed`."""
