"""The state of share partitions (KIP-932) in `__share_group_state`."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i8, i16, i32, i64, since


class ShareSnapshotKey(Message, key=0, valid="0"):
    """The key of a snapshot of a share partition's state in __share_group_state: group id, topic id and partition."""

    group_id: str = since("0")
    topic_id: Uuid = since("0")
    partition: i32 = since("0")


class ShareSnapshotValue(Message, key=0, valid="0", flexible="0+"):
    """A snapshot of a share partition's whole state: start offset, epochs, and the delivery state of each range of offsets."""

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
    """The key of an update of a share partition's state in __share_group_state: group id, topic id and partition."""

    group_id: str = since("0")
    topic_id: Uuid = since("0")
    partition: i32 = since("0")


class ShareUpdateValue(Message, key=1, valid="0", flexible="0+"):
    """An update of a share partition's state: the ranges of offsets that changed since the snapshot."""

    snapshot_epoch: i32 = since()
    leader_epoch: i32 = since()
    start_offset: i64 = since()
    delivery_complete_count: i32 = since(tag=0, default=-1)
    state_batches: list[ShareSnapshotValue.StateBatch] = since()
