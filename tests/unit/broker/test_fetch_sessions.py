"""Fetch sessions (KIP-227) in a broker without sockets: what is read again, who waits, and who makes room for whom."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ottla.broker.serving.fetch_sessions import LAST_EPOCH, SAFE_MS, FetchSessions
from ottla.broker.serving.purgatory import DelayedReply
from ottla.ports import StorageFailed
from ottla.wire.api.alter_configs import AlterConfigsRequest
from ottla.wire.api.delete_records import DeleteRecordsRequest
from ottla.wire.api.fetch import FetchRequest
from ottla.wire.errors import (
    FETCH_SESSION_ID_NOT_FOUND,
    KAFKA_STORAGE_ERROR,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_COMPRESSION_TYPE,
)
from tests.support.fetching import FETCH, Session, Told, Topic, Wanted, create_topic, fetch_request, told
from tests.support.machine import Machine
from tests.support.producing import delete, produce

VERSION = 17


def served(machine: Machine, partitions: int = 3, version: int = VERSION) -> tuple[Topic, Session]:
    """A topic, and a session that knows all its partitions."""
    topic = create_topic(machine.ask, "t", partitions)
    session = Session(machine.ask, version, topic)
    session.fetch([Wanted(topic, index) for index in range(partitions)])
    return topic, session


def partition(machine: Machine, index: int) -> Any:
    found = machine.broker.partitions.get("t", index)
    assert found is not None
    return found


def waiting(machine: Machine, session: Session) -> DelayedReply:
    pending = machine.begin(FETCH, session.version, session.body(max_wait_ms=500))
    assert isinstance(pending, DelayedReply)
    return pending


def test_idle_partitions_are_not_looked_at_again() -> None:
    machine = Machine()
    _, session = served(machine, 100)
    held = machine.broker.fetch_sessions.resume(session.session_id, machine.peer.principal, session.epoch, uses_ids=True)
    assert not isinstance(held, int)
    assert (len(held.held), held.in_turn()) == (100, [])
    produce(machine, b"v", index=7)
    assert [one.partition for one in held.in_turn()] == [7]
    assert list(session.fetch()) == [("t", 7)]


def test_a_waiting_fetch_is_answered_by_records_in_any_partition_of_its_session() -> None:
    machine = Machine()
    topic, session = served(machine)
    for index in range(3):
        pending = waiting(machine, session)
        produce(machine, b"v", index=index)
        assert list(told(machine.finish(FETCH, VERSION, pending), topic)) == [("t", index)]
        session.fetch([Wanted(topic, index, 1)])
    pending = waiting(machine, session)
    machine.pass_time(500)
    assert told(machine.finish(FETCH, VERSION, pending), topic) == {}


def test_a_log_start_offset_that_moves_is_told() -> None:
    machine = Machine()
    topic, session = served(machine)
    produce(machine, b"v", index=1)
    session.fetch([Wanted(topic, 1, 1)])
    part = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=1, offset=1)
    topics = [DeleteRecordsRequest.DeleteRecordsTopic(name="t", partitions=[part])]
    machine.ask(21, 2, DeleteRecordsRequest(topics=topics, timeout_ms=1000))
    assert session.fetch() == {("t", 1): Told(0, 1, 1, 0)}
    assert session.fetch() == {}


def test_what_retention_takes_is_told() -> None:
    machine = Machine(log_retention_check_interval_ms=1000, log_retention_ms=5000)
    topic, session = served(machine)
    produce(machine, b"v", index=1)
    session.fetch([Wanted(topic, 1, 1)])
    machine.pass_time(10_000)
    machine.pass_time(10_000)
    assert session.fetch() == {("t", 1): Told(0, 1, 1, 0)}


@pytest.mark.expects_errors("planted")
def test_a_partition_that_goes_offline_ends_the_wait_with_its_error() -> None:
    machine = Machine()
    topic, session = served(machine)
    produce(machine, b"v", index=2)
    session.fetch([Wanted(topic, 2, 1)])
    pending = waiting(machine, session)
    partition(machine, 2).fail(StorageFailed("t-2", "planted"))
    machine.settle()
    error = {("t", 2): Told(KAFKA_STORAGE_ERROR, -1, -1, 0)}
    assert told(machine.finish(FETCH, VERSION, pending), topic) == error
    assert session.fetch() == error


def test_a_topic_that_is_deleted_is_told_while_a_fetch_waits() -> None:
    machine = Machine()
    topic, session = served(machine, 1)
    pending = waiting(machine, session)
    delete(machine, "t")
    assert told(machine.finish(FETCH, VERSION, pending), topic) == {("t", 0): Told(UNKNOWN_TOPIC_OR_PARTITION, -1, -1, 0)}


@pytest.mark.parametrize("version", [9, 12])
def test_settings_that_decide_what_an_old_version_may_read_are_noticed(version: int) -> None:
    machine = Machine()
    _, session = served(machine, 1, version)
    setting = AlterConfigsRequest.AlterableConfig(name="compression.type", value="zstd")
    resource = AlterConfigsRequest.AlterConfigsResource(resource_type=2, resource_name="t", configs=[setting])
    machine.ask(33, 1, AlterConfigsRequest(resources=[resource]))
    refused = {("t", 0): Told(UNSUPPORTED_COMPRESSION_TYPE, -1, -1, 0)}
    assert session.fetch() == (refused if version < 10 else {})
    session.version = 12
    assert session.fetch() == ({("t", 0): Told(0, 0, 0, 0)} if version < 10 else {})
    session.version = 9
    assert session.fetch() == refused


def test_an_isolation_level_holds_for_its_request_only() -> None:
    machine = Machine()
    _, session = served(machine, 1)
    produce(machine, b"v")
    for level in (1, 0, 1):
        assert [part.high_watermark for part in session.fetch(isolation_level=level).values()] == [1]


def test_epochs_begin_again_at_1_after_the_last() -> None:
    machine = Machine()
    _, session = served(machine)
    held = machine.broker.fetch_sessions.resume(session.session_id, machine.peer.principal, 1, uses_ids=True)
    assert not isinstance(held, int)
    held.epoch = session.epoch = LAST_EPOCH
    assert session.fetch() == {}
    session.epoch = 1
    assert session.fetch() == {}


def test_a_fetch_whose_session_makes_room_for_another_is_answered_at_once() -> None:
    machine = Machine(max_incremental_fetch_session_cache_slots=1)
    topic, session = served(machine)
    machine.pass_time(SAFE_MS + 1)
    pending = waiting(machine, session)
    bigger = Session(machine.ask, VERSION, topic)
    bigger.fetch(Wanted(topic, index) for index in range(4))
    assert bigger.session_id != 0
    assert told(machine.finish(FETCH, VERSION, pending), topic) == {}
    assert machine.ask(FETCH, VERSION, session.body()).error_code == FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("slots", [0, 1])
def test_without_a_free_slot_a_full_fetch_is_answered_without_a_session(slots: int) -> None:
    machine = Machine(max_incremental_fetch_session_cache_slots=slots)
    topic = create_topic(machine.ask, "t", 1)
    ids = [machine.ask(FETCH, VERSION, fetch_request(VERSION, 0, 0, [Wanted(topic, 0)])).session_id for _ in range(2)]
    assert [session_id != 0 for session_id in ids] == [slots > 0, False]


def test_nothing_is_kept_of_sessions_that_ended() -> None:
    machine = Machine()
    topic, session = served(machine)
    unknown = Topic("u", bytes(15) + b"\x09")
    session.topics += (unknown,)
    session.fetch([Wanted(unknown, 0)], [Wanted(topic, 0)])
    machine.ask(FETCH, VERSION, fetch_request(VERSION, session.session_id, -1))
    sessions = machine.broker.fetch_sessions
    assert (len(sessions), sessions._watched, sessions._for_all, sessions._for_privileged) == (0, {}, [], [])


class Cache:
    """Sessions of given sizes, by the names that a test gives them."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.now_ms = 0
        self._count = 0
        self.sessions = FetchSessions(self._next_id, lambda key: None, lambda topic_id: None)
        self.ids: dict[str, int] = {}

    def _next_id(self, size: int) -> bytes:
        self._count += 1
        return self._count.to_bytes(size, "big")

    def begin(self, name: str, size: int, *, follower: bool = False) -> bool:
        session = self.sessions.begin("User:a", size, self.slots, self.now_ms, privileged=follower, uses_ids=False)
        if session is None:
            return False
        self.ids[name] = session.id
        parts = [FetchRequest.FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1) for index in range(size)]
        self.sessions.update(session, [FetchRequest.FetchTopic(topic=name, partitions=parts)], (), None)
        self.sessions.touch(session, self.now_ms)
        return True

    def use(self, name: str) -> None:
        session = self.sessions._sessions[self.ids[name]]
        self.sessions.advance(session, self.now_ms)

    @property
    def alive(self) -> set[str]:
        return {name for name, session_id in self.ids.items() if session_id in self.sessions._sessions}


