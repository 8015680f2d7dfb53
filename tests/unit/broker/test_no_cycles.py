"""What requests leave behind goes by itself: whatever waits for the garbage collector has it stop the broker for it."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from ottla.wire.api.api_versions import ApiVersionsRequest
from ottla.wire.api.fetch import FetchRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.offset_commit import OffsetCommitRequest
from tests.support.fetching import Session, Topic, Wanted, fetch_request
from tests.support.machine import Machine
from tests.support.producing import create, fetch, produce


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


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_leaves_no_cycles(name: str) -> None:
    machine = Machine()
    create(machine, "t", 2)
    machine.ask(10, 0, FindCoordinatorRequest(key="g"))
    REQUESTS[name](machine)
    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            REQUESTS[name](machine)
        assert gc.collect() < 20
    finally:
        gc.enable()
