"""The whole state of a share partition in `__share_group_state` (KIP-932)."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i8, i16, i32, i64, message, since, struct


@message(key=0, valid="0")
class ShareSnapshotKey(Message):
    """Group and partition."""

    group_id: str = since("0")
    topic_id: Uuid = since("0")
    partition: i32 = since("0")


@message(key=0, valid="0", flexible="0+")
class ShareSnapshotValue(Message):
    """The start offset, the epochs, and the state of each range of offsets."""

    @struct
    class StateBatch(Struct):
        first_offset: i64 = since()
        last_offset: i64 = since()
        delivery_state: i8 = since()
        delivery_count: i16 = since()

    snapshot_epoch: i32 = since()
    state_epoch: i32 = since()
    leader_epoch: i32 = since()
    start_offset: i64 = since()
    delivery_complete_count: i32 = since(tag=0, default=-1)
    create_timestamp: i64 = since()
    write_timestamp: i64 = since()
    state_batches: list[ShareSnapshotValue.StateBatch] = since()
