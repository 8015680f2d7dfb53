"""An admin client's requests about replicas: leaders, placement, sizes and reassignment (KIP-113, 183, 455, 460).

The module builds requests and reads answers; it sends nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ottla.client.arguments import several
from ottla.client.consumer.list_offsets import by_topic, indexes
from ottla.client.errors import raise_for
from ottla.client.types import TopicPartition
from ottla.wire.api.alter_partition_reassignments import AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse
from ottla.wire.api.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from ottla.wire.api.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.wire.api.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ottla.wire.api.list_partition_reassignments import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse
from ottla.wire.errors import ELECTION_NOT_NEEDED, INVALID_REPLICA_ASSIGNMENT, NONE, UNKNOWN_SERVER_ERROR

PREFERRED, UNCLEAN = 0, 1

CORDONED = "The log directory is cordoned: change cordoned.log.dirs, or choose another directory."


class PartitionReassignment(NamedTuple):
    """A partition under reassignment: all its replicas by node id, and the ones being added and removed."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]

    @property
    def target(self) -> list[int]:
        return [node_id for node_id in self.replicas if node_id not in self.removing]


class ReplicaOnDisk(NamedTuple):
    """A replica on a broker's disk.

    `offset_lag` is its distance from the high watermark; for a future replica, from the current one.
    """

    size_bytes: int
    offset_lag: int
    is_future: bool
    """Whether this is a future replica: a copy that will replace the one in another directory."""


class LogDir(NamedTuple):
    """A log directory of a broker. A nonzero `error_code` says why its replicas are unknown.

    Sizes are in bytes, -1 from older brokers. A cordoned directory gets no new replicas (KIP-1066).
    """

    path: str
    error_code: int
    total_bytes: int
    usable_bytes: int
    replicas: dict[TopicPartition, ReplicaOnDisk]
    is_cordoned: bool = False


def reassignments_request(
    targets: Mapping[TopicPartition, list[int] | None], timeout_ms: int
) -> AlterPartitionReassignmentsRequest:
    """Build the request that reassigns partitions.

    `targets` maps partitions to their new replicas, the preferred leader first; None cancels the reassignment of a partition.
    """
    partition = AlterPartitionReassignmentsRequest.ReassignablePartition
    topics = [
        AlterPartitionReassignmentsRequest.ReassignableTopic(
            name=topic,
            partitions=[partition(partition_index=each.partition, replicas=targets[each]) for each in partitions],
        )
        for topic, partitions in by_topic(targets)
    ]
    return AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=timeout_ms)


def checked_replicas(given: Sequence[int] | None) -> list[int] | None:
    """Return `given` as a list of node ids; None stays None. Raises `TypeError`."""
    return None if given is None else several("The replicas of a partition", given)


def check_reassigned(answer: AlterPartitionReassignmentsResponse) -> None:
    """Raise an exception for the first partition whose reassignment was refused."""
    raise_for(answer.error_code, "Moving replicas", answer.error_message)
    for topic in answer.responses:
        for each in topic.partitions:
            raise_for(each.error_code, f"Moving {topic.name}-{each.partition_index}", each.error_message)


def list_reassignments_request(partitions: Iterable[TopicPartition] | None, timeout_ms: int) -> ListPartitionReassignmentsRequest:
    """Build the request for the reassignments of `partitions`; None means of all partitions."""
    topic = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
    topics = None if partitions is None else [topic(name=name, partition_indexes=some) for name, some in indexes(set(partitions))]
    return ListPartitionReassignmentsRequest(topics=topics, timeout_ms=timeout_ms)


def read_reassignments(answer: ListPartitionReassignmentsResponse) -> dict[TopicPartition, PartitionReassignment]:
    """Return the partitions under reassignment. Raises `BrokerError`."""
    raise_for(answer.error_code, "Listing reassignments", answer.error_message)
    return {
        TopicPartition(topic.name, each.partition_index): PartitionReassignment(
            each.replicas, each.adding_replicas, each.removing_replicas
        )
        for topic in answer.topics
        for each in topic.partitions
    }


def elect_request(partitions: Iterable[TopicPartition] | None, timeout_ms: int, *, unclean: bool) -> ElectLeadersRequest:
    """Build the request that elects the leaders of `partitions`; None means of all partitions."""
    topic = ElectLeadersRequest.TopicPartitions
    asked = None if partitions is None else [topic(topic=name, partitions=some) for name, some in indexes(set(partitions))]
    kind = UNCLEAN if unclean else PREFERRED
    return ElectLeadersRequest(election_type=kind, topic_partitions=asked, timeout_ms=timeout_ms)


def read_elected(answer: ElectLeadersResponse) -> list[TopicPartition]:
    """Return the partitions with a new leader. Raises the first error of the other partitions, unless it is ELECTION_NOT_NEEDED."""
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
    """Build the request for log directories with the replicas of `partitions`; None means of all partitions."""
    topic = DescribeLogDirsRequest.DescribableLogDirTopic
    topics = None if partitions is None else [topic(topic=name, partitions=some) for name, some in indexes(set(partitions))]
    return DescribeLogDirsRequest(topics=topics)


def read_log_dirs(answer: DescribeLogDirsResponse, node_id: int) -> list[LogDir]:
    """Return the directories of the answering broker. Raises `BrokerError`."""
    raise_for(answer.error_code, f"Directories of broker {node_id}")
    if not answer.results:  # before version 3, brokers return this empty list to a user who may not describe the cluster
        raise_for(
            UNKNOWN_SERVER_ERROR,
            f"Directories of broker {node_id}",
            "The broker returned none: grant this user DESCRIBE on the cluster.",
        )
    return [
        LogDir(found.log_dir, found.error_code, found.total_bytes, found.usable_bytes, dict(_replicas(found)), found.is_cordoned)
        for found in answer.results
    ]


def _replicas(found: DescribeLogDirsResponse.DescribeLogDirsResult) -> Iterator[tuple[TopicPartition, ReplicaOnDisk]]:
    for topic in found.topics:
        for each in topic.partitions:
            where = TopicPartition(topic.name, each.partition_index)
            yield where, ReplicaOnDisk(each.partition_size, each.offset_lag, each.is_future_key)


def alter_log_dirs_request(directories: Mapping[TopicPartition, str]) -> AlterReplicaLogDirsRequest:
    """Build the request that moves replicas to directories of the broker that gets the request."""
    by_path: dict[str, list[TopicPartition]] = {}
    for where, path in directories.items():
        by_path.setdefault(path, []).append(where)
    topic = AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic
    return AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDirsRequest.AlterReplicaLogDir(
                path=path, topics=[topic(name=name, partitions=some) for name, some in indexes(set(places))]
            )
            for path, places in by_path.items()
        ]
    )


def read_altered_log_dirs(answer: AlterReplicaLogDirsResponse, node_id: int) -> None:
    """Raise the first error of a replica that cannot be moved."""
    for topic in answer.results:
        for each in topic.partitions:
            reason = CORDONED if each.error_code == INVALID_REPLICA_ASSIGNMENT else None
            raise_for(
                each.error_code, f"Moving the replica of {topic.topic_name}-{each.partition_index} on broker {node_id}", reason
            )
