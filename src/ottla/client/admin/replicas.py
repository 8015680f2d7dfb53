"""An admin client's requests about replicas: leaders, placement, sizes and reassignment (KIP-113, 183, 455, 460).

The module builds requests and reads answers; it sends nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from ottla.client.admin.results import outcome
from ottla.client.arguments import check_partition, several, short_repr, whole
from ottla.client.consumer.list_offsets import by_topic, indexes
from ottla.client.errors import KafkaError, raise_for
from ottla.client.types import TopicPartition
from ottla.wire.api.alter_partition_reassignments import AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse
from ottla.wire.api.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
from ottla.wire.api.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.wire.api.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ottla.wire.api.list_partition_reassignments import ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse
from ottla.wire.errors import ELECTION_NOT_NEEDED, INVALID_REPLICA_ASSIGNMENT, NONE, REPLICA_NOT_AVAILABLE, UNKNOWN_SERVER_ERROR

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


class TopicPartitionReplica(NamedTuple):
    """A replica of a partition on a broker. A plain tuple (topic, partition, node id) is accepted in its place."""

    topic: str
    partition: int
    node_id: int


Replica = TypeVar("Replica", bound=tuple[str, int, int])
"""A `TopicPartitionReplica`, or a plain tuple (topic, partition, node id), as the key of a mapping."""


class ReplicaDirectories(NamedTuple):
    """The log directory of a replica, and the one to which it moves, each with its lag as in `ReplicaOnDisk`; None without one."""

    path: str | None = None
    offset_lag: int = -1
    future_path: str | None = None
    future_lag: int = -1


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
    targets: Mapping[TopicPartition, list[int] | None], timeout_ms: int, *, factor_can_change: bool
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
    return AlterPartitionReassignmentsRequest(
        topics=topics, timeout_ms=timeout_ms, allow_replication_factor_change=factor_can_change
    )


def checked_replicas(given: Sequence[int] | None) -> list[int] | None:
    """Return `given` as a list of node ids; None stays None. Raises `TypeError`."""
    return None if given is None else several("The replicas of a partition", given)


def read_reassigned(answer: AlterPartitionReassignmentsResponse) -> Iterator[tuple[TopicPartition, KafkaError | None]]:
    """Yield (partition, its error or None) for each partition in the answer. Raises `BrokerError` if all were refused."""
    raise_for(answer.error_code, "Moving replicas", answer.error_message)
    for topic in answer.responses:
        for each in topic.partitions:
            where = TopicPartition(topic.name, each.partition_index)
            yield where, outcome(each.error_code, None, f"Moving {topic.name}-{each.partition_index}", each.error_message)


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


def read_elected(answer: ElectLeadersResponse) -> Iterator[tuple[TopicPartition, bool | KafkaError]]:
    """Yield (partition, whether its leader changed, or its error) for each partition in the answer. Raises `BrokerError`."""
    raise_for(answer.error_code, "Electing leaders")
    for topic in answer.replica_election_results:
        for each in topic.partition_result:
            where = TopicPartition(topic.topic, each.partition_id)
            code = NONE if each.error_code == ELECTION_NOT_NEEDED else each.error_code
            context = f"Electing a leader of {topic.topic}-{each.partition_id}"
            yield where, outcome(code, each.error_code == NONE, context, each.error_message)


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


def read_altered_log_dirs(answer: AlterReplicaLogDirsResponse, node_id: int) -> Iterator[tuple[TopicPartition, KafkaError | None]]:
    """Yield (partition, its error or None) for each replica in the answer."""
    for topic in answer.results:
        for each in topic.partitions:
            reason = CORDONED if each.error_code == INVALID_REPLICA_ASSIGNMENT else None
            context = f"Moving the replica of {topic.topic_name}-{each.partition_index} on broker {node_id}"
            yield TopicPartition(topic.topic_name, each.partition_index), outcome(each.error_code, None, context, reason)


def checked_replica(given: object) -> TopicPartitionReplica:
    """Return (topic, partition, node id) as a `TopicPartitionReplica`. Raises `TypeError`, `SettingError`."""
    if not isinstance(given, tuple | list) or len(given) != len(TopicPartitionReplica._fields):
        raise TypeError(
            f"A replica is a topic's name, a partition and a node id, such as ('flights', 0, 1), not {short_repr(given)}."
        )
    return TopicPartitionReplica(*check_partition(given[:2]), whole("The node id of a replica", given[2]))


def directories_of(dirs: Iterable[LogDir], where: TopicPartition, node_id: int) -> ReplicaDirectories | KafkaError:
    """Return the directories of a replica among those of its broker, or the error of a broker that does not have it."""
    found = ReplicaDirectories()
    for each in dirs:
        replica = each.replicas.get(where)
        if replica is not None and replica.is_future:
            found = found._replace(future_path=each.path, future_lag=replica.offset_lag)
        elif replica is not None:
            found = found._replace(path=each.path, offset_lag=replica.offset_lag)
    context = f"Replica of {where.topic}-{where.partition} on broker {node_id}"
    return outcome(NONE if found != ReplicaDirectories() else REPLICA_NOT_AVAILABLE, found, context)
