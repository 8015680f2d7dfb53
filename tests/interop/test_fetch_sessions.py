"""Fetch sessions (KIP-227) by frames: every case is what Apache Kafka 4.3 answers (`--peer=apache-kafka`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import pytest

from ottla.wire.api.fetch import FetchResponse
from ottla.wire.errors import (
    FETCH_SESSION_ID_NOT_FOUND,
    FETCH_SESSION_TOPIC_ID_ERROR,
    INCONSISTENT_TOPIC_ID,
    INVALID_FETCH_SESSION_EPOCH,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from ottla.wire.framing import FrameHeader, decode_response, encode_request
from tests.support.fetching import FETCH, Session, Told, Topic, Wanted, create_topic, delete_topic, fetch_request, talk, told
from tests.support.frames import Batch, Raw
from tests.support.peers import Peer, start_peer
from tests.support.waiting import eventually

VERSIONS = (7, 11, 12, 13, 15, 17, 18)
NAMES, IDS = 12, 17
MAX = (1 << 31) - 1
NOBODYS = Topic("nobodys", bytes(15) + b"\x09")
ONE = len(Batch().encode())


@pytest.fixture(scope="module")
def peer(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with start_peer(peer_name, tmp_path_factory.mktemp("peer"), {"log.retention.ms": -1}) as running:
        yield running


@pytest.fixture
def raw(peer: Peer) -> Iterator[Raw]:
    with Raw(peer.address, timeout_s=30) as connected:
        yield connected


@pytest.fixture
def topic(raw: Raw, request: pytest.FixtureRequest) -> Topic:
    """A topic of three partitions, known to all of the broker."""
    made = create_topic(talk(raw), f"t{abs(hash(request.node.name))}", 3)
    known(raw, made)
    return made


def known(raw: Raw, topic: Topic) -> None:
    def is_served() -> bool:
        answer = told(talk(raw)(FETCH, IDS, fetch_request(IDS, 0, -1, all_of(topic))), topic)
        return all(part.error_code == 0 for part in answer.values())

    eventually(is_served)


def all_of(topic: Topic, offset: int = 0) -> list[Wanted]:
    return [Wanted(topic, index, offset) for index in range(3)]


def put(raw: Raw, topic: Topic, *indexes: int) -> None:
    for index in indexes:
        assert raw.produce(topic.name, Batch().encode(), partition=index, acks=1)[0] == 0


def whose(response: FetchResponse, live: int) -> str:
    """Which session an answer is of."""
    return {0: "none", live: "same"}.get(response.session_id, "new")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_full_fetch_makes_a_session_only_with_epoch_0_and_whatever_session_it_names(raw: Raw, topic: Topic, version: int) -> None:
    ask = talk(raw)
    put(raw, topic, 0)
    for session_id in (0, -1, 5):
        for epoch, session in ((0, "new"), (-1, "none")):
            response = ask(FETCH, version, fetch_request(version, session_id, epoch, all_of(topic)))
            assert (response.error_code, whose(response, session_id or -1)) == (0, session)
            assert [part.size for part in told(response, topic).values()] == [ONE, 0, 0]


@pytest.mark.parametrize("version", VERSIONS)
def test_any_other_epoch_without_a_session_finds_none(raw: Raw, topic: Topic, version: int) -> None:
    for session_id in (0, -1, 5):
        for epoch in (-MAX - 1, -2, 1, 2, MAX):
            response = talk(raw)(FETCH, version, fetch_request(version, session_id, epoch, all_of(topic)))
            assert (response.error_code, response.session_id, response.responses) == (FETCH_SESSION_ID_NOT_FOUND, 0, [])


EPOCHS = {
    1: (0, "same", 0),
    -1: (0, "none", FETCH_SESSION_ID_NOT_FOUND),
    0: (0, "new", FETCH_SESSION_ID_NOT_FOUND),
    **dict.fromkeys((-MAX - 1, -2, 2, 3, MAX), (INVALID_FETCH_SESSION_EPOCH, "none", 0)),
}
"""epoch asked of a session of epoch 1: (error code, session of the answer, error code of the request after it)"""


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("epoch", EPOCHS)
def test_a_session_takes_its_next_epoch_ends_with_a_full_fetch_and_survives_wrong_ones(
    raw: Raw, topic: Topic, version: int, epoch: int
) -> None:
    ask = talk(raw)
    live = ask(FETCH, version, fetch_request(version, 0, 0, all_of(topic))).session_id
    response = ask(FETCH, version, fetch_request(version, live, epoch))
    following = ask(FETCH, version, fetch_request(version, live, 2 if epoch == 1 else 1))
    assert (response.error_code, whose(response, live), following.error_code) == EPOCHS[epoch]
    assert response.responses == []


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_holds_what_changed_and_what_has_records_comes_last_the_next_time(raw: Raw, topic: Topic, version: int) -> None:
    session, name = Session(talk(raw), version, topic), topic.name
    assert list(session.fetch(all_of(topic))) == [(name, 0), (name, 1), (name, 2)]
    assert session.fetch() == {}
    put(raw, topic, 2, 0)
    new = Told(0, 1, 0, ONE)
    assert list(session.fetch().items()) == [((name, 0), new), ((name, 2), new)]
    put(raw, topic, 1)
    assert list(session.fetch().items()) == [((name, 1), new), ((name, 0), new), ((name, 2), new)]
    assert list(session.fetch([Wanted(topic, 0, 1)])) == [(name, 1), (name, 2)]
    assert [list(session.fetch(max_bytes=10)) for _ in range(3)] == [[(name, 1)], [(name, 2)], [(name, 1)]]
    assert session.fetch([Wanted(topic, 1, 1), Wanted(topic, 2, 1)]) == {}
    assert session.fetch() == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_errors_are_told_each_time_and_the_partition_again_when_they_are_over(raw: Raw, topic: Topic, version: int) -> None:
    session = Session(talk(raw), version, topic)
    session.fetch(all_of(topic))
    out_of_range = {(topic.name, 1): Told(OFFSET_OUT_OF_RANGE, -1, -1, 0)}
    assert session.fetch([Wanted(topic, 1, 99)]) == out_of_range
    assert session.fetch() == out_of_range
    assert session.fetch([Wanted(topic, 1, 0)]) == {(topic.name, 1): Told(0, 0, 0, 0)}
    assert session.fetch([Wanted(topic, 1, 0, -5)]) == {}
    nowhere = {(topic.name, 9): Told(UNKNOWN_TOPIC_OR_PARTITION, -1, -1, 0)}
    assert session.fetch([Wanted(topic, 9)]) == nowhere
    assert session.fetch() == nowhere
    assert session.fetch(forgotten=[Wanted(topic, 9), Wanted(topic, 5)]) == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_forgotten_partitions_are_told_no_more_and_without_any_the_session_ends(raw: Raw, topic: Topic, version: int) -> None:
    ask = talk(raw)
    session = Session(ask, version, topic)
    session.fetch(all_of(topic))
    assert session.fetch([Wanted(topic, 1)], [Wanted(topic, 1)]) == {}
    put(raw, topic, 1)
    assert session.fetch() == {}
    assert session.fetch([Wanted(topic, 1, 1)]) == {(topic.name, 1): Told(0, 1, 0, 0)}
    assert session.fetch([Wanted(topic, 1, 0), Wanted(topic, 1, 1)]) == {}
    over = ask(FETCH, version, session.body(forgotten=all_of(topic)))
    assert (over.error_code, over.session_id, over.responses) == (0, 0, [])
    assert ask(FETCH, version, session.body()).error_code == FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_may_begin_without_partitions_and_ignores_what_its_first_request_forgets(
    raw: Raw, topic: Topic, version: int
) -> None:
    put(raw, topic, 1)
    session = Session(talk(raw), version, topic)
    assert session.fetch() == {}
    assert session.fetch([Wanted(topic, 1)]) == {(topic.name, 1): Told(0, 1, 0, ONE)}
    another = Session(talk(raw), version, topic)
    assert list(another.fetch([Wanted(topic, 1)], [Wanted(topic, 1)])) == [(topic.name, 1)]


@pytest.mark.parametrize(("version", "other"), [(12, 13), (18, 7)])
def test_a_session_by_names_is_not_one_by_ids(raw: Raw, topic: Topic, version: int, other: int) -> None:
    ask = talk(raw)
    session = Session(ask, version, topic)
    session.fetch(all_of(topic))
    refused = ask(FETCH, other, fetch_request(other, session.session_id, 1))
    assert (refused.error_code, refused.session_id) == (FETCH_SESSION_TOPIC_ID_ERROR, 0)
    session.version = 7 if version < 13 else 13
    assert session.fetch() == {}


@pytest.mark.parametrize("version", [NAMES, IDS])
def test_a_topic_that_goes_and_comes_again_is_another_one_by_id_and_the_same_by_name(raw: Raw, topic: Topic, version: int) -> None:
    ask = talk(raw)
    put(raw, topic, 0, 1, 2)
    session = Session(ask, version, topic)
    session.fetch(all_of(topic, 1))
    assert session.fetch() == {}
    delete_topic(ask, topic.name)
    eventually(lambda: {part.error_code for part in session.fetch().values()} == {UNKNOWN_TOPIC_OR_PARTITION})
    anew = eventually_made(raw, topic.name)
    known(raw, anew)
    session.topics = (topic, anew)
    code = OFFSET_OUT_OF_RANGE if version < 13 else INCONSISTENT_TOPIC_ID
    assert list(session.fetch().values()) == [Told(code, -1, -1, 0)] * 3
    assert Told(0, 0, 0, 0) in session.fetch([Wanted(anew, 0)]).values()


def eventually_made(raw: Raw, name: str) -> Topic:
    """Make a topic under a name that another one had until just now."""
    made: list[Topic] = []

    def make() -> bool:
        try:
            made.append(create_topic(talk(raw), name, 3))
        except AssertionError:
            return False
        return True

    eventually(make)
    return made[0]


@contextmanager
def waiting(peer: Peer, session: Session) -> Iterator[Callable[[], FetchResponse]]:
    """The session's next request waits for records on a connection of its own; what is yielded reads its answer."""
    with Raw(peer.address, timeout_s=30) as raw, Raw(peer.address, timeout_s=30) as probing:
        body = session.body(max_wait_ms=20_000)
        raw.send(b"".join(bytes(part) for part in encode_request(FrameHeader(FETCH, session.version, 1, "test"), body)))
        other = IDS if session.version == NAMES else NAMES
        probe = fetch_request(other, session.session_id, session.epoch)  # refused for its kind once its epoch is the next one
        eventually(lambda: talk(probing)(FETCH, other, probe).error_code == FETCH_SESSION_TOPIC_ID_ERROR)
        yield lambda: cast(FetchResponse, decode_response(FETCH, session.version, raw.frame())[1])


