"""A streams group's epoch in `__consumer_offsets` (KIP-1071)."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i32, i64, message, since, struct


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
