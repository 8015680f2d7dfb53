"""Two ends joined by a fake link: the client's connection, and a broker made of `ottla.wire` alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.connection.connection import Answer, ClientConnection
from ottla.client.connection.versions import API_VERSIONS, FETCH, METADATA, PRODUCE, SPOKEN, negotiate
from ottla.client.errors import BrokerError, ConnectionFailed, NotSupported, SettingError
from ottla.ports import Part
from ottla.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.api.delete_topics import DeleteTopicsRequest
from ottla.wire.api.fetch import FetchRequest
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.metadata import MetadataRequest, MetadataResponse
from ottla.wire.apis import API
from ottla.wire.errors import CLUSTER_AUTHORIZATION_FAILED, UNSUPPORTED_VERSION
from ottla.wire.framing import decode_request, encode_response
from ottla.wire.schema import Message

DELETE_TOPICS = 20


def join(parts: list[Part]) -> bytes:
    return b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]  # no file slices in tests


def serve(sent: bytes, answers: Callable[[int, int, Message], tuple[int, Message]]) -> bytes:
    """What a broker writes for the frames in `sent`; `answers(key, version, body)` gives the version and body of the answer."""
    out, at = b"", 0
    while at < len(sent):
        size = int.from_bytes(sent[at : at + 4], "big")
        header, body = decode_request(sent[at + 4 : at + 4 + size])
        version, answer = answers(header.api_key, header.api_version, body)
        out += join(encode_response(header.correlation_id, header.api_key, version, answer))
        at += 4 + size
    return out


def versions(**ranges: tuple[int, int]) -> ApiVersionsResponse:
    keys = {api.name: key for key, api in API.items()}
    return ApiVersionsResponse(
        api_keys=[
            ApiVersionsResponse.ApiVersion(api_key=keys[name], min_version=low, max_version=high)
            for name, (low, high) in ranges.items()
        ]
    )


def feed(connection: ClientConnection, data: bytes, step: int = 1 << 20) -> list[Answer]:
    found = []
    for at in range(0, len(data), step):
        part = data[at : at + step]
        connection.buffer()[: len(part)] = part
        found += connection.receive(len(part))
    return found


def greeted(served: ApiVersionsResponse) -> ClientConnection:
    connection = ClientConnection("test")
    reply = serve(join(connection.hello("hello")), lambda key, version, body: (version, served))
    [answer] = feed(connection, reply)
    assert answer.token == "hello"
    assert connection.receive_versions(answer.body)
    return connection


def record(seen: list[tuple[int, Message]], reply: Message) -> Callable[[int, int, Message], tuple[int, Message]]:
    """Answers `reply`, and notes version and body of what was asked."""

    def answers(key: int, version: int, body: Message) -> tuple[int, Message]:
        seen.append((version, body))
        return version, reply

    return answers


def test_the_hello_names_this_client() -> None:
    seen: list[tuple[int, Message]] = []
    serve(join(ClientConnection("test").hello("hello")), record(seen, versions()))
    [(_, body)] = seen
    assert isinstance(body, ApiVersionsRequest)
    assert body.client_software_name == "ottla"


def test_requests_go_out_in_the_highest_version_that_both_speak() -> None:
    connection = greeted(versions(Metadata=(0, 9), Produce=(0, 99)))
    assert connection.versions == {METADATA: 9, PRODUCE: SPOKEN[PRODUCE][1]}
    seen: list[tuple[int, Message]] = []
    serve(join(connection.send(MetadataRequest(), 1)), record(seen, MetadataResponse()))
    assert [version for version, _ in seen] == [9]


def test_an_api_that_is_not_shared_is_a_clear_error() -> None:
    connection = greeted(versions(Metadata=(0, 9), Fetch=(99, 100)))
    with pytest.raises(NotSupported, match="no version of Fetch between 0 and"):
        connection.send(FetchRequest(), 1)


@pytest.mark.parametrize("version", [5, 6])
def test_an_argument_that_no_broker_takes_is_named_and_no_broker_is_called_old(version: int) -> None:
    connection = greeted(versions(DeleteTopics=(0, version)))
    with pytest.raises(SettingError, match=r"topic(_names\[0\]|s\[0\]\.name) must be a str, not list\.$"):
        connection.send(DeleteTopicsRequest(topic_names=[["t"]]), 1)  # type: ignore[list-item]  # as a caller may


def test_what_a_newer_broker_takes_has_the_broker_called_old() -> None:
    connection = greeted(versions(DeleteTopics=(0, 5)))
    wanted = DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(topic_id=bytes(range(16)))])
    with pytest.raises(NotSupported, match="too old"):
        connection.send(wanted, 1)


def test_the_release_is_named_that_first_takes_what_the_broker_does_not() -> None:
    connection = greeted(versions(JoinGroup=(0, 4)))
    with pytest.raises(NotSupported, match=r"too old for this request \(JoinGroupRequest v4, .*\): use Kafka 2\.3 or newer\.$"):
        connection.send(JoinGroupRequest(group_id="g", group_instance_id="i"), 1)


def test_a_broker_too_old_for_the_hello_is_asked_again_in_version_0() -> None:
    connection = ClientConnection("test")
    refusal = ApiVersionsResponse(error_code=UNSUPPORTED_VERSION)
    [answer] = feed(connection, serve(join(connection.hello(1)), lambda key, version, body: (0, refusal)))
    assert not connection.receive_versions(answer.body)
    again = serve(join(connection.hello(2, version=0)), lambda key, version, body: (version, versions(Metadata=(0, 4))))
    [answer] = feed(connection, again)
    assert connection.receive_versions(answer.body)
    assert connection.versions == {METADATA: 4}


def test_a_refusal_to_say_versions_is_raised() -> None:
    with pytest.raises(BrokerError, match="CLUSTER_AUTHORIZATION_FAILED"):
        ClientConnection("test").receive_versions(ApiVersionsResponse(error_code=CLUSTER_AUTHORIZATION_FAILED))


@given(st.integers(1, 40), st.integers(1, 60))
def test_pipelined_answers_reach_the_requests_they_belong_to(count: int, step: int) -> None:
    connection = greeted(versions(Metadata=(0, 12)))
    sent = b"".join(join(connection.send(MetadataRequest(topics=[]), token)) for token in range(count))
    numbers = iter(range(count))
    reply = serve(sent, lambda key, version, body: (version, MetadataResponse(cluster_id=str(next(numbers)))))
    answers = feed(connection, reply, step)
    assert [(answer.token, answer.body.cluster_id) for answer in answers] == [(token, str(token)) for token in range(count)]
    assert not connection.unanswered


def test_an_answer_that_nobody_asked_for_ends_the_connection() -> None:
    connection = greeted(versions())
    with pytest.raises(ConnectionFailed, match="without a request"):
        feed(connection, join(encode_response(7, API_VERSIONS, 0, versions())))


def test_an_answer_out_of_order_ends_the_connection() -> None:
    connection = greeted(versions(Metadata=(0, 12)))
    connection.send(MetadataRequest(), 1)
    with pytest.raises(ConnectionFailed, match="instead of"):
        feed(connection, join(encode_response(99, METADATA, 12, MetadataResponse())))


def test_an_unreadable_answer_ends_the_connection() -> None:
    connection = greeted(versions(Metadata=(0, 12)))
    connection.send(MetadataRequest(), 1)
    with pytest.raises(ConnectionFailed, match="cannot be decoded"):
        feed(connection, (20).to_bytes(4, "big") + b"\xff" * 20)


def test_versions_without_overlap_are_not_shared() -> None:
    assert negotiate([(METADATA, 98, 99), (FETCH, 99, 100)]) == {}
