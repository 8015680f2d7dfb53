"""The subscriptions and assignments of a classic consumer group, as bytes inside JoinGroup and SyncGroup."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i32, since


class ConsumerProtocolAssignment(Message, valid="0-3"):
    """The partitions assigned to a member."""

    class TopicPartition(Struct):
        topic: str = since()
        partitions: list[i32] = since()

    assigned_partitions: list[ConsumerProtocolAssignment.TopicPartition] = since()
    user_data: bytes | None = since(default=None)


class ConsumerProtocolSubscription(Message, valid="0-3"):
    """The topics of a member. Version 1 adds its owned partitions (KIP-429), 2 its generation, 3 its rack (KIP-881)."""

    class TopicPartition(Struct):
        topic: str = since("1+")
        partitions: list[i32] = since("1+")

    topics: list[str] = since()
    user_data: bytes | None = since(default=None)
    owned_partitions: list[ConsumerProtocolSubscription.TopicPartition] = since("1+", ignorable=True)
    generation_id: i32 = since("2+", default=-1, ignorable=True)
    rack_id: str | None = since("3+", default=None, ignorable=True)
