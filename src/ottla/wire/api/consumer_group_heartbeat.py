"""ConsumerGroupHeartbeat (API key 68): a member of a consumer group joins, stays alive and leaves.

KIP-848. In version 1 members can subscribe by a pattern, and choose their own member ids (KIP-1082).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i16, i32, since


class ConsumerGroupHeartbeatRequest(Message, key=68, valid="0-1", flexible="0+"):
    """A consumer's heartbeat to its group coordinator, with its subscription and owned partitions.

    Only fields that changed since the last heartbeat are sent.
    """

    class TopicPartitions(Struct):
        topic_id: Uuid = since()
        partitions: list[i32] = since()

    group_id: str = since()
    member_id: str = since()
    member_epoch: i32 = since()
    instance_id: str | None = since(default=None)
    rack_id: str | None = since(default=None)
    rebalance_timeout_ms: i32 = since(default=-1)
    subscribed_topic_names: list[str] | None = since(default=None)
    subscribed_topic_regex: str | None = since("1+", default=None)
    server_assignor: str | None = since(default=None)
    topic_partitions: list[ConsumerGroupHeartbeatRequest.TopicPartitions] | None = since(default=None)


class ConsumerGroupHeartbeatResponse(Message, key=68, valid="0-1", flexible="0+"):
    """The coordinator's answer to a heartbeat: the member's epoch, and its assignment if the assignment has changed."""

    class Assignment(Struct):
        topic_partitions: list[ConsumerGroupHeartbeatRequest.TopicPartitions] = since()

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    error_message: str | None = since(default=None)
    member_id: str | None = since(default=None)
    member_epoch: i32 = since()
    heartbeat_interval_ms: i32 = since()
    assignment: ConsumerGroupHeartbeatResponse.Assignment | None = since(default=None)
