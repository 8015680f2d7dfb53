"""Whatever happens, a client that puts together what its session's answers say knows what full fetches say."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from ottla.broker.serving.fetch_sessions import SAFE_MS
from ottla.wire.api.delete_records import DeleteRecordsRequest
from ottla.wire.api.fetch import FetchResponse
from ottla.wire.errors import (
    FETCH_SESSION_ID_NOT_FOUND,
    INCONSISTENT_TOPIC_ID,
    INVALID_FETCH_SESSION_EPOCH,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.support.fetching import FETCH, Key, Told, Topic, Wanted, create_topic, delete_topic, fetch_request, told
from tests.support.machine import Machine
from tests.support.producing import produce

PARTITIONS = 2
GONE = (UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION, INCONSISTENT_TOPIC_ID)
"""How it is told that a topic is no more depends on what the session knew of it."""

names = st.sampled_from(["a", "b"])
indexes = st.integers(0, PARTITIONS - 1)
offsets = st.integers(0, 6)


def as_client(told: Told) -> Told:
    return Told(UNKNOWN_TOPIC_ID, -1, -1, 0) if told.error_code in GONE else told


class Sessions(RuleBasedStateMachine):
    """One client with a session, and all that may happen beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = Machine(max_incremental_fetch_session_cache_slots=2, auto_create_topics_enable="false")
        self.topics: dict[str, Topic] = {}
        self.known: list[Topic] = []
        self.wanted: dict[tuple[Topic, int], Wanted] = {}
        self.changed: dict[tuple[Topic, int], Wanted] = {}
        self.forgotten: dict[tuple[Topic, int], Wanted] = {}
        self.view: dict[Key, Told] = {}
        self.session_id = self.epoch = self.isolation_level = 0

    @initialize(version=st.sampled_from([7, 12, 17]))
    def begin(self, version: int) -> None:
        self.version = version
        for name in ("a", "b"):
            self.make(name)
            for index in range(PARTITIONS):
                self.ask(self.topics[name], index, 0)
        self.fetch()

    def make(self, name: str) -> None:
        self.topics[name] = create_topic(self.machine.ask, name, PARTITIONS)
        self.known.append(self.topics[name])

    @rule(name=names, index=indexes)
    def append(self, name: str, index: int) -> None:
        if name in self.topics:
            produce(self.machine, b"v", topic=name, index=index, acks=1)

    @rule(name=names, index=indexes)
    def delete_records(self, name: str, index: int) -> None:
        part = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=index, offset=-1)
        topics = [DeleteRecordsRequest.DeleteRecordsTopic(name=name, partitions=[part])]
        self.machine.ask(21, 2, DeleteRecordsRequest(topics=topics, timeout_ms=1000))

    @rule(name=names)
    def delete_or_make_anew(self, name: str) -> None:
        if name in self.topics:
            delete_topic(self.machine.ask, name)
            del self.topics[name]
        else:
            self.make(name)

    @rule(name=names, index=st.integers(0, PARTITIONS), offset=offsets)
    def want(self, name: str, index: int, offset: int) -> None:
        """Read a partition, which may not be there, or another place in it."""
        if name in self.topics:
            if self.version < 13:  # by name there is but one of it, whatever its id was
                self.drop([key for key in self.wanted if key[0] != self.topics[name] and self.name(key) == (name, index)])
            self.ask(self.topics[name], index, offset)

    def ask(self, topic: Topic, index: int, offset: int) -> None:
        key = (topic, index)
        self.wanted[key] = self.changed[key] = Wanted(*key, offset)
        self.forgotten = {gone: one for gone, one in self.forgotten.items() if self.name(gone) != self.name(key)}

    @rule()
    def go_on(self) -> None:
        """As consumers do: read on from where the records that were told end."""
        for key in list(self.wanted):
            part = self.view.get(self.name(key))
            if part is not None and part.size:
                self.ask(*key, part.high_watermark)

    @precondition(lambda self: self.wanted)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(list(self.wanted)))
        self.forgotten[key] = self.wanted[key]
        self.drop([key])

    def drop(self, keys: list[tuple[Topic, int]]) -> None:
        for key in keys:
            del self.wanted[key]
            self.changed.pop(key, None)

    @rule()
    def fetch(self) -> None:
        self.incremental(1 << 20)
        assert self.view == self.full()

    @rule()
    def fetch_little_again_and_again(self) -> None:
        """No partition starves where there is a session, and of those that have no room all but their records is told."""
        full = self.full()
        seen: set[Key] = set()
        for _ in range(len(full) + 1):
            self.incremental(1)
            seen.update(key for key, part in self.view.items() if part.size)
            assert {key: part._replace(size=0) for key, part in self.view.items()} == {
                key: part._replace(size=0) for key, part in full.items()
            }
        if self.session_id:
            assert seen == {key for key, part in full.items() if part.size}

    @rule(what=st.sampled_from(["begin anew", "be forgotten", "lose an answer", "read committed records", "read all records"]))
    def break_off(self, what: str) -> None:
        match what:
            case "begin anew":
                self.epoch = 0
            case "be forgotten":  # nobody used it for long, and others took all the room
                self.machine.pass_time(SAFE_MS + 1)
                for _ in range(2):
                    assert self.machine.ask(FETCH, 17, fetch_request(17, 0, 0)).session_id
            case "lose an answer" if self.epoch:
                self.machine.ask(FETCH, self.version, fetch_request(self.version, self.session_id, self.epoch))
            case "read committed records" | "read all records":
                self.isolation_level = int(what == "read committed records")

    def incremental(self, max_bytes: int) -> None:
        full = self.epoch == 0
        wanted = self.wanted if full else self.changed
        forgotten = [] if full else list(self.forgotten.values())
        body = fetch_request(
            self.version,
            self.session_id,
            self.epoch,
            wanted.values(),
            forgotten,
            max_bytes=max_bytes,
            isolation_level=self.isolation_level,
        )
        response = self.machine.ask(FETCH, self.version, body)
        if response.error_code:
            assert response.error_code in (FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH)
            self.session_id = self.epoch = 0
            self.incremental(max_bytes)
            return
        self.session_id = response.session_id
        self.epoch = self.epoch + 1 if response.session_id else 0
        self.view = {} if full else {key: part._replace(size=0) for key, part in self.view.items()}
        self.view |= self.heard(response)
        held = {self.name(key) for key in self.wanted}
        self.view = {key: part for key, part in self.view.items() if key in held}
        self.changed.clear()
        self.forgotten.clear()

    def full(self) -> dict[Key, Told]:
        body = fetch_request(self.version, 0, -1, self.wanted.values())
        return self.heard(self.machine.ask(FETCH, self.version, body))

    def name(self, key: tuple[Topic, int]) -> Key:
        return self.unique(key[0]), key[1]

    def heard(self, response: FetchResponse) -> dict[Key, Told]:
        renamed = [Topic(self.unique(topic), topic.topic_id) for topic in self.known]
        return {key: as_client(part) for key, part in told(response, *renamed).items()}

    def unique(self, topic: Topic) -> str:
        """What topics are told apart by: by id, two of one name are two."""
        return topic.name if self.version < 13 else f"{topic.name} {topic.topic_id.hex()}"


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=100, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck))