def test_a_session_that_was_not_used_for_two_minutes_makes_room_for_any_other() -> None:
    cache = Cache(2)
    assert cache.begin("big", 100)
    assert cache.begin("used", 1)
    cache.now_ms = SAFE_MS
    cache.use("used")
    assert not cache.begin("early", 1)
    cache.now_ms = SAFE_MS + 1
    assert cache.begin("small", 1)
    assert cache.alive == {"used", "small"}


def test_among_used_sessions_the_smallest_old_one_makes_room_for_a_bigger_one() -> None:
    cache = Cache(3)
    for name, size in (("three", 3), ("five", 5), ("young", 1)):
        cache.now_ms = 10 if name == "young" else 0
        assert cache.begin(name, size)
    assert not cache.begin("early", 50)
    cache.now_ms = SAFE_MS + 1
    for name in ("three", "five", "young"):
        cache.use(name)
    assert not cache.begin("as big", 3)
    assert cache.begin("bigger", 4)
    assert cache.alive == {"five", "young", "bigger"}


def test_a_follower_s_session_takes_a_young_one_of_a_consumer_and_no_other_follower_s() -> None:
    cache = Cache(2)
    assert cache.begin("follower", 1, follower=True)
    assert cache.begin("consumer", 100)
    assert cache.begin("second follower", 1, follower=True)
    assert cache.alive == {"follower", "second follower"}
    assert not cache.begin("third follower", 100, follower=True)
    cache.now_ms = SAFE_MS + 1
    cache.use("follower")
    cache.use("second follower")
    assert not cache.begin("consumer", 100)
    assert cache.begin("third follower", 100, follower=True)
    assert cache.alive == {"second follower", "third follower"}


def test_a_session_is_nobodys_but_that_principals_who_began_it() -> None:
    machine = Machine()
    topic, session = served(machine)
    owner = machine.peer
    for epoch, code in ((session.epoch, FETCH_SESSION_ID_NOT_FOUND), (-1, NONE), (0, NONE)):
        machine.peer = replace(owner, id=9, principal="User:mallory")
        assert machine.ask(FETCH, VERSION, fetch_request(VERSION, session.session_id, epoch)).error_code == code
        machine.peer = replace(owner, id=10)
        session.fetch([Wanted(topic, 0)])
