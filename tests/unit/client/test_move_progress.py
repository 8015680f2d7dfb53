"""How far replicas on the move have come, told from what brokers hold."""

from __future__ import annotations

from ottla.client.admin.reassignments import MoveProgress
from ottla.client.admin.replicas import LogDir, PartitionReassignment, ReplicaOnDisk
from ottla.client.types import TopicPartition

WHERE = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
MOVE = PartitionReassignment([3, 1, 2], [3], [1])


def held(sizes: dict[int, int], where: TopicPartition = WHERE) -> dict[int, list[LogDir]]:
    return {node: [LogDir("/d", 0, -1, -1, {where: ReplicaOnDisk(size, 0, False)})] for node, size in sizes.items()}


def test_what_new_replicas_hold_is_held_against_the_largest_old_one() -> None:
    seen = MoveProgress([WHERE, OTHER]).update({WHERE: MOVE}, held({1: 900, 2: 1000, 3: 250}), 0)
    assert (seen.partitions, seen.partitions_moved, seen.bytes_copied, seen.bytes_in_all) == (2, 1, 250, 1000)
    assert (seen.bytes_per_second, seen.left_ms) == (0, None)


def test_the_rate_tells_the_time_left() -> None:
    progress = MoveProgress([WHERE])
    progress.update({WHERE: MOVE}, held({1: 1000, 3: 0}), 5000)
    seen = progress.update({WHERE: MOVE}, held({1: 1000, 3: 200}), 7000)
    assert (seen.bytes_per_second, seen.left_ms) == (100, 8000)


def test_a_new_replica_larger_than_its_leader_counts_no_more_than_all() -> None:
    seen = MoveProgress([WHERE]).update({WHERE: MOVE}, held({1: 1000, 3: 1200}), 0)
    assert (seen.bytes_copied, seen.bytes_in_all) == (1000, 1000)


def test_a_partition_that_moved_counts_as_copied() -> None:
    progress = MoveProgress([WHERE])
    progress.update({WHERE: MOVE}, held({1: 1000, 3: 10}), 0)
    seen = progress.update({}, {}, 1000)
    assert (seen.partitions_moved, seen.bytes_copied, seen.bytes_in_all) == (1, 1000, 1000)


def test_brokers_that_do_not_answer_leave_sizes_unknown() -> None:
    seen = MoveProgress([WHERE]).update({WHERE: MOVE}, {}, 0)
    assert (seen.bytes_copied, seen.bytes_in_all, seen.left_ms) == (0, 0, None)
