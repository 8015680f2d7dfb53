"""The records of a consumer group in `__consumer_offsets`, as values and as bytes in Kafka's formats (KIP-848).

Their effects are elsewhere. The first field of each record is the group id. Records named `…Forgotten` are tombstones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.coord.consumer.assign import Partitions
from ottla.coord.consumer.member import Classic, Epochs
from ottla.coord.consumer.names import in_order
from ottla.coord.consumer.states import MemberState
from ottla.coord.record_kinds import OF_GROUP, VERSION, RecordKind, RecordKinds
from ottla.coord.runtime.machine import KeyAndValue
from ottla.wire.data import consumer_groups as data
from ottla.wire.data import encode_value


class EpochStored(NamedTuple):
    """The record of a group's epoch, and of the hash of its subscribed topics' metadata."""

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
    """The record of what a member has reported: its subscription, client and timeouts."""

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


def encode_record(record: ConsumerStored) -> KeyAndValue:
    """Return a record's stored key and value. The value of a tombstone is None. Raises `Unencodable`."""
    if type(record) is TargetStored and not record.partitions:  # a fast path: thousands of members can have an empty target
        return KINDS.encode_key(record), _NOTHING
    return KINDS.encode(record)


def _group_value(record: EpochStored) -> data.ConsumerGroupMetadataValue:
    return data.ConsumerGroupMetadataValue(epoch=record.epoch, metadata_hash=record.metadata_hash)


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


def _read_epoch(value: data.ConsumerGroupMetadataValue, group_id: str) -> EpochStored:
    return EpochStored(group_id, value.epoch, value.metadata_hash)


def _read_member(value: data.ConsumerGroupMemberMetadataValue, group_id: str, member_id: str) -> MemberStored:
    classic = None
    if value.classic_member_metadata is not None:
        held = value.classic_member_metadata
        protocols = tuple((protocol.name, bytes(protocol.metadata)) for protocol in held.supported_protocols)
        classic = Classic(held.session_timeout_ms, protocols)
    return MemberStored(
        group_id,
        member_id,
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


def _read_target_epoch(value: data.ConsumerGroupTargetAssignmentMetadataValue, group_id: str) -> TargetEpochStored:
    return TargetEpochStored(group_id, value.assignment_epoch, value.assignment_timestamp)


def _read_target(value: data.ConsumerGroupTargetAssignmentMemberValue, group_id: str, member_id: str) -> TargetStored:
    partitions = {bytes(topic.topic_id): frozenset(topic.partitions) for topic in value.topic_partitions}
    return TargetStored(group_id, member_id, partitions)


def _read_current(value: data.ConsumerGroupCurrentMemberAssignmentValue, group_id: str, member_id: str) -> CurrentStored:
    """Return the record of a member's assignment.

    An unknown state becomes UNKNOWN. Before Kafka 4.3 partitions had no epochs, so the member's epoch is used.
    """
    states = MemberState._value2member_map_
    state = MemberState(value.state) if value.state in states else MemberState.UNKNOWN
    epoch = max(value.member_epoch, 0)
    return CurrentStored(
        group_id,
        member_id,
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


def _read_pattern(value: data.ConsumerGroupRegularExpressionValue, group_id: str, pattern: str) -> PatternStored:
    return PatternStored(group_id, pattern, frozenset(value.topics), value.version, value.timestamp)


KINDS: Final = RecordKinds(
    RecordKind(
        data.ConsumerGroupMetadataKey,
        data.ConsumerGroupMetadataValue,
        EpochStored,
        EpochForgotten,
        _group_value,
        _read_epoch,
        OF_GROUP,
    ),
    RecordKind(
        data.ConsumerGroupPartitionMetadataKey,
        data.ConsumerGroupPartitionMetadataValue,
        OldMetadataStored,
        OldMetadataForgotten,
        lambda record: data.ConsumerGroupPartitionMetadataValue(),
        lambda value, group_id: OldMetadataStored(group_id),
        OF_GROUP,
    ),
    RecordKind(
        data.ConsumerGroupMemberMetadataKey,
        data.ConsumerGroupMemberMetadataValue,
        MemberStored,
        MemberForgotten,
        _member_value,
        _read_member,
    ),
    RecordKind(
        data.ConsumerGroupTargetAssignmentMetadataKey,
        data.ConsumerGroupTargetAssignmentMetadataValue,
        TargetEpochStored,
        TargetEpochForgotten,
        _target_epoch_value,
        _read_target_epoch,
        OF_GROUP,
    ),
    RecordKind(
        data.ConsumerGroupTargetAssignmentMemberKey,
        data.ConsumerGroupTargetAssignmentMemberValue,
        TargetStored,
        TargetForgotten,
        _target_value,
        _read_target,
    ),
    RecordKind(
        data.ConsumerGroupCurrentMemberAssignmentKey,
        data.ConsumerGroupCurrentMemberAssignmentValue,
        CurrentStored,
        CurrentForgotten,
        _current_value,
        _read_current,
    ),
    RecordKind(
        data.ConsumerGroupRegularExpressionKey,
        data.ConsumerGroupRegularExpressionValue,
        PatternStored,
        PatternForgotten,
        _pattern_value,
        _read_pattern,
        ("group_id", "regular_expression"),
    ),
)
STORED: Final = KINDS.stored
"""The types of all records of consumer groups."""
