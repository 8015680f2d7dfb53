"""Metadata (API key 3): the brokers, and the leader of each partition.

Version 1 adds racks and the controller, 4 can forbid the creation of topics, 5 adds offline replicas (KIP-112), 7 leader epochs
(KIP-320), 8 to 10 permitted operations (KIP-430), 10 topic ids (KIP-516), 12 accepts topic ids without names, 13 can request a new
bootstrap (KIP-1102).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i16, i32, since


class MetadataRequest(Message, key=3, valid="0-13", flexible="9+"):
    """A request for metadata of topics. Null topics, or in version 0 an empty list, means all topics."""

    class MetadataRequestTopic(Struct):
        topic_id: Uuid = since("10+", ignorable=True)
        name: str | None = since(null="10+")

    topics: list[MetadataRequest.MetadataRequestTopic] | None = since(null="1+")
    allow_auto_topic_creation: bool = since("4+", default=True)
    include_cluster_authorized_operations: bool = since("8-10")
    include_topic_authorized_operations: bool = since("8+")


class MetadataResponse(Message, key=3, valid="0-13", flexible="9+"):
    """The brokers, the controller, and the requested topics with the leader, replicas and in-sync replicas of each partition."""

    class MetadataResponseBroker(Struct):
        node_id: i32 = since()
        host: str = since()
        port: i32 = since()
        rack: str | None = since("1+", default=None, ignorable=True)

    class MetadataResponsePartition(Struct):
        error_code: i16 = since()
        partition_index: i32 = since()
        leader_id: i32 = since()
        leader_epoch: i32 = since("7+", default=-1, ignorable=True)
        replica_nodes: list[i32] = since()
        isr_nodes: list[i32] = since()
        offline_replicas: list[i32] = since("5+", ignorable=True)

    class MetadataResponseTopic(Struct):
        error_code: i16 = since()
        name: str | None = since(null="12+")
        topic_id: Uuid = since("10+", ignorable=True)
        is_internal: bool = since("1+", ignorable=True)
        partitions: list[MetadataResponse.MetadataResponsePartition] = since()
        topic_authorized_operations: i32 = since("8+", default=-(1 << 31))

    throttle_time_ms: i32 = since("3+", ignorable=True)
    brokers: list[MetadataResponse.MetadataResponseBroker] = since()
    cluster_id: str | None = since("2+", default=None, ignorable=True)
    controller_id: i32 = since("1+", default=-1, ignorable=True)
    topics: list[MetadataResponse.MetadataResponseTopic] = since()
    cluster_authorized_operations: i32 = since("8-10", default=-(1 << 31))
    error_code: i16 = since("13+", ignorable=True)
