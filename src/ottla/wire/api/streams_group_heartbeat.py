"""StreamsGroupHeartbeat (API key 88): a member of a streams group joins, stays alive and leaves.

KIP-1071. Version 1 can request the topology's description (KIP-1331).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i8, i16, i32, i64, since, u16


class StreamsGroupHeartbeatRequest(Message, key=88, valid="0-1", flexible="0+"):
    """A streams client's heartbeat to its group coordinator, with the member's epoch, topology and tasks.

    Only fields that changed since the last heartbeat are sent.
    """

    class KeyValue(Struct):
        key: str = since()
        value: str = since()

    class TopicInfo(Struct):
        name: str = since()
        partitions: i32 = since()
        replication_factor: i16 = since()
        topic_configs: list[StreamsGroupHeartbeatRequest.KeyValue] = since()

    class Endpoint(Struct):
        host: str = since()
        port: u16 = since()

    class TaskOffset(Struct):
        subtopology_id: str = since()
        partition: i32 = since()
        offset: i64 = since()

    class TaskIds(Struct):
        subtopology_id: str = since()
        partitions: list[i32] = since()

    class CopartitionGroup(Struct):
        source_topics: list[i16] = since()
        source_topic_regex: list[i16] = since()
        repartition_source_topics: list[i16] = since()

    class Subtopology(Struct):
        subtopology_id: str = since()
        source_topics: list[str] = since()
        source_topic_regex: list[str] = since()
        state_changelog_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = since()
        repartition_sink_topics: list[str] = since()
        repartition_source_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = since()
        copartition_groups: list[StreamsGroupHeartbeatRequest.CopartitionGroup] = since()

    class Topology(Struct):
        epoch: i32 = since()
        subtopologies: list[StreamsGroupHeartbeatRequest.Subtopology] = since()

    group_id: str = since()
    member_id: str = since()
    member_epoch: i32 = since()
    endpoint_information_epoch: i32 = since()
    instance_id: str | None = since(default=None)
    rack_id: str | None = since(default=None)
    rebalance_timeout_ms: i32 = since(default=-1)
    topology: StreamsGroupHeartbeatRequest.Topology | None = since(default=None)
    active_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = since(default=None)
    standby_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = since(default=None)
    warmup_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = since(default=None)
    process_id: str | None = since(default=None)
    user_endpoint: StreamsGroupHeartbeatRequest.Endpoint | None = since(default=None)
    client_tags: list[StreamsGroupHeartbeatRequest.KeyValue] | None = since(default=None)
    task_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None = since(default=None)
    task_end_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None = since(default=None)
    shutdown_application: bool = since()


class StreamsGroupHeartbeatResponse(Message, key=88, valid="0-1", flexible="0+"):
    """The coordinator's answer to a heartbeat: the member's epoch and tasks, and the endpoints of other members."""

    class Status(Struct):
        status_code: i8 = since()
        status_detail: str = since()

    class TopicPartition(Struct):
        topic: str = since()
        partitions: list[i32] = since()

    class EndpointToPartitions(Struct):
        user_endpoint: StreamsGroupHeartbeatRequest.Endpoint = since()
        active_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = since()
        standby_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = since()

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    error_message: str | None = since(default=None)
    member_id: str = since()
    member_epoch: i32 = since()
    heartbeat_interval_ms: i32 = since()
    acceptable_recovery_lag_legacy: i32 = since("0")
    task_offset_interval_ms: i32 = since()
    acceptable_recovery_lag: i64 = since("1+", default=-1, ignorable=True)
    status: list[StreamsGroupHeartbeatResponse.Status] | None = since()
    active_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = since(default=None)
    standby_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = since(default=None)
    warmup_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = since(default=None)
    topology_description_required: bool = since("1+")
    endpoint_information_epoch: i32 = since()
    partitions_by_user_endpoint: list[StreamsGroupHeartbeatResponse.EndpointToPartitions] | None = since(default=None)
