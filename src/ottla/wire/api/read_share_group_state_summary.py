"""ReadShareGroupStateSummary (API key 87): the start offsets of share partitions.

KIP-932. Version 1 counts completed deliveries (KIP-1226).
"""

from __future__ import annotations

from ottla.wire.api.read_share_group_state import ReadShareGroupStateRequest
from ottla.wire.schema import Message, Struct, Uuid, i16, i32, i64, since


class ReadShareGroupStateSummaryRequest(Message, key=87, valid="0-1", flexible="0+"):
    """A request for the start offsets of a share group's partitions, without the delivery states."""

    class ReadStateSummaryData(Struct):
        topic_id: Uuid = since()
        partitions: list[ReadShareGroupStateRequest.PartitionData] = since()

    group_id: str = since()
    topics: list[ReadShareGroupStateSummaryRequest.ReadStateSummaryData] = since()


class ReadShareGroupStateSummaryResponse(Message, key=87, valid="0-1", flexible="0+"):
    """The start offset and the epochs of each partition's stored state."""

    class PartitionResult(Struct):
        partition: i32 = since()
        error_code: i16 = since()
        error_message: str | None = since(default=None)
        state_epoch: i32 = since()
        leader_epoch: i32 = since()
        start_offset: i64 = since()
        delivery_complete_count: i32 = since("1+", default=-1, ignorable=True)

    class ReadStateSummaryResult(Struct):
        topic_id: Uuid = since()
        partitions: list[ReadShareGroupStateSummaryResponse.PartitionResult] = since()

    results: list[ReadShareGroupStateSummaryResponse.ReadStateSummaryResult] = since()
