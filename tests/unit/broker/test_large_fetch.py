"""Fetches of many partitions are read in slices, wait without being woken by each partition, and keep sessions as others do."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.partitions.partition import Partition
from ottla.broker.serving.authorization import Operation, Resource
from ottla.broker.serving.fetch_sessions import MOST_HELD_BY_ONE
from ottla.broker.serving.purgatory import DelayedReply
from ottla.broker.serving.request import Peer
from ottla.records.batches.builder import build
from ottla.wire.errors import (
    FETCH_SESSION_ID_NOT_FOUND,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.support.machine import Machine, OpenMachine
from tests.support.messages import request
from tests.unit.broker.test_computed import Hasty
from tests.unit.broker.test_old_versions import FETCH, PRODUCE, produced

COUNT = 1200
CREATE_TOPICS = 19


def made(machine: Machine) -> Machine:
    topics = [{"name": "t", "num_partitions": COUNT, "replication_factor": 1}]
    assert machine.ask(CREATE_TOPICS, 5, request(CREATE_TOPICS, 5, topics=topics, timeout_ms=1000)).topics[0].error_code == NONE
    machine.broker.scheduler._clock = Hasty(machine.clock)
    return machine


@pytest.fixture
def slow() -> Machine:
    return made(Machine())


def body(*indexes: int, topic: str = "t", max_wait_ms: int = 0, session: tuple[int, int] = (0, -1), **more: Any) -> Any:
    parts = [{"partition": index, "fetch_offset": 0, "partition_max_bytes": 1000} for index in indexes]
    topics = [{"topic": topic, "partitions": parts}] if parts else []
    names = {"session_id": session[0], "session_epoch": session[1]}
    return request(FETCH, 11, max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, topics=topics, **names, **more)


def write(machine: Machine, index: int = 0) -> None:
    wanted = produced("t", bytes(build(None, [b"value"], 1_700_000_000_000)), version=9)
    wanted.topic_data[0].partition_data[0].index = index
    assert machine.ask(PRODUCE, 9, wanted).responses[0].partition_responses[0].error_code == NONE


def finished(machine: Machine, pending: Any, patience: int = 20_000) -> Any:
    for _ in range(patience):
        if not isinstance(pending, DelayedReply):
            return pending
        if pending.done:
            return machine.finish(FETCH, 11, pending)
        machine.pass_time(1)
    raise AssertionError("it was not answered")


def test_every_partition_is_answered_once_and_those_with_records_have_them(slow: Machine) -> None:
    for index in (3, 700):
        write(slow, index)
    answer = finished(slow, slow.begin(FETCH, 11, body(*range(COUNT + 5))))
    (topic,) = answer.responses
    assert [data.partition_index for data in topic.partitions] == list(range(COUNT + 5))
    assert [data.partition_index for data in topic.partitions if data.records] == [3, 700]
    assert {data.error_code for data in topic.partitions[COUNT:]} == {UNKNOWN_TOPIC_OR_PARTITION}


def test_one_that_waits_is_answered_when_something_was_written_and_else_when_its_time_is_over(slow: Machine) -> None:
    pending = slow.begin(FETCH, 11, body(*range(COUNT), max_wait_ms=1_000_000))
    for _ in range(200):
        slow.pass_time(1)
    assert not pending.done
    write(slow, 900)
    answer = finished(slow, pending, 2000)
    assert [data.partition_index for data in answer.responses[0].partitions if data.records] == [900]
    late = slow.begin(FETCH, 11, body(*range(500), *range(901, 1200), max_wait_ms=500))
    assert [data for data in finished(slow, late).responses[0].partitions if data.records] == []


def test_while_nothing_changes_nothing_is_read_again(slow: Machine) -> None:
    pending = slow.begin(FETCH, 11, body(*range(COUNT), max_wait_ms=1_000_000))
    for _ in range(3000):
        slow.pass_time(1)
    looks: list[int] = []
    read = slow.broker.partitions.get

    def counted(topic: str, index: int) -> Partition | None:
        looks.append(index)
        return read(topic, index)

    slow.broker.partitions.get = counted  # type: ignore[method-assign]  # only to count
    for _ in range(1000):
        slow.pass_time(1)
    assert not pending.done
    assert not looks


def test_a_session_of_many_partitions_goes_on_with_what_changed(slow: Machine) -> None:
    first = finished(slow, slow.begin(FETCH, 11, body(*range(COUNT), session=(0, 0))))
    assert first.session_id
    assert len(first.responses[0].partitions) == COUNT
    write(slow, 5)
    second = finished(slow, slow.begin(FETCH, 11, body(session=(first.session_id, 1))))
    assert [data.partition_index for topic in second.responses for data in topic.partitions] == [5]
    forgotten = [{"topic": "t", "partitions": [5]}]
    more = body(*range(COUNT, COUNT + 700), session=(first.session_id, 2), forgotten_topics_data=forgotten)
    third = finished(slow, slow.begin(FETCH, 11, more))
    told = [data for topic in third.responses for data in topic.partitions]
    assert [data.partition_index for data in told] == list(range(COUNT, COUNT + 700))
    assert {data.error_code for data in told} == {UNKNOWN_TOPIC_OR_PARTITION}
    session = slow.broker.fetch_sessions._sessions[first.session_id]
    assert len(session.held) == COUNT - 1 + 700
    fourth = finished(slow, slow.begin(FETCH, 11, body(session=(first.session_id, 3))))
    assert len(fourth.responses[0].partitions) == 700, "errors are told each time"


def test_there_is_no_session_for_more_partitions_than_one_may_hold(slow: Machine) -> None:
    many = range(MOST_HELD_BY_ONE + 1)
    assert finished(slow, slow.begin(FETCH, 11, body(*many, session=(0, 0)))).session_id == 0
    assert not len(slow.broker.fetch_sessions)
    first = finished(slow, slow.begin(FETCH, 11, body(0, session=(0, 0))))
    finished(slow, slow.begin(FETCH, 11, body(*many, session=(first.session_id, 1))))
    assert not len(slow.broker.fetch_sessions), "one that grows too large ends"
    again = finished(slow, slow.begin(FETCH, 11, body(session=(first.session_id, 2))))
    assert again.error_code == FETCH_SESSION_ID_NOT_FOUND


def test_a_session_of_which_its_client_never_hears_is_ended(slow: Machine) -> None:
    pending = slow.begin(FETCH, 11, body(*range(COUNT), session=(0, 0), max_wait_ms=1_000_000))
    for _ in range(100):
        slow.pass_time(1)
    assert len(slow.broker.fetch_sessions) == 1
    slow.broker.forget(pending)
    for _ in range(2000):
        slow.pass_time(1)
    assert not len(slow.broker.fetch_sessions)
    assert not slow.broker.scheduler.busy


class OnlyT:
    """Whoever asks may read t."""

    def allows(self, peer: Peer, operation: Operation, resource: Resource, name: str) -> bool:
        return resource is not Resource.TOPIC or name == "t"


def test_each_block_is_held_against_what_its_client_may_read() -> None:
    machine = made(OpenMachine(authorizer=OnlyT()))
    wanted = body(*range(600))
    wanted.topics += body(*range(600), topic="secret").topics
    answer = finished(machine, machine.begin(FETCH, 11, wanted))
    read = {
        topic.topic: len(topic.partitions) for topic in answer.responses if {data.error_code for data in topic.partitions} == {NONE}
    }
    assert read == {"t": 600}
