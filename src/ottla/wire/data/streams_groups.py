"""The records of streams groups (KIP-1071) in `__consumer_offsets`."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i8, i16, i32, i64, message, since, struct, u16


@message(key=17, valid="0")
class StreamsGroupMetadataKey(Message):
    """The group."""

    group_id: str = since("0")


@message(key=17, valid="0", flexible="0+")
class StreamsGroupMetadataValue(Message):
    """The group epoch, and hash and settings of the last assignment."""

    @struct
    class LastAssignmentConfig(Struct):
        key: str = since()
        value: str = since()

    epoch: i32 = since()
    metadata_hash: i64 = since()
    validated_topology_epoch: i32 = since(tag=0, default=-1)
    last_assignment_configs: list[StreamsGroupMetadataValue.LastAssignmentConfig] | None = since(tag=1)
    stored_description_topology_epoch: i32 = since(tag=2, default=-1)
    failed_description_topology_epoch: i32 = since(tag=3, default=-1)


@message(key=19, valid="0")
class StreamsGroupMemberMetadataKey(Message):
    """Group and member."""

    group_id: str = since("0")
    member_id: str = since("0")


@message(key=19, valid="0", flexible="0+")
class StreamsGroupMemberMetadataValue(Message):
    """The member's fields from its heartbeats."""

    @struct
    class Endpoint(Struct):
        host: str = since()
        port: u16 = since()

    @struct
    class KeyValue(Struct):
        key: str = since()
        value: str = since()

    instance_id: str | None = since()
    rack_id: str | None = since()
    client_id: str = since()
    client_host: str = since()
    rebalance_timeout_ms: i32 = since(default=-1)
    topology_epoch: i32 = since()
    process_id: str = since()
    user_endpoint: StreamsGroupMemberMetadataValue.Endpoint | None = since(default=None)
    client_tags: list[StreamsGroupMemberMetadataValue.KeyValue] = since()


@message(key=20, valid="0")
class StreamsGroupTargetAssignmentMetadataKey(Message):
    """The group."""

    group_id: str = since("0")


@message(key=20, valid="0", flexible="0+")
class StreamsGroupTargetAssignmentMetadataValue(Message):
    """The assignment epoch and its time."""

    assignment_epoch: i32 = since()
    assignment_timestamp: i64 = since(tag=0, ignorable=True)


@message(key=21, valid="0")
class StreamsGroupTargetAssignmentMemberKey(Message):
    """Group and member."""

    group_id: str = since("0")
    member_id: str = since("0")


@message(key=21, valid="0", flexible="0+")
class StreamsGroupTargetAssignmentMemberValue(Message):
    """The active, standby and warm-up tasks of the member's target assignment."""

    @struct
    class TaskIds(Struct):
        subtopology_id: str = since()
        partitions: list[i32] = since()

    active_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = since()
    standby_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = since()
    warmup_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = since()


@message(key=22, valid="0")
class StreamsGroupCurrentMemberAssignmentKey(Message):
    """Group and member."""

    group_id: str = since("0")
    member_id: str = since("0")


@message(key=22, valid="0", flexible="0+")
class StreamsGroupCurrentMemberAssignmentValue(Message):
    """Epochs, state, assigned tasks and tasks to revoke."""

    @struct
    class TaskIds(Struct):
        subtopology_id: str = since()
        partitions: list[i32] = since()
        assignment_epochs: list[i32] | None = since(tag=0)

    member_epoch: i32 = since()
    previous_member_epoch: i32 = since()
    state: i8 = since()
    active_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = since()
    standby_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = since()
    warmup_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = since()
    active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = since()
    standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = since()
    warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = since()


@message(key=23, valid="0")
class StreamsGroupTopologyKey(Message):
    """The group."""

    group_id: str = since("0")


@message(key=23, valid="0", flexible="0+")
class StreamsGroupTopologyValue(Message):
    """Subtopologies with their topics."""

    @struct
    class TopicConfig(Struct):
        key: str = since()
        value: str = since()

    @struct
    class TopicInfo(Struct):
        name: str = since()
        partitions: i32 = since()
        replication_factor: i16 = since()
        topic_configs: list[StreamsGroupTopologyValue.TopicConfig] = since()

    @struct
    class CopartitionGroup(Struct):
        source_topics: list[i16] = since()
        source_topic_regex: list[i16] = since()
        repartition_source_topics: list[i16] = since()

    @struct
    class Subtopology(Struct):
        subtopology_id: str = since()
        source_topics: list[str] = since()
        source_topic_regex: list[str] = since()
        state_changelog_topics: list[StreamsGroupTopologyValue.TopicInfo] = since()
        repartition_sink_topics: list[str] = since()
        repartition_source_topics: list[StreamsGroupTopologyValue.TopicInfo] = since()
        copartition_groups: list[StreamsGroupTopologyValue.CopartitionGroup] = since()

    epoch: i32 = since()
    subtopologies: list[StreamsGroupTopologyValue.Subtopology] = since()
