"""ControlledShutdown (API key 7): before a broker stops, the controller moves its leaderships away (until 3.9).

Version 0 has a request header without client id.
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, i64, since


class ControlledShutdownRequest(Message, key=7, valid="0-3", flexible="3+"):
    """A broker's request to the controller to move its leaderships to other brokers before it shuts down."""

    broker_id: i32 = since()
    broker_epoch: i64 = since("2+", default=-1, ignorable=True)


class ControlledShutdownResponse(Message, key=7, valid="0-3", flexible="3+"):
    """The answer to a ControlledShutdown request: the partitions that the broker still leads."""

    class RemainingPartition(Struct):
        topic_name: str = since()
        partition_index: i32 = since()

    error_code: i16 = since()
    remaining_partitions: list[ControlledShutdownResponse.RemainingPartition] = since()
