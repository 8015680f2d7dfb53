"""Requests of other threads to a broker's thread: records in flight, too many at once, cancelled ones, a broker that has ended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ottla
from ottla.net.server.broker_thread import BrokerThread
from ottla.net.server.exception_boundary import BrokerFailed
from ottla.net.server.in_flight_source import MOST_WAITING, InFlightSource
from ottla.share.in_flight_rows import InFlightQuery

WAIT_S = 30


@pytest.fixture
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker() as broker:
        yield broker


def source_of(broker: ottla.Broker) -> InFlightSource:
    assert broker._running is not None
    return broker._running.in_flight()


def thread_of(broker: ottla.Broker) -> BrokerThread:
    return source_of(broker)._thread


def test_records_in_flight_are_read_from_another_thread(broker: ottla.Broker) -> None:
    with ottla.Admin(broker.address) as admin, ottla.Producer(broker.address) as producer:
        admin.create_topic("jobs")
        admin.alter_configs(ottla.ConfigResource.group("workers"), set={"share.auto.offset.reset": "earliest"})
        producer.send("jobs", b"7").result(WAIT_S)
    settings: Any = {"bootstrap_servers": broker.address, "group_id": "workers", "share_acknowledgement_mode": "explicit"}
    with ottla.ShareConsumer("jobs", **settings) as worker:
        (record,) = worker.poll(WAIT_S * 1000)
        source = source_of(broker)
        found = source.read([InFlightQuery("workers", frozenset({"jobs"}))]).result(WAIT_S)
        assert found is not None
        (row,) = found["workers"].rows
        assert (row.state, row.delivery_count, source.node_id) == ("acquired", 1, 1)
        worker.acknowledge(record)


def test_no_more_requests_wait_than_may(broker: ottla.Broker) -> None:
    source = source_of(broker)
    source._requests = MOST_WAITING
    assert source.read([]).result(WAIT_S) is None
    source._requests -= 1
    assert source.read([]).result(WAIT_S) == {}
    assert source._requests == MOST_WAITING - 1


def test_a_cancelled_request_never_begins(broker: ottla.Broker) -> None:
    thread, go_on, began = thread_of(broker), threading.Event(), list[int]()

    def begin(done: Callable[[int], None]) -> None:
        began.append(1)
        done(1)

    def block(done: Callable[[bool], None]) -> None:
        done(go_on.wait(WAIT_S))

    blocking = thread.request(block)
    cancelled = thread.request(begin)
    assert cancelled.cancel()
    go_on.set()
    assert blocking.result(WAIT_S)
    thread.request(block).result(WAIT_S)
    assert not began


def test_a_request_that_has_begun_cannot_be_cancelled(broker: ottla.Broker) -> None:
    """So that its end on the broker's thread changes no future that another thread has cancelled at the same moment."""
    thread, begun, dones = thread_of(broker), threading.Event(), list[Callable[[int], None]]()

    def begin(done: Callable[[int], None]) -> None:
        dones.append(done)
        begun.set()

    def finish(done: Callable[[int], None]) -> None:
        dones[0](7)

    future = thread.request(begin)
    assert begun.wait(WAIT_S)
    assert not future.cancel()
    thread.request(finish)
    assert future.result(WAIT_S) == 7


def test_a_broker_that_has_stopped_answers_no_request() -> None:
    with ottla.Broker() as broker:
        source = source_of(broker)
    with pytest.raises(BrokerFailed):
        source.read([]).result(WAIT_S)
