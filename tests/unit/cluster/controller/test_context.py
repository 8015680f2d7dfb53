"""The controller's context: topics of one partition share the dict of their replicas until one of them changes."""

from __future__ import annotations

from ottla.cluster.controller_rules.context import ControllerContext, ReplicaAssignment

ON_1, ON_2 = ReplicaAssignment((1,)), ReplicaAssignment((2,))


def alike() -> ControllerContext:
    context = ControllerContext()
    for name in ("a", "b", "c"):
        assert context.set_topic(name, name.encode() * 16, {0: ON_1}) == [(name, 0)]
    assert context.topics["a"] is context.topics["b"]
    return context


def test_a_new_assignment_of_one_topic_leaves_those_of_others() -> None:
    context = alike()
    context.assign(("a", 0), ON_2)
    assert context.topics == {"a": {0: ON_2}, "b": {0: ON_1}, "c": {0: ON_1}}


def test_a_topic_that_grows_leaves_the_others() -> None:
    context = alike()
    assert context.set_topic("a", None, {0: ON_1, 1: ON_2}) == [("a", 1)]
    assert context.topics == {"a": {0: ON_1, 1: ON_2}, "b": {0: ON_1}, "c": {0: ON_1}}


def test_a_removed_partition_leaves_the_others() -> None:
    context = alike()
    context.remove_partition(("a", 0))
    assert list(context.partitions()) == [("b", 0), ("c", 0)]
    context.remove_topic("b")
    assert context.topics == {"a": {}, "c": {0: ON_1}}
    assert context.set_topic("d", None, {0: ON_1}) == [("d", 0)]


def test_an_assignment_with_a_move_is_reassigning() -> None:
    context = alike()
    moving = ReplicaAssignment((1, 2), adding=(2,), removing=(1,))
    assert context.set_topic("d", None, {0: moving}) == [("d", 0)]
    assert list(context.reassigning) == [("d", 0)]
