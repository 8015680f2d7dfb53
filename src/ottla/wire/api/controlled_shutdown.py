"""ControlledShutdown (API key 7): a broker asks the controller to move its leaderships away before it stops (until 3.9).

Version 0 travels under a request header without client id.
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, i64, message, since, struct


@message(key=7, valid="0-3", flexible="3+")
class ControlledShutdownRequest(Message):
    """Which broker wants to stop."""

    broker_id: i32 = since()
    broker_epoch: i64 = since("2+", default=-1, ignorable=True)


@message(key=7, valid="0-3", flexible="3+")
class ControlledShutdownResponse(Message):
    """Which partitions it still leads."""

    @struct
    class RemainingPartition(Struct):
        topic_name: str = since()
        partition_index: i32 = since()

    error_code: i16 = since()
    remaining_partitions: list[ControlledShutdownResponse.RemainingPartition] = since()
