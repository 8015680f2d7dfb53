"""The state of share partitions (KIP-932) in `__share_group_state`."""

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
    """The whole state: the start offset, the epochs, and the state of each range of offsets."""

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


@message(key=1, valid="0")
class ShareUpdateKey(Message):
    """Group and partition."""

    group_id: str = since("0")
    topic_id: Uuid = since("0")
    partition: i32 = since("0")


@message(key=1, valid="0", flexible="0+")
class ShareUpdateValue(Message):
    """The ranges of offsets that changed since the snapshot."""

    snapshot_epoch: i32 = since()
    leader_epoch: i32 = since()
    start_offset: i64 = since()
    delivery_complete_count: i32 = since(tag=0, default=-1)
    state_batches: list[ShareSnapshotValue.StateBatch] = since()
