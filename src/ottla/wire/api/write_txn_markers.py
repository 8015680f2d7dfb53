"""WriteTxnMarkers (API key 27): a transaction coordinator writes transaction markers into the partitions.

KIP-98. Version 2 adds the transaction's version (KIP-1228).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i8, i16, i32, i64, since


class WriteTxnMarkersRequest(Message, key=27, valid="0-2", flexible="1+"):
    """A transaction coordinator's request to a leader to write transaction markers of producers."""

    class WritableTxnMarkerTopic(Struct):
        name: str = since()
        partition_indexes: list[i32] = since()

    class WritableTxnMarker(Struct):
        producer_id: i64 = since()
        producer_epoch: i16 = since()
        transaction_result: bool = since()
        topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic] = since()
        coordinator_epoch: i32 = since()
        transaction_version: i8 = since("2+", ignorable=True)

    markers: list[WriteTxnMarkersRequest.WritableTxnMarker] = since()


class WriteTxnMarkersResponse(Message, key=27, valid="0-2", flexible="1+"):
    """The answer to a WriteTxnMarkers request: an error code for each partition."""

    class WritableTxnMarkerPartitionResult(Struct):
        partition_index: i32 = since()
        error_code: i16 = since()

    class WritableTxnMarkerTopicResult(Struct):
        name: str = since()
        partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult] = since()

    class WritableTxnMarkerResult(Struct):
        producer_id: i64 = since()
        topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = since()

    markers: list[WriteTxnMarkersResponse.WritableTxnMarkerResult] = since()
