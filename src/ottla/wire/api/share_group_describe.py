"""ShareGroupDescribe (API key 77): state and members of share groups. KIP-932. Version 0 was never stable."""

from __future__ import annotations

from ottla.wire.api.consumer_group_describe import ConsumerGroupDescribeResponse
from ottla.wire.schema import Message, Struct, i16, i32, since


class ShareGroupDescribeRequest(Message, key=77, valid="0-1", flexible="0+"):
    """A request for descriptions of share groups, by group id."""

    group_ids: list[str] = since()
    include_authorized_operations: bool = since()


class ShareGroupDescribeResponse(Message, key=77, valid="0-1", flexible="0+"):
    """The described share groups: their epochs, their members, and the members' assignments."""

    class Member(Struct):
        member_id: str = since()
        rack_id: str | None = since(default=None)
        member_epoch: i32 = since()
        client_id: str = since()
        client_host: str = since()
        subscribed_topic_names: list[str] = since()
        assignment: ConsumerGroupDescribeResponse.Assignment = since()

    class DescribedGroup(Struct):
        error_code: i16 = since()
        error_message: str | None = since(default=None)
        group_id: str = since()
        group_state: str = since()
        group_epoch: i32 = since()
        assignment_epoch: i32 = since()
        assignor_name: str = since()
        members: list[ShareGroupDescribeResponse.Member] = since()
        authorized_operations: i32 = since(default=-(1 << 31))

    throttle_time_ms: i32 = since()
    groups: list[ShareGroupDescribeResponse.DescribedGroup] = since()
