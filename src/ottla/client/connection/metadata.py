"""A client's cache of the cluster: brokers, topics, and the leader of each partition.

Metadata responses fill the cache. It only reports missing entries, which its user requests. An older leader epoch never replaces a
newer one (KIP-320), so an outdated response changes no leader.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from ottla.client.errors import raise_for
from ottla.client.types import Node, TopicPartition
from ottla.wire.api.metadata import MetadataRequest, MetadataResponse
from ottla.wire.errors import LEADER_NOT_AVAILABLE, NONE, UNKNOWN_TOPIC_OR_PARTITION

NO_LEADER = -1
NO_TOPIC_ID = bytes(16)
"""The topic id that means "no id": brokers before Kafka 2.8 give topics no ids, and a missing topic has none."""


class PartitionInfo(NamedTuple):
    """A partition. `leader` is a node id, or -1 with the reason in `error_code`. `replicas` and `isr` are node ids.

    The other replicas are those that are offline, those that may lead though they are not in sync, and the last known of these
    (KIP-966). `Admin.describe_topics` has them.
    """

    partition: int
    leader: int
    leader_epoch: int
    error_code: int
    replicas: list[int]
    isr: list[int]
    offline_replicas: Sequence[int] = ()
    eligible_leader_replicas: Sequence[int] = ()
    last_known_elr: Sequence[int] = ()


class TopicInfo(NamedTuple):
    """A topic with its `partitions` by index. It is usable only if `error_code` is 0.

    `authorized_operations` are the words of what this client may do with the topic, if they were requested.
    """

    name: str
    topic_id: bytes
    error_code: int
    is_internal: bool
    partitions: dict[int, PartitionInfo]
    authorized_operations: frozenset[str] | None = None


def metadata_request(topics: Collection[str] | None, *, allow_auto_topic_creation: bool) -> MetadataRequest:
    """Build a request for the metadata of some topics, or of all if `topics` is None."""
    wanted = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    return MetadataRequest(topics=wanted, allow_auto_topic_creation=allow_auto_topic_creation)


def metadata_request_by_id(topic_ids: Iterable[bytes]) -> MetadataRequest:
    """Build a request for the metadata of topics whose names are unknown (KIP-516, Kafka 3.1)."""
    wanted = [MetadataRequest.MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in topic_ids]
    return MetadataRequest(topics=wanted, allow_auto_topic_creation=False)


class Metadata:
    """The cached metadata of a cluster: `nodes` by id, `topics` by name. `version` counts the processed responses."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.topics: dict[str, TopicInfo] = {}
        self.cluster_id: str | None = None
        self.other_cluster: str | None = None
        """The sentence about the last change to the brokers of another cluster."""
        self.controller_id = NO_LEADER
        self.version = 0

    def update(self, answer: MetadataResponse, *, whole: bool = False) -> None:
        """Add a Metadata response to the cache.

        With `whole`, all topics were requested, so topics that are not in the response are removed from the cache.
        """
        self.other_cluster = self.describe_other_cluster(answer) or self.other_cluster
        if answer.brokers:
            self.nodes = {node.node_id: Node(node.node_id, node.host, node.port, node.rack) for node in answer.brokers}
        self.cluster_id = answer.cluster_id
        self.controller_id = answer.controller_id
        found = {topic.name: self._topic(topic, topic.name) for topic in answer.topics if topic.name is not None}
        self.topics = found if whole else {**self.topics, **found}
        self.version += 1

    def describe_other_cluster(self, answer: MetadataResponse) -> str | None:
        """Return the sentence about a response of another cluster than before, or None. Before Kafka 0.10.1, ids are None."""
        if None in (self.cluster_id, answer.cluster_id) or answer.cluster_id == self.cluster_id:
            return None
        nodes = ", ".join(f"{node.host}:{node.port}" for node in answer.brokers)
        return (
            f"The brokers at {nodes} belong to cluster {answer.cluster_id}, and those before to cluster {self.cluster_id}: "
            "name brokers of one cluster in bootstrap_servers, and create a new client if the cluster was set up anew."
        )

    def _topic(self, topic: MetadataResponse.MetadataResponseTopic, name: str) -> TopicInfo:
        known = self.topics.get(name)
        before = known.partitions if known and known.topic_id == topic.topic_id else {}
        partitions = {}
        for found in topic.partitions:
            leader = found.leader_id if found.error_code == NONE or found.leader_id >= 0 else NO_LEADER
            fresh = PartitionInfo(
                found.partition_index, leader, found.leader_epoch, found.error_code, found.replica_nodes, found.isr_nodes
            )
            old = before.get(fresh.partition)
            # A leader that has denied it is replaced by any: without topic ids, a recreated topic begins with older epochs.
            trusted = old is not None and old.leader != NO_LEADER
            stale = trusted and old is not None and fresh.leader_epoch != -1 and old.leader_epoch > fresh.leader_epoch
            partitions[fresh.partition] = old if stale and old is not None else fresh
        return TopicInfo(name, topic.topic_id, topic.error_code, topic.is_internal, partitions)

    def forget_brokers(self) -> None:
        """Remove all brokers and leaders. The next response is believed, also if its leader epochs are older (KIP-1102)."""
        self.nodes, self.controller_id = {}, NO_LEADER
        for topic in self.topics.values():
            for index, found in topic.partitions.items():
                topic.partitions[index] = found._replace(leader=NO_LEADER)

    def set_address(self, node_id: int, host: str, port: int) -> None:
        """Set a broker's address as a coordinator lookup reports it, which can be newer than the last metadata."""
        known = self.nodes.get(node_id)
        self.nodes[node_id] = Node(node_id, host, port, known.rack if known is not None else None)

    def set_leader(self, topic: str, partition: int, leader: int, leader_epoch: int) -> bool:
        """Set the leader that a broker names in an error (KIP-951). Return False if it is not newer, or has no address."""
        known = self.topics.get(topic)
        before = known.partitions.get(partition) if known is not None else None
        if known is None or before is None or leader not in self.nodes or leader_epoch <= before.leader_epoch:
            return False
        known.partitions[partition] = before._replace(leader=leader, leader_epoch=leader_epoch, error_code=NONE)
        return True

    def leader(self, topic: str, partition: int) -> int:
        """Return the node id of the leader, or -1 while metadata has no leader with an address."""
        known = self.topics.get(topic)
        found = known.partitions.get(partition) if known else None
        return found.leader if found is not None and found.leader in self.nodes else NO_LEADER

    def leader_epoch(self, topic: str, partition: int) -> int:
        known = self.topics.get(topic)
        found = known.partitions.get(partition) if known else None
        return found.leader_epoch if found is not None else -1

    def topic_id(self, topic: str) -> bytes:
        """Return the id of a topic, or `NO_TOPIC_ID` while metadata has none."""
        known = self.topics.get(topic)
        return known.topic_id if known is not None else NO_TOPIC_ID

    def partition_count(self, topic: str) -> int:
        """Return the number of partitions; 0 while the topic is unknown."""
        known = self.topics.get(topic)
        return len(known.partitions) if known is not None and known.error_code == NONE else 0

    def check(self, topics: Iterable[str]) -> None:
        """Raise the exception for the first of `topics` whose metadata has an error code. Do nothing if all are usable."""
        for topic in topics:
            known = self.topics.get(topic)
            code = UNKNOWN_TOPIC_OR_PARTITION if known is None else known.error_code
            raise_for(code if code or self.partition_count(topic) else LEADER_NOT_AVAILABLE, f"Topic {topic}")

    def partition_error(self, topic: str, partition: int) -> int:
        """Return the error code of a partition without a leader. NONE means that no response has described its topic yet."""
        known = self.topics.get(topic)
        if known is None or known.error_code:
            return NONE if known is None else known.error_code
        found = known.partitions.get(partition)
        return UNKNOWN_TOPIC_OR_PARTITION if found is None else found.error_code

    def partitions(self, topic: str) -> list[TopicPartition]:
        known = self.topics.get(topic)
        return [TopicPartition(topic, index) for index in sorted(known.partitions)] if known else []

    def has(self, topic: str, partition: int) -> bool:
        known = self.topics.get(topic)
        return known is not None and partition in known.partitions

    def numbers(self, topic: str) -> str:
        """Return the partition numbers of a topic in the cache as text for people: "0 to 5"."""
        found = [where.partition for where in self.partitions(topic)]
        is_run = found == list(range(len(found)))
        return f"0 to {len(found) - 1}" if is_run else ", ".join(map(str, found))

    def find_missing(self, topics: Iterable[str]) -> list[str]:
        """Return the topics that have no usable metadata."""
        return [topic for topic in topics if not self.partition_count(topic)]

    def forget_leader(self, topic: str, partition: int) -> None:
        """Set the partition's leader to unknown until the next metadata, because the broker has denied that it is the leader."""
        known = self.topics.get(topic)
        if known is not None and partition in known.partitions:
            known.partitions[partition] = known.partitions[partition]._replace(leader=NO_LEADER)

    def by_leader(self, partitions: Iterable[TopicPartition]) -> tuple[dict[int, list[TopicPartition]], list[TopicPartition]]:
        """Return partitions grouped by leader, and a list of the partitions without a leader."""
        grouped: dict[int, list[TopicPartition]] = {}
        leaderless: list[TopicPartition] = []
        for where in partitions:
            node_id = self.leader(*where)
            if node_id == NO_LEADER:
                leaderless.append(where)
            else:
                grouped.setdefault(node_id, []).append(where)
        return grouped, leaderless
