"""Each request of 0.7 and what answers it, byte for byte, over a socket; and what closes the connection."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence

import pytest

from ottla.kafka07 import wire as kafka07
from ottla.kafka07.records.messages import message_set
from tests.old.kafka07 import today
from tests.old.kafka07.conftest import Listeners07
from tests.support.exchanges07 import EXCHANGES, REFUSED, Exchange, Refused

PATIENCE_S = 60
TOPICS = ("dogs", "cats", "wolf", "mice")


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE_S)


def received(connection: socket.socket, size: int) -> bytes:
    """This many bytes, or those that came before the end."""
    found = b""
    while len(found) < size and (chunk := connection.recv(size - len(found))):
        found += chunk
    return found


def answer(connection: socket.socket) -> bytes:
    """A frame, with its size."""
    head = received(connection, 4)
    return head + (received(connection, struct.unpack(">i", head)[0]) if len(head) == 4 else b"")


def is_open(connection: socket.socket) -> bool:
    """Whether an OFFSETS request is answered."""
    try:
        connection.sendall(bytes.fromhex(EXCHANGES[2].request))
        return answer(connection) != b""
    except ConnectionError:
        return False


def other_topics(conversation: Sequence[Exchange], last: str) -> list[Exchange]:
    """The same conversation about topics whose names end otherwise, which are as new as the first ones were."""
    return [Exchange(what, renamed(request, last), given) for what, request, given in conversation]


def renamed(request: str, last: str) -> str:
    """The same request about topics whose names end otherwise."""
    for name in TOPICS:
        request = request.replace(name.encode().hex(), (name[:-1] + last).encode().hex())
    return request


def test_each_exchange_of_a_conversation_is_as_it_was_byte_for_byte(listeners: Listeners07) -> None:
    with connect(listeners.old) as connection:
        for exchange in EXCHANGES:
            connection.sendall(bytes.fromhex(exchange.request))
            if exchange.answer:
                assert (exchange.what, answer(connection).hex()) == (exchange.what, exchange.answer.replace(" ", ""))


def test_requests_that_are_sent_without_waiting_are_answered_in_their_order(listeners: Listeners07) -> None:
    conversation = other_topics(EXCHANGES, "1")
    with connect(listeners.old) as connection:
        connection.sendall(b"".join(bytes.fromhex(exchange.request) for exchange in conversation))
        given = [answer(connection).hex() for exchange in conversation if exchange.answer]
    assert given == [exchange.answer.replace(" ", "") for exchange in conversation if exchange.answer]


def test_a_conversation_that_comes_byte_by_byte_is_the_same(listeners: Listeners07) -> None:
    with connect(listeners.old) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for exchange in other_topics(EXCHANGES, "2")[:12]:
            for byte in bytes.fromhex(exchange.request):
                connection.sendall(bytes((byte,)))
            if exchange.answer:
                assert answer(connection).hex() == exchange.answer.replace(" ", "")


@pytest.fixture(scope="module")
def dogs(listeners: Listeners07) -> Listeners07:
    """A broker that knows the topic `dog3`, about which `dogs` are asked here: the conversation begins without that."""
    with connect(listeners.old) as connection:
        connection.sendall(bytes.fromhex(renamed(EXCHANGES[0].request, "3")))
        assert is_open(connection)
    return listeners


@pytest.mark.parametrize("refused", REFUSED, ids=lambda refused: refused.what)
def test_what_no_answer_exists_for_closes_its_connection_with_one_line_in_the_log(refused: Refused, dogs: Listeners07) -> None:
    said = lines_upon(refused, dogs)
    if not said:  # the log says the same once a second
        time.sleep(1.1)
        said = lines_upon(refused, dogs)
    assert len(said) == 1, said
    assert "closed the connection" in said[0]


def lines_upon(refused: Refused, dogs: Listeners07) -> list[str]:
    """What the broker's log says when it closes a connection, which leaves others alone."""
    with connect(dogs.old) as other, connect(dogs.old) as connection:
        assert is_open(other)
        before = dogs.broker.log.count("\n")
        connection.sendall(bytes.fromhex(renamed(refused.request, "3")))
        assert received(connection, 1) == b""
        assert is_open(other)
    return dogs.broker.log.split("\n")[before:-1]


def test_entries_before_a_bad_one_are_kept_and_nothing_of_the_bad_one_is(dogs: Listeners07) -> None:
    (bad,) = (refused for refused in REFUSED if "second entry" in refused.what)
    with connect(dogs.old) as connection:
        connection.sendall(bytes.fromhex(renamed(bad.request, "3")))
        assert received(connection, 1) == b""
    assert today.read(dogs.today, "good", 1) == ["hello"]
    with connect(dogs.old) as connection:
        connection.sendall(whole_fetch("bad"))
        assert answer(connection).hex() == "000000020000"


def whole_fetch(topic: str) -> bytes:
    """A FETCH of partition 0 from its start."""
    body = kafka07.encode_request(kafka07.FetchRequest07(topic, 0, 0, 1 << 20))
    return struct.pack(">i", len(body)) + body


def test_half_a_frame_and_then_nothing_harms_nobody(dogs: Listeners07) -> None:
    request = bytes.fromhex(EXCHANGES[9].request)
    with connect(dogs.old) as half, connect(dogs.old) as whole:
        half.sendall(request[:11])
        assert is_open(whole)
        half.shutdown(socket.SHUT_WR)
        assert received(half, 1) == b""
        assert is_open(whole)


def test_a_message_that_is_too_large_is_dropped_and_the_connection_stays(dogs: Listeners07) -> None:
    """So did 0.7.2, with a warning; the default of `max.message.size` was 1 000 000."""
    large = message_set([bytes(2_000_000)])
    body = kafka07.encode_request(kafka07.ProduceRequest07("large", 0, large))
    with connect(dogs.old) as connection:
        connection.sendall(struct.pack(">i", len(body)) + body + whole_fetch("large"))
        assert answer(connection).hex() == "000000020000"
    assert "large" in dogs.broker.log
