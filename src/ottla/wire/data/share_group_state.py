"""The state of share partitions (KIP-932) in `__share_group_state`."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i8, i16, i32, i64, since


class ShareSnapshotKey(Message, key=0, valid="0"):
    """Group and partition."""

    group_id: str = since("0")
    topic_id: Uuid = since("0")
    partition: i32 = since("0")


class ShareSnapshotValue(Message, key=0, valid="0", flexible="0+"):
    """The whole state: the start offset, the epochs, and the state of each range of offsets."""

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


class ShareUpdateKey(Message, key=1, valid="0"):
    """Group and partition."""

    group_id: str = since("0")
    topic_id: Uuid = since("0")
    partition: i32 = since("0")


class ShareUpdateValue(Message, key=1, valid="0", flexible="0+"):
    """The ranges of offsets that changed since the snapshot."""

    snapshot_epoch: i32 = since()
    leader_epoch: i32 = since()
    start_offset: i64 = since()
    delivery_complete_count: i32 = since(tag=0, default=-1)
    state_batches: list[ShareSnapshotValue.StateBatch] = since()
