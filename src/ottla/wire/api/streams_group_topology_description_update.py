"""StreamsGroupTopologyDescriptionUpdate (API key 93): a streams group's topology is described. KIP-1331."""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i8, i16, i32, since


class StreamsGroupTopologyDescriptionUpdateRequest(Message, key=93, valid="0", flexible="0+"):
    """A request to store the description of a streams application's topology: its subtopologies and their nodes."""

    class TopologyDescription(Struct):
        subtopologies: list[StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionSubtopology] = since()
        global_stores: list[StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionGlobalStore] = since()

    class TopologyDescriptionSubtopology(Struct):
        subtopology_id: str = since()
        nodes: list[StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionNode] = since()

    class TopologyDescriptionNode(Struct):
        name: str = since()
        node_type: i8 = since()
        source_topics: list[str] = since()
        sink_topic: str | None = since(default=None)
        stores: list[str] = since()
        successors: list[str] = since()

    class TopologyDescriptionGlobalStore(Struct):
        source: StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionNode = since()
        processor: StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescriptionNode = since()

    group_id: str = since()
    member_id: str = since()
    topology_epoch: i32 = since()
    topology_description: StreamsGroupTopologyDescriptionUpdateRequest.TopologyDescription = since()


class StreamsGroupTopologyDescriptionUpdateResponse(Message, key=93, valid="0", flexible="0+"):
    """The answer to the request: an error code, 0 if the description was stored."""

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    error_message: str | None = since(default=None)
