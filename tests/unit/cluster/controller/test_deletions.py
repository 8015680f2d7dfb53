"""When the replicas of a topic are deleted, and when that is over."""

from __future__ import annotations

from ottla.cluster.controller_rules.context import ControllerContext, LiveBroker, ReplicaAssignment, TopicPartition
from ottla.cluster.controller_rules.deletions import TopicDeletions


def two_partitions(*live: int) -> ControllerContext:
    context = ControllerContext()
    context.brokers = {node: LiveBroker(node, node, ()) for node in live}
    context.set_topic("t", None, {0: ReplicaAssignment((1, 2)), 1: ReplicaAssignment((2, 1))})
    return context


def begin(deletions: TopicDeletions) -> dict[TopicPartition, list[int]]:
    steps = deletions.begin("t")
    try:
        while True:
            next(steps)
    except StopIteration as end:
        found: dict[TopicPartition, list[int]] = end.value
        return found


def test_a_topic_is_deleted_when_each_broker_has_deleted_its_replicas() -> None:
    deletions = TopicDeletions(two_partitions(1, 2))
    deletions.queue(["t"])
    assert begin(deletions) == {("t", 0): [1, 2], ("t", 1): [2, 1]}
    assert begin(deletions) == {}
    deletions.mark_deleted(1, [("t", 0), ("t", 1)])
    assert not deletions.is_over("t")
    deletions.mark_deleted(2, [("t", 0), ("t", 1)])
    assert deletions.is_over("t")


def test_a_broker_that_is_gone_holds_a_deletion_up_until_it_is_back() -> None:
    context = two_partitions(1)
    deletions = TopicDeletions(context)
    deletions.queue(["t"])
    assert begin(deletions) == {("t", 0): [1], ("t", 1): [1]}
    deletions.mark_deleted(1, [("t", 0), ("t", 1)])
    assert not deletions.is_over("t")
    assert begin(deletions) == {}
    context.brokers[2] = LiveBroker(2, 9, ())
    deletions.resume(["t"])
    assert begin(deletions) == {("t", 0): [2], ("t", 1): [2]}


def test_a_broker_that_refuses_or_dies_is_asked_again() -> None:
    deletions = TopicDeletions(two_partitions(1, 2))
    deletions.queue(["t"])
    begin(deletions)
    deletions.mark_deleted(1, [("t", 0), ("t", 1)])
    deletions.halt_failed(2, [("t", 0), ("t", 1)])
    assert begin(deletions) == {}
    deletions.resume(["t"])
    assert begin(deletions) == {("t", 0): [2], ("t", 1): [2]}


def test_a_topic_that_is_being_reassigned_waits_until_that_is_over_whoever_comes_back() -> None:
    context = two_partitions(1, 2)
    deletions = TopicDeletions(context)
    deletions.queue(["t"])
    context.assign(("t", 1), ReplicaAssignment((1, 2), adding=(2,)))
    assert begin(deletions) == {}
    assert deletions.forgotten == set()
    deletions.resume(["t"])
    assert begin(deletions) == {}
    context.assign(("t", 1), ReplicaAssignment((1, 2)))
    assert deletions.forgotten == {"t"}
    assert begin(deletions) == {("t", 0): [1, 2], ("t", 1): [1, 2]}
