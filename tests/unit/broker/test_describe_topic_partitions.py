"""DescribeTopicPartitions and ElectLeaders, as Apache Kafka 4.3 answers them."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.wire.api.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from ottla.wire.api.describe_topic_partitions import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from ottla.wire.api.elect_leaders import ElectLeadersRequest
from ottla.wire.api.list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.wire.errors import (
    ELECTION_NOT_NEEDED,
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    NO_REASSIGNMENT_IN_PROGRESS,
    NONE,
    PREFERRED_LEADER_NOT_AVAILABLE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.support.machine import Machine
from tests.support.messages import request

CREATE_TOPICS, ELECT_LEADERS, ALTER_REASSIGNMENTS, REASSIGNMENTS, DESCRIBE = 19, 43, 45, 46, 75
COUNTS = {"a": 3, "b": 2, "c": 4}
Page = tuple[dict[str, list[int]], tuple[str, int] | None]


@pytest.fixture(scope="module")
def machine() -> Machine:
    machine = Machine()
    topics = [{"name": name, "num_partitions": count, "replication_factor": 1} for name, count in COUNTS.items()]
    machine.ask(CREATE_TOPICS, 5, request(CREATE_TOPICS, 5, topics=topics, timeout_ms=1000))
    return machine


def described(machine: Machine, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    at = cursor and DescribeTopicPartitionsRequest.Cursor(topic_name=cursor[0], partition_index=cursor[1])
    topics = [DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in names]
    body = DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=at or None)
    answer = machine.ask(DESCRIBE, 0, body)
    assert isinstance(answer, DescribeTopicPartitionsResponse)
    return answer


def page(machine: Machine, *names: str, **how: Any) -> Page:
    """The partitions by topic, and where the next page begins."""
    answer = described(machine, *names, **how)
    following = answer.next_cursor
    found = {topic.name: [part.partition_index for part in topic.partitions] for topic in answer.topics}
    return found, following and (following.topic_name, following.partition_index)


@pytest.mark.parametrize(
    ("names", "limit", "cursor", "expected"),
    [
        (("c", "a", "a"), 2000, None, ({"a": [0, 1, 2], "c": [0, 1, 2, 3]}, None)),
        (("a", "b"), 1, None, ({"a": [0]}, ("a", 1))),
        (("a", "b"), 0, None, ({"a": [0]}, ("a", 1))),
        (("a", "b"), 3, None, ({"a": [0, 1, 2]}, ("b", 0))),
        (("a", "gone"), 3, None, ({"a": [0, 1, 2]}, ("gone", 0))),
        (("a", "b", "c"), 4, None, ({"a": [0, 1, 2], "b": [0]}, ("b", 1))),
        (("a", "b", "c"), 2, ("b", 1), ({"b": [1], "c": [0]}, ("c", 1))),
        (("a",), 2, ("a", 9), ({"a": []}, None)),
        ((), 2, None, ({"a": [0, 1]}, ("a", 2))),
        ((), 2, ("aa", 7), ({"b": [0, 1]}, ("c", 0))),
        ((), 2, ("z", 0), ({}, None)),
        ((), 2, ("a", -1), ({}, None)),
    ],
)
def test_partitions_come_a_page_at_a_time(
    machine: Machine, names: tuple[str, ...], limit: int, cursor: tuple[str, int] | None, expected: Page
) -> None:
    assert page(machine, *names, limit=limit, cursor=cursor) == expected


def test_pages_together_are_all_partitions(machine: Machine) -> None:
    seen: list[tuple[str, int]] = []
    cursor = None
    while True:
        found, cursor = page(machine, limit=2, cursor=cursor)
        seen += [(name, index) for name, indexes in found.items() for index in indexes]
        if cursor is None:
            break
    assert seen == [(name, index) for name, count in COUNTS.items() for index in range(count)]


@pytest.mark.parametrize("cursor", [("b", 0), ("gone", 0), ("a", -1)])
def test_a_cursor_that_is_at_none_of_the_topics_is_refused(machine: Machine, cursor: tuple[str, int]) -> None:
    answer = described(machine, "c", "a", cursor=cursor)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("a", INVALID_REQUEST), ("c", INVALID_REQUEST)]


def test_topics_that_are_not_there_are_told_among_the_others(machine: Machine) -> None:
    told = [(topic.name, topic.error_code) for topic in described(machine, "gone", "b", "not/a name").topics]
    assert told == [("b", NONE), ("gone", UNKNOWN_TOPIC_OR_PARTITION), ("not/a name", INVALID_TOPIC_EXCEPTION)]


def test_a_partition_has_its_leader_and_no_other_eligible_one(machine: Machine) -> None:
    (topic,) = described(machine, "b").topics
    part = topic.partitions[1]
    assert (part.leader_id, part.replica_nodes, part.isr_nodes) == (1, [1], [1])
    assert (part.eligible_leader_replicas, part.last_known_elr, part.offline_replicas) == ([], [], [])
    assert topic.topic_authorized_operations == 3576


def elected(machine: Machine, partitions: dict[str, list[int]] | None, version: int = 2, kind: int = 0) -> Any:
    asked = partitions and [ElectLeadersRequest.TopicPartitions(topic=name, partitions=them) for name, them in partitions.items()]
    body = ElectLeadersRequest(election_type=kind, topic_partitions=asked or None, timeout_ms=1000)
    answer = machine.ask(ELECT_LEADERS, version, body)
    results = {
        (topic.topic, part.partition_id): part for topic in answer.replica_election_results for part in topic.partition_result
    }
    return answer.error_code, {where: part.error_code for where, part in results.items()}, results


@pytest.mark.parametrize("kind", [0, 1])
def test_no_partition_needs_an_election(machine: Machine, kind: int) -> None:
    code, codes, results = elected(machine, {"a": [0, 7], "gone": [0]}, kind=kind)
    unknown = UNKNOWN_TOPIC_OR_PARTITION
    assert (code, codes) == (NONE, {("a", 0): ELECTION_NOT_NEEDED, ("a", 7): unknown, ("gone", 0): unknown})
    assert results["gone", 0].error_message == "No such topic as gone: refresh the metadata."
    assert results["a", 7].error_message == "No such partition as a-7: refresh the metadata."
    assert elected(machine, None, version=0) == (NONE, {}, {})


def test_an_unknown_kind_of_election_is_refused(machine: Machine) -> None:
    code, codes, _ = elected(machine, {"a": [0]}, kind=2)
    assert (code, codes) == (INVALID_REQUEST, {("a", 0): INVALID_REQUEST})


def test_an_offline_partition_cannot_elect_a_leader() -> None:
    machine = Machine()
    topics = [{"name": "a", "num_partitions": 2, "replication_factor": 1}]
    machine.ask(CREATE_TOPICS, 5, request(CREATE_TOPICS, 5, topics=topics, timeout_ms=1000))
    held = machine.broker.partitions.get("a", 1)
    assert held is not None
    held.fail_offline("it is damaged")
    machine.pass_time(100)
    assert elected(machine, None)[1] == {("a", 1): PREFERRED_LEADER_NOT_AVAILABLE}


def test_no_reassignment_is_under_way(machine: Machine) -> None:
    answer = machine.ask(REASSIGNMENTS, 0, ListPartitionReassignmentsRequest(topics=None))
    assert (answer.error_code, answer.error_message, answer.topics) == (NONE, None, [])


def altered(machine: Machine, name: str, index: int, replicas: list[int] | None, *, may_resize: bool = True) -> int:
    """The error code for a partition that is wanted on these brokers."""
    partition = AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=index, replicas=replicas)
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic(name=name, partitions=[partition])
    body = AlterPartitionReassignmentsRequest(topics=[topic], allow_replication_factor_change=may_resize)
    answer = machine.ask(ALTER_REASSIGNMENTS, 1, body)
    ((result,),) = (one.partitions for one in answer.responses)
    assert answer.error_code == NONE
    assert (result.partition_index, result.error_code == NONE) == (index, result.error_message is None)
    return int(result.error_code)


def test_partitions_of_a_lone_broker_are_wanted_where_they_are_or_cannot_be_there(machine: Machine) -> None:
    here = next(iter(machine.broker.image.brokers))
    assert altered(machine, "a", 0, [here]) == NONE
    assert altered(machine, "a", 0, None) == NO_REASSIGNMENT_IN_PROGRESS
    assert altered(machine, "a", 9, [here]) == altered(machine, "x", 0, None) == UNKNOWN_TOPIC_OR_PARTITION
    for replicas in ([], [here, here], [here, here + 1], [here + 1], [-2]):
        for may_resize in (True, False):
            assert altered(machine, "a", 0, replicas, may_resize=may_resize) == INVALID_REPLICA_ASSIGNMENT
    twice = [AlterPartitionReassignmentsRequest.ReassignablePartition(partition_index=0, replicas=[here])] * 2
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic(name="a", partitions=twice)
    body = AlterPartitionReassignmentsRequest(topics=[topic])
    assert machine.ask(ALTER_REASSIGNMENTS, 1, body).error_code == INVALID_REQUEST
