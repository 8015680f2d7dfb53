"""An admin client's requests for descriptions of topics: page by page (KIP-966), or by id (KIP-516). The module sends nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ottla.client.admin.acls import operation_words
from ottla.client.admin.results import outcome
from ottla.client.admin.topics import id_text
from ottla.client.connection.metadata import NO_LEADER, PartitionInfo, TopicInfo
from ottla.client.errors import KafkaError
from ottla.wire.api.describe_topic_partitions import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from ottla.wire.api.metadata import MetadataRequest, MetadataResponse
from ottla.wire.errors import LEADER_NOT_AVAILABLE, NONE

Cursor = DescribeTopicPartitionsRequest.Cursor
TopicPage = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
PagePartition = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition


def page_request(names: Iterable[str], cursor: Cursor | None) -> DescribeTopicPartitionsRequest:
    """Build the request for partitions of topics, from `cursor` on: the broker sends at most 2000 at a time."""
    topic = DescribeTopicPartitionsRequest.TopicRequest
    return DescribeTopicPartitionsRequest(topics=[topic(name=name) for name in sorted(names)], cursor=cursor)


class TopicPages:
    """The topics of several pages. The partitions of a topic can begin on one page and end on another."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicPage] = {}
        self._partitions: dict[str, list[PagePartition]] = {}

    def add(self, page: DescribeTopicPartitionsResponse) -> Cursor | None:
        """Add the topics of a page. Return the cursor of the next page, or None after the last one."""
        for topic in page.topics:
            name = topic.name or ""
            self._topics[name] = topic
            self._partitions.setdefault(name, []).extend(topic.partitions)
        return page.next_cursor

    def outcomes(self, *, operations: bool) -> Iterator[tuple[str, TopicInfo | KafkaError]]:
        """Yield (topic, its description or error) for each topic of all pages."""
        for name, topic in self._topics.items():
            partitions = {each.partition_index: _partition(each) for each in self._partitions[name]}
            allowed = operation_words(topic.topic_authorized_operations) if operations else None
            info = TopicInfo(name, topic.topic_id, topic.error_code, topic.is_internal, partitions, allowed)
            yield name, _described(info, f"Topic {name}")


def names_request(names: Iterable[str], *, operations: bool) -> MetadataRequest:
    """Build the request for descriptions of topics by name, for brokers that do not describe topics page by page."""
    topic = MetadataRequest.MetadataRequestTopic
    return MetadataRequest(
        topics=[topic(name=name) for name in names],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=operations,
    )


def ids_request(topic_ids: Iterable[bytes], *, operations: bool) -> MetadataRequest:
    """Build the request for descriptions of topics by id (Kafka 3.1)."""
    topic = MetadataRequest.MetadataRequestTopic
    return MetadataRequest(
        topics=[topic(topic_id=topic_id, name=None) for topic_id in topic_ids],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=operations,
    )


def read_names(answer: MetadataResponse) -> Iterator[tuple[str, TopicInfo | KafkaError]]:
    """Yield (topic, its description or error) for each topic in the answer."""
    for topic in answer.topics:
        yield topic.name or "", _described(_info(topic), f"Topic {topic.name}")


def read_ids(answer: MetadataResponse) -> Iterator[tuple[bytes, TopicInfo | KafkaError]]:
    """Yield (topic id, the topic's description or error) for each topic in the answer."""
    for topic in answer.topics:
        yield bytes(topic.topic_id), _described(_info(topic), f"Topic {id_text(topic.topic_id)}")


def _described(topic: TopicInfo, context: str) -> TopicInfo | KafkaError:
    """Return a topic, or its error. A new topic without partitions yet has none that leads."""
    return outcome(topic.error_code or (NONE if topic.partitions else LEADER_NOT_AVAILABLE), topic, context)


def _info(topic: MetadataResponse.MetadataResponseTopic) -> TopicInfo:
    partitions = {each.partition_index: _partition(each) for each in topic.partitions}
    allowed = operation_words(topic.topic_authorized_operations)
    return TopicInfo(topic.name or "", topic.topic_id, topic.error_code, topic.is_internal, partitions, allowed)


def _partition(found: PagePartition | MetadataResponse.MetadataResponsePartition) -> PartitionInfo:
    leader = found.leader_id if found.error_code == NONE or found.leader_id >= 0 else NO_LEADER
    described = PartitionInfo(
        found.partition_index,
        leader,
        found.leader_epoch,
        found.error_code,
        found.replica_nodes,
        found.isr_nodes,
        found.offline_replicas,
    )
    if isinstance(found, PagePartition):
        eligible, last_known = found.eligible_leader_replicas or (), found.last_known_elr or ()
        return described._replace(eligible_leader_replicas=eligible, last_known_elr=last_known)
    return described