@pytest.mark.parametrize("version", [NAMES, IDS])
def test_partitions_of_which_nobody_knows_are_told_and_do_not_end_the_wait(
    peer: Peer, raw: Raw, topic: Topic, version: int
) -> None:
    code = UNKNOWN_TOPIC_OR_PARTITION if version < 13 else UNKNOWN_TOPIC_ID
    session = Session(talk(raw), version, topic, NOBODYS)
    missing = {(NOBODYS.name, 0): Told(code, -1, -1, 0)}
    assert session.fetch([Wanted(NOBODYS, 0), Wanted(topic, 0)]) == {**missing, (topic.name, 0): Told(0, 0, 0, 0)}
    with waiting(peer, session) as answer:
        put(raw, topic, 0)
        assert told(answer(), topic, NOBODYS) == {**missing, (topic.name, 0): Told(0, 1, 0, ONE)}
    assert session.fetch([], [Wanted(topic, 0)], max_wait_ms=20_000) == missing


@pytest.mark.parametrize("version", [NAMES, IDS])
def test_a_session_goes_on_from_another_connection_and_what_waited_with_it_is_told_so(
    peer: Peer, raw: Raw, topic: Topic, version: int
) -> None:
    session = Session(talk(raw), version, topic)
    session.fetch(all_of(topic))
    with waiting(peer, session) as answer:
        assert session.fetch() == {}
        put(raw, topic, 1)
        late = answer()
    assert (late.error_code, late.session_id, late.responses) == (INVALID_FETCH_SESSION_EPOCH, session.session_id, [])
    assert session.fetch() == {(topic.name, 1): Told(0, 1, 0, ONE)}
