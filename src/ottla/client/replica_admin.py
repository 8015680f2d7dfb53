"""What an admin client asks about replicas: who leads, where they are and how large, and that they move (KIP-113, 183, 455, 460).

Makes requests and reads answers; sends nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ottla.client.arguments import several
from ottla.client.errors import raise_for
from ottla.client.list_offsets import by_topic
from ottla.client.types import TopicPartition
from ottla.wire.api.alter_partition_reassignments import AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse
from ottla.wire.api.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.wire.api.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ottla.wire.api.list_partition_reassignments import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse
from ottla.wire.errors import ELECTION_NOT_NEEDED, NONE, UNKNOWN_SERVER_ERROR

PREFERRED, UNCLEAN = 0, 1


class PartitionReassignment(NamedTuple):
    """A partition on the move: all its replicas by node id, and which of them come and go."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]

    @property
    def target(self) -> list[int]:
        """The replicas that it will have."""
        return [node_id for node_id in self.replicas if node_id not in self.removing]


class ReplicaOnDisk(NamedTuple):
    """What a broker holds of a partition. `offset_lag`: how far it is behind the high watermark, or behind the leader's log."""

    size_bytes: int
    offset_lag: int
    is_future: bool
    """Whether it is a copy in the making, that will take the place of one in another directory."""


class LogDir(NamedTuple):
    """A directory of a broker. `error_code` tells why nothing is known of it; sizes are -1 where a broker is too old to tell."""

    path: str
    error_code: int
    total_bytes: int
    usable_bytes: int
    replicas: dict[TopicPartition, ReplicaOnDisk]


def reassignments_request(
    targets: Mapping[TopicPartition, Sequence[int] | None], timeout_ms: int
) -> AlterPartitionReassignmentsRequest:
    """`targets`: the replicas that partitions are to have, the preferred leader first; None cancels a move."""
    partition = AlterPartitionReassignmentsRequest.ReassignablePartition
    topics = [
        AlterPartitionReassignmentsRequest.ReassignableTopic(
            name=topic,
            partitions=[partition(partition_index=each.partition, replicas=_listed(targets[each])) for each in partitions],
        )
        for topic, partitions in by_topic(targets)
    ]
    return AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=timeout_ms)


def checked_replicas(given: Sequence[int] | None) -> list[int] | None:
    """Return node ids, or None. Raises `TypeError`."""
    return None if given is None else several("The replicas of a partition", given)


def _listed(replicas: Sequence[int] | None) -> list[int] | None:
    return None if replicas is None else list(replicas)


def check_reassigned(answer: AlterPartitionReassignmentsResponse) -> None:
    """Raise the first partition's error, if one has any."""
    raise_for(answer.error_code, "Moving replicas", answer.error_message)
    for topic in answer.responses:
        for each in topic.partitions:
            raise_for(each.error_code, f"Moving {topic.name}-{each.partition_index}", each.error_message)


def list_reassignments_request(partitions: Iterable[TopicPartition] | None, timeout_ms: int) -> ListPartitionReassignmentsRequest:
    """Ask about some partitions, or (None) about all."""
    topic = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
    topics = None
    if partitions is not None:
        grouped = by_topic(dict.fromkeys(partitions))
        topics = [topic(name=name, partition_indexes=[each.partition for each in some]) for name, some in grouped]
    return ListPartitionReassignmentsRequest(topics=topics, timeout_ms=timeout_ms)


def read_reassignments(answer: ListPartitionReassignmentsResponse) -> dict[TopicPartition, PartitionReassignment]:
    """The partitions that are on the move. Raises `BrokerError`."""
    raise_for(answer.error_code, "Listing what moves", answer.error_message)
    return {
        TopicPartition(topic.name, each.partition_index): PartitionReassignment(
            each.replicas, each.adding_replicas, each.removing_replicas
        )
        for topic in answer.topics
        for each in topic.partitions
    }


def elect_request(partitions: Iterable[TopicPartition] | None, timeout_ms: int, *, unclean: bool) -> ElectLeadersRequest:
    """Have some partitions elect their leaders, or (None) all."""
    asked = None
    if partitions is not None:
        grouped = by_topic(dict.fromkeys(partitions))
        asked = [
            ElectLeadersRequest.TopicPartitions(topic=name, partitions=[each.partition for each in some]) for name, some in grouped
        ]
    kind = UNCLEAN if unclean else PREFERRED
    return ElectLeadersRequest(election_type=kind, topic_partitions=asked, timeout_ms=timeout_ms)


def read_elected(answer: ElectLeadersResponse) -> list[TopicPartition]:
    """The partitions that have another leader now. Raises the first error of the others, but for those that need no election."""
    raise_for(answer.error_code, "Electing leaders")
    elected = []
    for topic in answer.replica_election_results:
        for each in topic.partition_result:
            if each.error_code == NONE:
                elected.append(TopicPartition(topic.topic, each.partition_id))
            elif each.error_code != ELECTION_NOT_NEEDED:
                raise_for(each.error_code, f"Electing a leader of {topic.topic}-{each.partition_id}", each.error_message)
    return elected


def log_dirs_request(partitions: Iterable[TopicPartition] | None) -> DescribeLogDirsRequest:
    """Ask about some partitions, or (None) about all."""
    topics = None
    if partitions is not None:
        grouped = by_topic(dict.fromkeys(partitions))
        topic = DescribeLogDirsRequest.DescribableLogDirTopic
        topics = [topic(topic=name, partitions=[each.partition for each in some]) for name, some in grouped]
    return DescribeLogDirsRequest(topics=topics)


def read_log_dirs(answer: DescribeLogDirsResponse, node_id: int) -> list[LogDir]:
    """The directories of the broker asked. Raises `BrokerError`."""
    raise_for(answer.error_code, f"Directories of broker {node_id}")
    if not answer.results:  # how brokers before version 3 refuse whoever may not see the cluster
        raise_for(UNKNOWN_SERVER_ERROR, f"Directories of broker {node_id}", "The broker tells of none: may this user describe it?")
    return [
        LogDir(found.log_dir, found.error_code, found.total_bytes, found.usable_bytes, dict(_replicas(found)))
        for found in answer.results
    ]


def _replicas(found: DescribeLogDirsResponse.DescribeLogDirsResult) -> Iterator[tuple[TopicPartition, ReplicaOnDisk]]:
    for topic in found.topics:
        for each in topic.partitions:
            where = TopicPartition(topic.name, each.partition_index)
            yield where, ReplicaOnDisk(each.partition_size, each.offset_lag, each.is_future_key)
