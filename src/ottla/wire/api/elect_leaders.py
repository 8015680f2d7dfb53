"""ElectLeaders (API key 43): partitions elect their leaders. KIP-183. Version 1 adds unclean elections (KIP-460)."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i8, i16, i32, since


class ElectLeadersRequest(Message, key=43, valid="0-2", flexible="2+"):
    """A request to elect leaders of partitions: the preferred leaders, or any replicas in an unclean election."""

    class TopicPartitions(Struct):
        topic: str = since()
        partitions: list[i32] = since()

    election_type: i8 = since("1+")
    topic_partitions: list[ElectLeadersRequest.TopicPartitions] | None = since()
    timeout_ms: i32 = since(default=60000)


class ElectLeadersResponse(Message, key=43, valid="0-2", flexible="2+"):
    """The answer to an ElectLeaders request: an error code for each partition."""

    class PartitionResult(Struct):
        partition_id: i32 = since()
        error_code: i16 = since()
        error_message: str | None = since()

    class ReplicaElectionResult(Struct):
        topic: str = since()
        partition_result: list[ElectLeadersResponse.PartitionResult] = since()

    throttle_time_ms: i32 = since()
    error_code: i16 = since("1+")
    replica_election_results: list[ElectLeadersResponse.ReplicaElectionResult] = since()
