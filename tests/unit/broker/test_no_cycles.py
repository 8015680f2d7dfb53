"""What requests leave behind goes by itself: whatever waits for the garbage collector has it stop the broker for it."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from ottla.broker.serving.purgatory import DelayedReply
from ottla.records.batches.builder import build
from ottla.wire.api.api_versions import ApiVersionsRequest
from ottla.wire.api.fetch import FetchRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.errors import NONE
from tests.support.cluster_machine import ClusterMachine, role
from tests.support.fetching import Session, Topic, Wanted, fetch_request
from tests.support.machine import Machine
from tests.support.producing import create, fetch, produce
from tests.support.producing import request as produce_request


def commit(machine: Machine) -> object:
    part = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    topics = [OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[part])]
    return machine.ask(8, 8, OffsetCommitRequest(group_id="g", topics=topics))


def fetch_that_waits(machine: Machine) -> object:
    part = FetchRequest.FetchPartition(partition=1, fetch_offset=0, partition_max_bytes=100)
    topics = [FetchRequest.FetchTopic(topic="t", partitions=[part])]
    return machine.ask(1, 4, FetchRequest(replica_id=-1, max_wait_ms=100, min_bytes=1, max_bytes=100, topics=topics))


def fetch_session(machine: Machine) -> object:
    """A session from its beginning, over a fetch that waits, to its end."""
    topic = Topic("t", b"")
    session = Session(machine.ask, 12, topic)
    session.fetch([Wanted(topic, 0), Wanted(topic, 1)])
    session.fetch([Wanted(topic, 0, 1 << 40)])
    session.fetch([], [Wanted(topic, 0)], max_wait_ms=100)
    return machine.ask(1, 12, fetch_request(12, session.session_id, -1))


REQUESTS: dict[str, Callable[[Machine], object]] = {
    "produce, acks=all": lambda machine: produce(machine, b"value"),
    "produce, acks=1": lambda machine: produce(machine, b"value", acks=1),
    "fetch": fetch,
    "fetch that waits": fetch_that_waits,
    "fetch session": fetch_session,
    "commit": commit,
    "metadata": lambda machine: machine.ask(3, 12, MetadataRequest(topics=None)),
    "api versions": lambda machine: machine.ask(18, 3, ApiVersionsRequest()),
}


TIMES = 200
"""More than there are deadlines that a scheduler keeps though they were cancelled."""


def check_that_none_is_left(request: Callable[[], object]) -> None:
    request()
    gc.collect()
    gc.disable()
    try:
        for _ in range(TIMES):
            request()
        assert gc.collect() < TIMES
    finally:
        gc.enable()


@pytest.mark.rows(3, seconds=3.5)
@pytest.mark.slow
@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_leaves_no_cycles(name: str) -> None:
    machine = Machine()
    create(machine, "t", 2)
    machine.ask(10, 0, FindCoordinatorRequest(key="g"))
    check_that_none_is_left(lambda: REQUESTS[name](machine))


@pytest.mark.slow
def test_records_that_other_replicas_have_leave_no_cycles() -> None:
    machine = leader()

    def replicated() -> None:
        answer = machine.begin(0, 9, produce_request(build(None, [b"value"], 1000), acks=-1))
        assert isinstance(answer, DelayedReply)
        for node_id in (2, 3):
            machine.replica().follower_fetched(node_id, machine.replica().log.log_end_offset, 0, machine.clock.now())
        machine.settle()
        assert machine.finish(0, 9, answer).responses[0].partition_responses[0].error_code == NONE

    check_that_none_is_left(replicated)


def test_a_request_whose_records_are_in_the_log_does_not_hold_its_frame_while_it_waits() -> None:
    machine = leader()
    frame = bytearray(machine.frame_of(0, 9, produce_request(build(None, [bytes(5000)], 1000), acks=-1)))
    answer = machine.broker.receive(memoryview(frame), machine.peer, machine.clock.now(), owned=True)
    assert isinstance(answer, DelayedReply)
    assert not answer.done
    frame.clear()  # raises where anybody has a view of it


def leader() -> ClusterMachine:
    """The leader of t-0 among three brokers that are in sync."""
    machine = ClusterMachine()
    machine.tell_brokers(1, 2, 3)
    assert machine.tell_roles(role(1, 5)) == [NONE]
    return machine
