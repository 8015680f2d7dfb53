"""The records of streams groups (KIP-1071) in `__consumer_offsets`."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i8, i16, i32, i64, since, u16


class StreamsGroupMetadataKey(Message, key=17, valid="0"):
    """The key of a streams group's metadata record in __consumer_offsets: the group id."""

    group_id: str = since("0")


class StreamsGroupMetadataValue(Message, key=17, valid="0", flexible="0+"):
    """The value of a streams group's metadata record: the group epoch, a metadata hash, and the settings of the last assignment."""

    class LastAssignmentConfig(Struct):
        key: str = since()
        value: str = since()

    epoch: i32 = since()
    metadata_hash: i64 = since()
    validated_topology_epoch: i32 = since(tag=0, default=-1)
    last_assignment_configs: list[StreamsGroupMetadataValue.LastAssignmentConfig] | None = since(tag=1)
    stored_description_topology_epoch: i32 = since(tag=2, default=-1)
    failed_description_topology_epoch: i32 = since(tag=3, default=-1)


class StreamsGroupMemberMetadataKey(Message, key=19, valid="0"):
    """The key of a member's record in a streams group: group id and member id."""

    group_id: str = since("0")
    member_id: str = since("0")


class StreamsGroupMemberMetadataValue(Message, key=19, valid="0", flexible="0+"):
    """The value of a member's record in a streams group: the fields from its heartbeats."""

    class Endpoint(Struct):
        host: str = since()
        port: u16 = since()

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


class StreamsGroupTargetAssignmentMetadataKey(Message, key=20, valid="0"):
    """The key of the record of a streams group's target assignment: the group id."""

    group_id: str = since("0")


class StreamsGroupTargetAssignmentMetadataValue(Message, key=20, valid="0", flexible="0+"):
    """The value of the record of a streams group's target assignment: the assignment epoch and its time."""

    assignment_epoch: i32 = since()
    assignment_timestamp: i64 = since(tag=0, ignorable=True)


class StreamsGroupTargetAssignmentMemberKey(Message, key=21, valid="0"):
    """The key of a member's record in the target assignment of a streams group: group id and member id."""

    group_id: str = since("0")
    member_id: str = since("0")


class StreamsGroupTargetAssignmentMemberValue(Message, key=21, valid="0", flexible="0+"):
    """The active, standby and warm-up tasks of the member's target assignment."""

    class TaskIds(Struct):
        subtopology_id: str = since()
        partitions: list[i32] = since()

    active_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = since()
    standby_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = since()
    warmup_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = since()


class StreamsGroupCurrentMemberAssignmentKey(Message, key=22, valid="0"):
    """The key of the record of a member's current assignment in a streams group: group id and member id."""

    group_id: str = since("0")
    member_id: str = since("0")


class StreamsGroupCurrentMemberAssignmentValue(Message, key=22, valid="0", flexible="0+"):
    """The current assignment of a member of a streams group: epochs, state, assigned tasks, and tasks that it must revoke."""

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


class StreamsGroupTopologyKey(Message, key=23, valid="0"):
    """The key of the record of a streams group's topology: the group id."""

    group_id: str = since("0")


class StreamsGroupTopologyValue(Message, key=23, valid="0", flexible="0+"):
    """The topology of a streams application: its subtopologies with their topics."""

    class TopicConfig(Struct):
        key: str = since()
        value: str = since()

    class TopicInfo(Struct):
        name: str = since()
        partitions: i32 = since()
        replication_factor: i16 = since()
        topic_configs: list[StreamsGroupTopologyValue.TopicConfig] = since()

    class CopartitionGroup(Struct):
        source_topics: list[i16] = since()
        source_topic_regex: list[i16] = since()
        repartition_source_topics: list[i16] = since()

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
