"""Fetch requests within sessions (KIP-227) and without, of any version, and what their answers say, partition by partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.delete_topics import DeleteTopicsRequest
from ottla.wire.api.fetch import FetchRequest, FetchResponse
from ottla.wire.framing import FrameHeader, decode_response, encode_request
from tests.support.frames import Raw

FETCH, CREATE, DELETE = 1, 19, 20
TOPIC_IDS_FROM = 13
Ask = Callable[[int, int, Any], Any]
"""(API key, version, request) -> response"""


class Topic(NamedTuple):
    name: str
    topic_id: bytes


class Wanted(NamedTuple):
    """One partition of a request."""

    topic: Topic
    partition: int
    offset: int = 0
    max_bytes: int = 1 << 20


class Told(NamedTuple):
    """One partition of an answer."""

    error_code: int
    high_watermark: int
    log_start_offset: int
    size: int


Key = tuple[str, int]


def talk(raw: Raw) -> Ask:
    """Requests over one connection."""

    def ask(key: int, version: int, body: Any) -> Any:
        raw.send(b"".join(bytes(part) for part in encode_request(FrameHeader(key, version, 1, "test"), body)))
        return decode_response(key, version, raw.frame())[1]

    return ask


def create_topic(ask: Ask, name: str, partitions: int) -> Topic:
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    made = ask(CREATE, 7, CreateTopicsRequest(topics=[topic], timeout_ms=10_000)).topics[0]
    assert made.error_code == 0
    return Topic(name, bytes(made.topic_id))


def delete_topic(ask: Ask, name: str) -> None:
    body = DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name=name)], timeout_ms=10_000)
    assert ask(DELETE, 6, body).responses[0].error_code == 0


def fetch_request(
    version: int,
    session_id: int,
    epoch: int,
    wanted: Iterable[Wanted] = (),
    forgotten: Iterable[Wanted] = (),
    *,
    max_wait_ms: int = 0,
    max_bytes: int = 1 << 20,
    isolation_level: int = 0,
) -> FetchRequest:
    topics: dict[Topic, list[FetchRequest.FetchPartition]] = {}
    for topic, index, offset, most in wanted:
        part = FetchRequest.FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=most)
        topics.setdefault(topic, []).append(part)
    gone: dict[Topic, list[int]] = {}
    for one in forgotten:
        gone.setdefault(one.topic, []).append(one.partition)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchRequest.FetchTopic(**_named(version, topic), partitions=parts) for topic, parts in topics.items()],
        forgotten_topics_data=[
            FetchRequest.ForgottenTopic(**_named(version, topic), partitions=indexes) for topic, indexes in gone.items()
        ],
    )


def _named(version: int, topic: Topic) -> dict[str, Any]:
    return {"topic": topic.name} if version < TOPIC_IDS_FROM else {"topic_id": topic.topic_id}


def named(answer: FetchResponse.FetchableTopicResponse, topics: Iterable[Topic]) -> str:
    """The name of a topic in an answer that may tell its id alone."""
    return answer.topic or next(topic.name for topic in topics if topic.topic_id == answer.topic_id)


def told(response: FetchResponse, *topics: Topic) -> dict[Key, Told]:
    """What an answer says of each partition, in its order."""
    return {
        (named(topic, topics), part.partition_index): Told(
            part.error_code, part.high_watermark, part.log_start_offset, len(part.records or b"")
        )
        for topic in response.responses
        for part in topic.partitions
    }


class Session:
    """A client's side of one session: it counts epochs, and `told` is what it knows of each partition by now."""

    def __init__(self, ask: Ask, version: int, *topics: Topic) -> None:
        self.ask = ask
        self.version = version
        self.topics = topics
        self.session_id = 0
        self.epoch = 0

    def body(self, wanted: Iterable[Wanted] = (), forgotten: Iterable[Wanted] = (), **limits: int) -> FetchRequest:
        """The next request of this session."""
        body = fetch_request(self.version, self.session_id, self.epoch, wanted, forgotten, **limits)
        self.epoch += 1
        return body

    def fetch(self, wanted: Iterable[Wanted] = (), forgotten: Iterable[Wanted] = (), **limits: int) -> dict[Key, Told]:
        """Send the next request; what its answer says, which has to be of this session."""
        response = self.ask(FETCH, self.version, self.body(wanted, forgotten, **limits))
        assert response.error_code == 0
        assert response.session_id == (self.session_id or response.session_id) != 0
        self.session_id = response.session_id
        return told(response, *self.topics)
