"""UpdateMetadata (API key 6): the controller sends brokers the state of the cluster (until 3.9).

Version 0 has one address per broker, 1 several addresses. Version 2 adds racks, 7 topic ids (KIP-516), 8 whether the controller is
a KRaft controller (KIP-866).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i8, i16, i32, i64, since


class UpdateMetadataRequest(Message, key=6, valid="0-8", flexible="6+"):
    """A controller's message to a broker: the leader of every partition, and the addresses of every live broker."""

    class UpdateMetadataPartitionState(Struct):
        topic_name: str = since("0-4", ignorable=True)
        partition_index: i32 = since()
        controller_epoch: i32 = since()
        leader: i32 = since()
        leader_epoch: i32 = since()
        isr: list[i32] = since()
        zk_version: i32 = since()
        replicas: list[i32] = since()
        offline_replicas: list[i32] = since("4+", ignorable=True)

    class UpdateMetadataTopicState(Struct):
        topic_name: str = since("5+")
        topic_id: Uuid = since("7+", ignorable=True)
        partition_states: list[UpdateMetadataRequest.UpdateMetadataPartitionState] = since("5+")

    class UpdateMetadataEndpoint(Struct):
        port: i32 = since("1+")
        host: str = since("1+")
        listener: str = since("3+", ignorable=True)
        security_protocol: i16 = since("1+")

    class UpdateMetadataBroker(Struct):
        id: i32 = since()
        v0_host: str = since("0", ignorable=True)
        v0_port: i32 = since("0", ignorable=True)
        endpoints: list[UpdateMetadataRequest.UpdateMetadataEndpoint] = since("1+", ignorable=True)
        rack: str | None = since("2+", ignorable=True)

    controller_id: i32 = since()
    is_kraft_controller: bool = since("8+")
    type: i8 = since("8+", tag=0)
    controller_epoch: i32 = since()
    broker_epoch: i64 = since("5+", default=-1, ignorable=True)
    ungrouped_partition_states: list[UpdateMetadataRequest.UpdateMetadataPartitionState] = since("0-4")
    topic_states: list[UpdateMetadataRequest.UpdateMetadataTopicState] = since("5+")
    live_brokers: list[UpdateMetadataRequest.UpdateMetadataBroker] = since()


class UpdateMetadataResponse(Message, key=6, valid="0-8", flexible="6+"):
    """The answer to an UpdateMetadata request: an error code, 0 if the broker accepted the metadata."""

    error_code: i16 = since()
