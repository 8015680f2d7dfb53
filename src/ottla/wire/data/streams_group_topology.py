"""A streams group's topology (KIP-1071)."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i16, i32, message, since, struct


@message(key=23, valid="0")
class StreamsGroupTopologyKey(Message):
    """The group."""

    group_id: str = since("0")


@message(key=23, valid="0", flexible="0+")
class StreamsGroupTopologyValue(Message):
    """Subtopologies with their topics."""

    @struct
    class TopicConfig(Struct):
        key: str = since()
        value: str = since()

    @struct
    class TopicInfo(Struct):
        name: str = since()
        partitions: i32 = since()
        replication_factor: i16 = since()
        topic_configs: list[StreamsGroupTopologyValue.TopicConfig] = since()

    @struct
    class CopartitionGroup(Struct):
        source_topics: list[i16] = since()
        source_topic_regex: list[i16] = since()
        repartition_source_topics: list[i16] = since()

    @struct
    class Subtopology(Struct):
        subtopology_id: str = since()
        source_topics: list[str] = since()
        source_topic_regex: list[str] = since()
        state_changelog_topics: list[StreamsGroupTopologyValue.TopicInfo] = since()
        repartition_sink_topics: list[str] = since()
        repartition_source_topics: list[StreamsGroupTopologyValue.TopicInfo] = since()
        copartition_groups: list[StreamsGroupTopologyValue.CopartitionGroup] = since()

    epoch: i32 = since()
    subtopologies: list[StreamsGroupTopologyValue.Subtopology] = since()
