"""CreateTopics (API key 19): topics are created.

In version 4 the number -1 means the broker's defaults (KIP-464). Version 5 returns settings (KIP-525), 6 can be throttled
(KIP-599), 7 returns topic ids (KIP-516).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, Uuid, i8, i16, i32, since


class CreateTopicsRequest(Message, key=19, valid="0-7", flexible="5+"):
    """A request to create topics, each with settings and either partition count and replication factor, or an assignment."""

    class CreatableReplicaAssignment(Struct):
        partition_index: i32 = since()
        broker_ids: list[i32] = since()

    class CreatableTopicConfig(Struct):
        name: str = since()
        value: str | None = since()

    class CreatableTopic(Struct):
        name: str = since()
        num_partitions: i32 = since()
        replication_factor: i16 = since()
        assignments: list[CreateTopicsRequest.CreatableReplicaAssignment] = since()
        configs: list[CreateTopicsRequest.CreatableTopicConfig] = since()

    topics: list[CreateTopicsRequest.CreatableTopic] = since()
    timeout_ms: i32 = since(default=60000)
    validate_only: bool = since("1+")


class CreateTopicsResponse(Message, key=19, valid="0-7", flexible="5+"):
    """The answer to a CreateTopics request: an error code for each topic, and from version 5 on its settings."""

    class CreatableTopicConfigs(Struct):
        name: str = since("5+")
        value: str | None = since("5+")
        read_only: bool = since("5+")
        config_source: i8 = since("5+", default=-1, ignorable=True)
        is_sensitive: bool = since("5+")

    class CreatableTopicResult(Struct):
        name: str = since()
        topic_id: Uuid = since("7+", ignorable=True)
        error_code: i16 = since()
        error_message: str | None = since("1+", ignorable=True)
        topic_config_error_code: i16 = since("5+", tag=0, ignorable=True)
        num_partitions: i32 = since("5+", default=-1, ignorable=True)
        replication_factor: i16 = since("5+", default=-1, ignorable=True)
        configs: list[CreateTopicsResponse.CreatableTopicConfigs] | None = since("5+", ignorable=True)

    throttle_time_ms: i32 = since("2+", ignorable=True)
    topics: list[CreateTopicsResponse.CreatableTopicResult] = since()
