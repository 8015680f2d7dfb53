"""ShareFetch (API key 78): records are acquired from share partitions.

KIP-932. Version 0 was never stable. Version 2 renews acquisitions (KIP-1222) and chooses how to acquire (KIP-1206).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Records, Struct, Uuid, i8, i16, i32, i64, since


class ShareFetchRequest(Message, key=78, valid="0-2", flexible="0+"):
    """A share consumer's request for records of some partitions, with acknowledgements of records that it fetched before."""

    class AcknowledgementBatch(Struct):
        first_offset: i64 = since()
        last_offset: i64 = since()
        acknowledge_types: list[i8] = since()

    class FetchPartition(Struct):
        partition_index: i32 = since()
        partition_max_bytes: i32 = since("0")
        acknowledgement_batches: list[ShareFetchRequest.AcknowledgementBatch] = since()

    class FetchTopic(Struct):
        topic_id: Uuid = since()
        partitions: list[ShareFetchRequest.FetchPartition] = since()

    class ForgottenTopic(Struct):
        topic_id: Uuid = since()
        partitions: list[i32] = since()

    group_id: str | None = since(default=None)
    member_id: str | None = since()
    share_session_epoch: i32 = since()
    max_wait_ms: i32 = since()
    min_bytes: i32 = since()
    max_bytes: i32 = since(default=(1 << 31) - 1)
    max_records: i32 = since("1+")
    batch_size: i32 = since("1+")
    share_acquire_mode: i8 = since("2+", ignorable=True)
    is_renew_ack: bool = since("2+")
    topics: list[ShareFetchRequest.FetchTopic] = since()
    forgotten_topics_data: list[ShareFetchRequest.ForgottenTopic] = since()


class ShareFetchResponse(Message, key=78, valid="0-2", flexible="0+"):
    """The fetched batches of each partition, and the ranges of offsets that the share consumer has acquired."""

    class LeaderIdAndEpoch(Struct):
        leader_id: i32 = since()
        leader_epoch: i32 = since()

    class AcquiredRecords(Struct):
        first_offset: i64 = since()
        last_offset: i64 = since()
        delivery_count: i16 = since()

    class PartitionData(Struct):
        partition_index: i32 = since()
        error_code: i16 = since()
        error_message: str | None = since(default=None)
        acknowledge_error_code: i16 = since()
        acknowledge_error_message: str | None = since(default=None)
        current_leader: ShareFetchResponse.LeaderIdAndEpoch = since()
        records: Records | None = since(null="0")
        acquired_records: list[ShareFetchResponse.AcquiredRecords] = since()

    class ShareFetchableTopicResponse(Struct):
        topic_id: Uuid = since()
        partitions: list[ShareFetchResponse.PartitionData] = since()

    class NodeEndpoint(Struct):
        node_id: i32 = since()
        host: str = since()
        port: i32 = since()
        rack: str | None = since(default=None)

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    error_message: str | None = since(default=None)
    acquisition_lock_timeout_ms: i32 = since("1+")
    responses: list[ShareFetchResponse.ShareFetchableTopicResponse] = since()
    node_endpoints: list[ShareFetchResponse.NodeEndpoint] = since()
