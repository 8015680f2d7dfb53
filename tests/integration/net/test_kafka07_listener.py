"""A listener of Kafka 0.7 on real sockets: answers in order, bad input, and what it cannot be."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.broker.settings import BrokerSettings
from ottla.errors import SettingError
from ottla.kafka07.net.registration import check
from ottla.kafka07.records.messages import message_set
from ottla.kafka07.wire import FetchRequest07, MultiFetchRequest07, OffsetsRequest07, ProduceRequest07
from ottla.net.server.listeners import Listen
from ottla.net.startup.start import with_protocol
from ottla.testing import BrokerProcess
from tests.integration.net.test_connecting import on_its_thread, server_of
from tests.support.client07 import Client07, framed

HELLO = message_set([b"hello"])
FETCH = FetchRequest07("t", 0, 0, 1000)


@pytest.fixture(scope="module")
def broker() -> Iterator[ottla.Broker]:
    with ottla.Broker(release="0.7.2") as broker:
        with Client07(broker.address) as client:
            client.produce("t", HELLO)
            assert client.fetch("t") == (0, HELLO)
        yield broker


@pytest.fixture
def bystander(broker: ottla.Broker) -> Iterator[Client07]:
    """Somebody else's connection, which has to go on."""
    with Client07(broker.address) as client:
        yield client
        assert client.fetch("t") == (0, HELLO)


def closings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "closed the connection" in record.getMessage()]


def test_answers_come_in_the_order_of_the_requests(broker: ottla.Broker) -> None:
    with Client07(broker.address) as client:
        latest = OffsetsRequest07("t", 0, -1, 1)
        client.send(FETCH, ProduceRequest07("other", 0, HELLO), latest, MultiFetchRequest07([FETCH]), FETCH)
        assert client.answer() == b"\0\0" + HELLO
        assert client.answer() == struct.pack(">hiq", 0, 1, len(HELLO))
        assert client.answer() == b"\0\0" + struct.pack(">ih", 2 + len(HELLO), 0) + HELLO
        assert client.answer() == b"\0\0" + HELLO


def test_what_was_produced_is_fetched_on_the_same_connection_at_once(broker: ottla.Broker) -> None:
    with Client07(broker.address) as client:
        for count in range(5):
            client.produce("again", HELLO)
            assert client.fetch("again", count * len(HELLO)) == (0, HELLO)


def test_a_name_with_a_line_break_forges_no_line_of_the_log(broker: ottla.Broker, caplog: pytest.LogCaptureFixture) -> None:
    with Client07(broker.address) as client:
        client.send(ProduceRequest07("a\nERROR forged", 0, HELLO))
        assert client.is_hung_up_on()
    (line,) = closings(caplog)
    assert "forged" in line
    assert len(line.splitlines()) == 1


def test_what_a_producer_sends_before_it_hangs_up_is_taken(broker: ottla.Broker) -> None:
    with Client07(broker.address) as client:
        client.send(*[ProduceRequest07("hung-up", 0, HELLO)] * 50)
        client.socket.shutdown(socket.SHUT_WR)
        assert client.is_hung_up_on(), "all is served before it is closed"
    with Client07(broker.address) as client:
        assert client.read("hung-up") == HELLO * 50


