"""A classic group's state in `__consumer_offsets`."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i32, i64, since


class GroupMetadataKey(Message, key=2, valid="0"):
    """The key of a classic group's record in __consumer_offsets: the group id."""

    group: str = since("0")


class GroupMetadataValue(Message, key=2, valid="0-4", flexible="4+"):
    """The value of a classic group's record: generation, protocol, leader and members.

    Version 3 adds static members, version 4 tagged fields (KIP-915).
    """

    class MemberMetadata(Struct):
        member_id: str = since()
        group_instance_id: str | None = since("3+", default=None, ignorable=True)
        client_id: str = since()
        client_host: str = since()
        rebalance_timeout: i32 = since("1+", default=-1, ignorable=True)
        session_timeout: i32 = since()
        subscription: bytes = since()
        assignment: bytes = since()

    protocol_type: str = since()
    generation: i32 = since()
    protocol: str | None = since()
    leader: str | None = since()
    current_state_timestamp: i64 = since("2+", default=-1, ignorable=True)
    members: list[GroupMetadataValue.MemberMetadata] = since()
