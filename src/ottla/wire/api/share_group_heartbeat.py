"""ShareGroupHeartbeat (API key 76): a member of a share group joins, stays alive and leaves.

KIP-932. Version 0 was never stable.
"""

from __future__ import annotations

from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from ottla.wire.schema import Message, Struct, Uuid, i16, i32, since


class ShareGroupHeartbeatRequest(Message, key=76, valid="0-1", flexible="0+"):
    """A share consumer's heartbeat to its group coordinator, with the member's epoch and subscription."""

    group_id: str = since()
    member_id: str = since()
    member_epoch: i32 = since()
    rack_id: str | None = since(default=None)
    subscribed_topic_names: list[str] | None = since(default=None)


class ShareGroupHeartbeatResponse(Message, key=76, valid="0-1", flexible="0+"):
    """The coordinator's answer to a heartbeat: the member's epoch, and its assignment if the assignment has changed."""

    class TopicPartitions(Struct):
        topic_id: Uuid = since()
        partitions: list[i32] = since()

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    error_message: str | None = since(default=None)
    member_id: str | None = since(default=None)
    member_epoch: i32 = since()
    heartbeat_interval_ms: i32 = since()
    assignment: ConsumerGroupHeartbeatResponse.Assignment | None = since(default=None)
