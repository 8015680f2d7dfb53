"""The end offsets of partitions that any broker leads: of this broker at once, of others by ListOffsets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.broker.interbroker.channels import UNSPOKEN, BrokerRequester
from ottla.broker.partitions.partitions import Partitions
from ottla.cluster.image import ClusterImage
from ottla.ports import Steps
from ottla.wire.api.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from ottla.wire.errors import LEADER_NOT_AVAILABLE, NONE, NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION

LANE: Final = "end-offsets"
LATEST: Final = -1
CLIENT: Final = -1
"""The replica id of a request that is served as a client's."""

TopicPartition = tuple[str, int]


class EndOffset(NamedTuple):
    """The high watermark of a partition, or an error."""

    error_code: int
    offset: int = -1


class EndOffsets:
    """A source of the high watermarks of partitions."""

    def __init__(self, partitions: Partitions, image: ClusterImage, asker: BrokerRequester, node_id: int) -> None:
        self._partitions = partitions
        self._image = image
        self._asker = asker
        self._node_id = node_id

    def find(self, places: Iterable[TopicPartition]) -> Steps[dict[TopicPartition, EndOffset]]:
        """Return the end offset of each place. Each other broker gets one request."""
        found: dict[TopicPartition, EndOffset] = {}
        elsewhere: dict[int, list[TopicPartition]] = {}
        for place in places:
            leader = self._leader(place)
            if leader == self._node_id:
                found[place] = self._own(place)
            elif leader < 0:
                found[place] = EndOffset(UNKNOWN_TOPIC_OR_PARTITION if leader == _NO_PARTITION else LEADER_NOT_AVAILABLE)
            else:
                elsewhere.setdefault(leader, []).append(place)
        for node_id, its_places in elsewhere.items():
            found |= dict.fromkeys(its_places, EndOffset(NOT_LEADER_OR_FOLLOWER))
            if self._asker.version(ListOffsetsRequest) != UNSPOKEN:
                response = yield from self._asker.answer(node_id, _request(its_places), lane=LANE)
                found |= _offsets(response)
        return found

    def _leader(self, place: TopicPartition) -> int:
        topic = self._image.topics.get(place[0])
        if topic is None or not 0 <= place[1] < len(topic.partitions):
            return _NO_PARTITION
        return topic.partitions[place[1]].leader

    def _own(self, place: TopicPartition) -> EndOffset:
        partition = self._partitions.get(*place)
        if partition is None:
            return EndOffset(self._partitions.absent_error(*place))
        error_code = partition.leader_error()
        return EndOffset(error_code) if error_code else EndOffset(NONE, partition.high_watermark)


_NO_PARTITION: Final = -2


def _request(places: Iterable[TopicPartition]) -> ListOffsetsRequest:
    topics: dict[str, list[int]] = {}
    for name, index in places:
        topics.setdefault(name, []).append(index)
    of, part = ListOffsetsRequest.ListOffsetsTopic, ListOffsetsRequest.ListOffsetsPartition
    return ListOffsetsRequest(
        replica_id=CLIENT,
        topics=[
            of(name=name, partitions=[part(partition_index=index, timestamp=LATEST) for index in indexes])
            for name, indexes in topics.items()
        ],
    )


def _offsets(response: ListOffsetsResponse | None) -> dict[TopicPartition, EndOffset]:
    found: dict[TopicPartition, EndOffset] = {}
    for topic in () if response is None else response.topics:
        for part in topic.partitions:
            found[topic.name, part.partition_index] = EndOffset(part.error_code, part.offset)
    return found
