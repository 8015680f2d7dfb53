"""ControlledShutdown (API key 7): …"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, i64, message, since, struct


@message(key=7, valid="0-3", flexible="3+")
class ControlledShutdownRequest(Message):
    """Request."""

    broker_id: i32 = since()
    broker_epoch: i64 = since("2+", default=-1, ignorable=True)


@message(key=7, valid="0-3", flexible="3+")
class ControlledShutdownResponse(Message):
    """Response."""

    @struct
    class RemainingPartition(Struct):
        topic_name: str = since()
        partition_index: i32 = since()

    error_code: i16 = since()
    remaining_partitions: list[ControlledShutdownResponse.RemainingPartition] = since()
