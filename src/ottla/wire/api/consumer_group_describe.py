"""ConsumerGroupDescribe (API key 69): state and members of consumer groups.

KIP-848. Version 1 adds each member's type (KIP-1099).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i8, i16, i32, since


class ConsumerGroupDescribeRequest(Message, key=69, valid="0-1", flexible="0+"):
    """A request for descriptions of consumer groups (KIP-848), by group id."""

    group_ids: list[str] = since()
    include_authorized_operations: bool = since()


class ConsumerGroupDescribeResponse(Message, key=69, valid="0-1", flexible="0+"):
    """The described consumer groups: their epochs, their members, and the members' assignments."""

    class TopicPartitions(Struct):
        topic_id: Uuid = since()
        topic_name: str = since()
        partitions: list[i32] = since()

    class Assignment(Struct):
        topic_partitions: list[ConsumerGroupDescribeResponse.TopicPartitions] = since()

    class Member(Struct):
        member_id: str = since()
        instance_id: str | None = since(default=None)
        rack_id: str | None = since(default=None)
        member_epoch: i32 = since()
        client_id: str = since()
        client_host: str = since()
        subscribed_topic_names: list[str] = since()
        subscribed_topic_regex: str | None = since(default=None)
        assignment: ConsumerGroupDescribeResponse.Assignment = since()
        target_assignment: ConsumerGroupDescribeResponse.Assignment = since()
        member_type: i8 = since("1+", default=-1, ignorable=True)

    class DescribedGroup(Struct):
        error_code: i16 = since()
        error_message: str | None = since(default=None)
        group_id: str = since()
        group_state: str = since()
        group_epoch: i32 = since()
        assignment_epoch: i32 = since()
        assignor_name: str = since()
        members: list[ConsumerGroupDescribeResponse.Member] = since()
        authorized_operations: i32 = since(default=-(1 << 31))

    throttle_time_ms: i32 = since()
    groups: list[ConsumerGroupDescribeResponse.DescribedGroup] = since()
