"""StreamsGroupDescribe (API key 89): state and members of streams groups.

KIP-1071. Version 1 adds the topology's description (KIP-1331).
"""

from __future__ import annotations

from ottla.wire.api.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from ottla.wire.api.streams_group_topology_description_update import StreamsGroupTopologyDescriptionUpdateRequest
from ottla.wire.schema import Message, Struct, i8, i16, i32, since


class StreamsGroupDescribeRequest(Message, key=89, valid="0-1", flexible="0+"):
    """A request for descriptions of streams groups, by group id."""

    group_ids: list[str] = since()
    include_authorized_operations: bool = since()
    include_topology_description: bool = since("1+")


class StreamsGroupDescribeResponse(Message, key=89, valid="0-1", flexible="0+"):
    """The described streams groups: the topology, the members and the tasks of each."""

    class Assignment(Struct):
        active_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] = since()
        standby_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] = since()
        warmup_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] = since()

    class Subtopology(Struct):
        subtopology_id: str = since()
        source_topics: list[str] = since()
        repartition_sink_topics: list[str] = since()
        state_changelog_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = since()
        repartition_source_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = since()

    class Topology(Struct):
        epoch: i32 = since()
        subtopologies: list[StreamsGroupDescribeResponse.Subtopology] | None = since(default=None)

    class Member(Struct):
        member_id: str = since()
        member_epoch: i32 = since()
        instance_id: str | None = since(default=None)
        rack_id: str | None = since(default=None)
        client_id: str = since()
        client_host: str = since()
        topology_epoch: i32 = since()
        process_id: str = since()
        user_endpoint: StreamsGroupHeartbeatRequest.Endpoint | None = since(default=None)
        client_tags: list[StreamsGroupHeartbeatRequest.KeyValue] = since()
        task_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] = since()
        task_end_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] = since()
        assignment: StreamsGroupDescribeResponse.Assignment = since()
        target_assignment: StreamsGroupDescribeResponse.Assignment = since()
        is_classic: bool = since()

    class DescribedGroup(Struct):
        error_code: i16 = since()
        error_message: str | None = since(default=None)
        group_id: str = since()
        group_state: str = since()
        group_epoch: i32 = since()
        assignment_epoch: i32 = since()
        topology: StreamsGroupDescribeResponse.Topology | None = since(default=None)
        members: list[StreamsGroupDescribeResponse.Member] = since()
        authorized_operations: i32 = since(default=-(1 << 31))
        topology_description: StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescription | None = since("1+", default=None)
        topology_description_status: i8 = since("1+")
        assignor_name: str | None = since("1+", default=None, ignorable=True)

    throttle_time_ms: i32 = since()
    groups: list[StreamsGroupDescribeResponse.DescribedGroup] = since()
