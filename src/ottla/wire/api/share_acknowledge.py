"""ShareAcknowledge (API key 79): acquired records are acknowledged.

KIP-932. Version 0 was never stable. Version 2 renews acquisitions (KIP-1222).
"""

from __future__ import annotations

from ottla.wire.api.share_fetch import ShareFetchRequest, ShareFetchResponse
from ottla.wire.schema import Message, Struct, Uuid, i16, i32, since


class ShareAcknowledgeRequest(Message, key=79, valid="0-2", flexible="0+"):
    """A share consumer's acknowledgement of ranges of offsets: whether each record was accepted, released or rejected."""

    class AcknowledgePartition(Struct):
        partition_index: i32 = since()
        acknowledgement_batches: list[ShareFetchRequest.AcknowledgementBatch] = since()

    class AcknowledgeTopic(Struct):
        topic_id: Uuid = since()
        partitions: list[ShareAcknowledgeRequest.AcknowledgePartition] = since()

    group_id: str | None = since(default=None)
    member_id: str | None = since()
    share_session_epoch: i32 = since()
    is_renew_ack: bool = since("2+")
    topics: list[ShareAcknowledgeRequest.AcknowledgeTopic] = since()


class ShareAcknowledgeResponse(Message, key=79, valid="0-2", flexible="0+"):
    """The answer to a ShareAcknowledge request: an error code for each partition."""

    class PartitionData(Struct):
        partition_index: i32 = since()
        error_code: i16 = since()
        error_message: str | None = since(default=None)
        current_leader: ShareFetchResponse.LeaderIdAndEpoch = since()

    class ShareAcknowledgeTopicResponse(Struct):
        topic_id: Uuid = since()
        partitions: list[ShareAcknowledgeResponse.PartitionData] = since()

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    error_message: str | None = since(default=None)
    acquisition_lock_timeout_ms: i32 = since("2+", ignorable=True)
    responses: list[ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse] = since()
    node_endpoints: list[ShareFetchResponse.NodeEndpoint] = since()
