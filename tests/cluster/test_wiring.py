"""Ways between brokers that can be cut in one direction or both."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from ottla.testing.port_forwarding import REGISTRY, UNKNOWN, Wiring, speaker
from tests.support.frames import API_VERSIONS, METADATA, request

PATIENCE_S = 60


@pytest.fixture
def wiring() -> Iterator[Wiring]:
    with Wiring() as wiring:
        yield wiring


@pytest.fixture
def broker() -> Iterator[socket.socket]:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        listener.settimeout(PATIENCE_S)
        yield listener


def lead(wiring: Wiring, broker: socket.socket, target: int, source: int | None = None) -> socket.socket:
    port = wiring.lead(target, *broker.getsockname(), source=source)
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


def accepted(broker: socket.socket) -> socket.socket:
    connection, _ = broker.accept()
    connection.settimeout(PATIENCE_S)
    return connection


def receive(connection: socket.socket, wanted: bytes) -> None:
    data = b""
    while len(data) < len(wanted) and (chunk := connection.recv(65536)):
        data += chunk
    assert data == wanted


@pytest.mark.parametrize(
    ("client_id", "found"),
    [
        ("1", 1),
        ("broker-12-fetcher-0", 12),
        ("broker-3-txn-marker-sender", 3),
        ("AddPartitionsManager-client-2", 2),
        ("rdkafka", UNKNOWN),
        ("broker-x-1", UNKNOWN),
        ("", UNKNOWN),
    ],
)
def test_a_broker_names_itself_in_its_first_request(client_id: str, found: int) -> None:
    frame = request(METADATA, 1, 1, client_id=client_id)
    assert speaker(frame) == found
    assert speaker(frame[:13]) is None


def test_half_a_client_id_names_nobody_yet() -> None:
    frame = request(API_VERSIONS, 0, 1, client_id="broker-1-fetcher-0")
    assert speaker(frame[:20]) is None
    assert speaker(frame[:14] + b"broker-1-fetcher-0") == 1


def test_what_is_sent_while_a_way_is_cut_arrives_when_it_is_mended(wiring: Wiring, broker: socket.socket) -> None:
    frame = request(METADATA, 1, 1, client_id="broker-1-fetcher-0")
    with closing(lead(wiring, broker, 2)) as one:
        one.sendall(frame)
        with closing(accepted(broker)) as two:
            receive(two, frame)
            wiring.cut(1, 2)
            one.sendall(b"held")
            two.sendall(b"answered")
            receive(one, b"answered")  # the other direction is open
            two.settimeout(0.05)
            with pytest.raises(TimeoutError):
                two.recv(1)
            wiring.mend(1, 2)
            two.settimeout(PATIENCE_S)
            receive(two, b"held")


def test_a_connection_made_while_its_way_is_cut_leads_on_when_it_is_mended(wiring: Wiring, broker: socket.socket) -> None:
    wiring.cut(1, REGISTRY)
    with closing(lead(wiring, broker, REGISTRY, source=1)) as one:
        one.sendall(b"hello")
        broker.settimeout(0.05)
        with pytest.raises(TimeoutError):
            broker.accept()
        wiring.mend(1, REGISTRY)
        broker.settimeout(PATIENCE_S)
        with closing(accepted(broker)) as registry:
            receive(registry, b"hello")


def test_the_end_of_one_side_is_the_end_of_the_other(wiring: Wiring, broker: socket.socket) -> None:
    with closing(lead(wiring, broker, 2, source=1)) as one:
        with closing(accepted(broker)) as two:
            two.sendall(b"last")
        receive(one, b"last")
        assert one.recv(1) == b""


def test_a_connection_to_a_broker_that_is_gone_ends(wiring: Wiring, broker: socket.socket) -> None:
    port = wiring.lead(2, *broker.getsockname(), source=1)
    broker.close()
    with closing(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)) as one:
        assert one.recv(1) == b""