@pytest.mark.parametrize(
    "bad",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 0),
        struct.pack(">ih", 2, 5),
        struct.pack(">ih", 2, -1),
        framed(FetchRequest07("t", 0, 0, -1)),
        framed(OffsetsRequest07("t", 0, -1, -1)),
        framed(OffsetsRequest07("t", 7, -1, 1)),
        framed(ProduceRequest07("t", 7, HELLO)),
        framed(ProduceRequest07("t", 0, HELLO[:-1] + b"!")),
        framed(ProduceRequest07("t", 0, HELLO[:-1])),
        struct.pack(">ihh1sii", 13, 0, 1, b"t", 0, 2**31 - 1),
        struct.pack(">ihh", 4, 2, -1),
        framed(FETCH)[:3] + bytes([framed(FETCH)[3] - 1]) + framed(FETCH)[4:-1],
    ],
)
def test_bad_input_ends_its_connection_with_one_line_and_hurts_nobody(
    broker: ottla.Broker, bystander: Client07, bad: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with Client07(broker.address) as client:
        client.socket.sendall(bad)
        assert client.is_hung_up_on()
    assert len(closings(caplog)) <= 1, "others of the kind may have been told this second"
    assert broker.unexpected == 0


def test_half_a_frame_is_waited_for_and_forgotten_with_its_client(
    broker: ottla.Broker, bystander: Client07, caplog: pytest.LogCaptureFixture
) -> None:
    frame = framed(ProduceRequest07("half", 0, HELLO))
    with Client07(broker.address) as client:
        client.socket.sendall(frame[:9])
        assert bystander.fetch("t") == (0, HELLO)
        client.socket.sendall(frame[9:])
        assert client.fetch("half") == (0, HELLO)
        client.socket.sendall(frame[:9])
    assert bystander.fetch("half") == (0, HELLO)
    assert closings(caplog) == []


@pytest.mark.parametrize("offset", [-1, len(HELLO) + 1, 2**62, 2**63 - 1, -(2**63)])
def test_offsets_outside_of_the_log_are_out_of_range(broker: ottla.Broker, offset: int) -> None:
    with Client07(broker.address) as client:
        assert client.fetch("t", offset) == (1, b"")
        assert client.fetch("t") == (0, HELLO), "the connection goes on"


def test_an_offset_inside_of_a_message_gives_its_bytes_from_there(broker: ottla.Broker) -> None:
    with Client07(broker.address) as client:
        for offset in range(len(HELLO) + 1):
            assert client.fetch("t", offset) == (0, HELLO[offset:])
            assert client.fetch("t", offset, max_bytes=3) == (0, HELLO[offset : offset + 3])


def test_a_connection_is_kept_however_long_nothing_comes() -> None:
    with ottla.Broker(release="0.7", connections_max_idle_ms=0) as broker, Client07(broker.address) as client:
        assert client.fetch("t") == (0, b"")
        on_its_thread(broker, server_of(broker)._close_idle)
        client.produce("t", HELLO)
        assert client.fetch("t") == (0, HELLO)


def test_a_broker_of_its_own_process_can_be_one_of_0_7(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, release="0.7.2") as process, Client07(process.address) as client:
        client.produce("t", HELLO)
        assert client.fetch("t") == (0, HELLO)


def refused(text: str, **settings: str) -> str:
    given = BrokerSettings.parse({name.replace("_", "."): value for name, value in settings.items()})
    with pytest.raises(SettingError) as caught:
        check([with_protocol(Listen.parse(text), given)], given)
    return str(caught.value)


def test_a_listener_whose_clients_cannot_log_in_is_refused() -> None:
    said = refused("127.0.0.1:0,release=0.7,security=SASL_PLAINTEXT")
    assert said.startswith("Listener SASL_PLAINTEXT has release 0.7 and SASL_PLAINTEXT")
    check([with_protocol(Listen.parse("127.0.0.1:0,release=0.7,security=SSL"), BrokerSettings())], BrokerSettings())


def test_brokers_of_a_cluster_cannot_speak_0_7_to_each_other() -> None:
    said = refused("127.0.0.1:0,release=0.7", zookeeper_connect="zk:2181", inter_broker_listener_name="RELEASE_0_7")
    assert "no requests between brokers" in said


def test_a_zookeeper_for_clients_of_0_7_needs_a_listener_for_them() -> None:
    assert "no listener is Kafka 0.7" in refused("127.0.0.1:0", ottla_kafka07_zookeeper_connect="zk:2181/old")


def test_a_zookeeper_for_clients_of_0_7_needs_a_path_of_its_own() -> None:
    old = "127.0.0.1:0,release=0.7"
    said = refused(old, ottla_kafka07_zookeeper_connect="zookeeper://zk:2181/a/", zookeeper_connect="zk/a")
    assert "use another path" in said
    given = {"ottla.kafka07.zookeeper.connect": "zk:2181/a", "zookeeper.connect": "zk:2181/b"}
    check([with_protocol(Listen.parse(old), BrokerSettings())], BrokerSettings.parse(given))


def test_a_broker_at_every_address_needs_one_to_tell(tmp_path: Path) -> None:
    pytest.importorskip("kazoo", reason="kazoo is absent: pip install 'ottla[zookeeper]'")
    connect = "127.0.0.1:1/old"
    broker = ottla.Broker(str(tmp_path), host="0.0.0.0", release="0.7", ottla_kafka07_zookeeper_connect=connect)
    with pytest.raises(SettingError, match="clients need a specific one"):
        broker.start()
