"""TLS listeners: who is let in, that bytes come through whole, and that a renewed certificate is taken."""

from __future__ import annotations

import asyncio
import os
import re
import select
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.broker.settings import BrokerSettings, SecurityProtocol
from ottla.net.server.listeners import Listen
from ottla.net.startup.start import start
from ottla.wire.api.describe_configs import DescribeConfigsRequest
from ottla.wire.api.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.wire.errors import INVALID_REQUEST, NONE
from tests.support.bad_groups import Questioner
from tests.support.frames import API_VERSIONS, FETCH, array, request, string
from tests.support.tls_broker import HOST, TlsBroker
from tests.support.waiting import eventually

ASK = request(API_VERSIONS, 0, 7)


@pytest.fixture(scope="module")
def tls_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    broker = TlsBroker(tmp_path_factory.mktemp("tls"))
    with broker.process:
        yield broker


def answer(secure: socket.socket) -> bytes:
    """One whole reply, without its size."""
    data = b""
    while len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0]:
        got = secure.recv(1 << 16)
        assert got, "closed without an answer"
        data += got
    return data[4:]


def is_answered(secure: socket.socket) -> bool:
    secure.sendall(ASK)
    return answer(secure).startswith(struct.pack(">i", 7))


def refusal(broker: TlsBroker, listener: str, context: ssl.SSLContext | None = None) -> str:
    """Why a client is not served; TLS 1.3 tells a client only when it reads that its certificate is refused."""
    with pytest.raises(ssl.SSLError) as refused, broker.connect(listener, context) as secure:
        secure.recv(1)
    return str(refused.value)


def settings(broker: TlsBroker, listener: str) -> dict[str, str]:
    return {"bootstrap.servers": broker.address(listener), "security.protocol": "SSL", "ssl.ca.location": str(broker.trusted)}


def test_records_come_back_as_they_were_sent_however_large(tls_broker: TlsBroker) -> None:
    sent = [os.urandom(size) for size in (1, 1000, 16_383, 16_384, 16_385, 300_000, 900_000)] * 3
    producer = Producer(settings(tls_broker, "SSL"))
    for value in sent:
        producer.produce("whole", value, partition=0)
    assert producer.flush(60) == 0
    consumer = Consumer(settings(tls_broker, "SSL") | {"group.id": "whole", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition("whole", 0, 0)])
    got: list[bytes | None] = []
    while len(got) < len(sent):
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
        got.append(message.value())
    consumer.close()
    assert got == sent


@pytest.mark.rows(2, seconds=1)
@pytest.mark.parametrize(
    ("listener", "shows"), [("SSL", False), ("SSL", True), ("ASKED", False), ("ASKED", True), ("MUTUAL", True)]
)
def test_who_shows_what_is_asked_for_is_served(tls_broker: TlsBroker, listener: str, shows: bool) -> None:
    with tls_broker.connect(listener, tls_broker.trusting(shows=shows)) as secure:
        assert is_answered(secure)


def test_who_shows_no_certificate_or_a_strangers_is_not_served(
    tls_broker: TlsBroker, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert "certificate required" in refusal(tls_broker, "MUTUAL").lower()
    stranger = TlsBroker(tmp_path_factory.mktemp("stranger"))
    context = tls_broker.trusting()
    context.load_cert_chain(stranger.client)
    for listener in ("MUTUAL", "ASKED"):
        assert "unknown ca" in refusal(tls_broker, listener, context).lower()


def test_a_listener_speaks_the_versions_and_suites_that_it_is_told(tls_broker: TlsBroker) -> None:
    with tls_broker.connect("SSL") as secure:
        assert secure.version() == "TLSv1.3"
    with tls_broker.connect("OLDER") as secure:
        assert (secure.version(), (secure.cipher() or ("",))[0]) == ("TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384")
    context = tls_broker.trusting()
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    assert "protocol version" in refusal(tls_broker, "OLDER", context).lower()


def test_who_speaks_no_tls_is_refused_and_others_are_served(tls_broker: TlsBroker) -> None:
    for said in (ASK, b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\xff\xff" + bytes(70_000), os.urandom(500)):
        with socket.create_connection((HOST, tls_broker.ports["SSL"]), timeout=60) as plain, suppress(OSError):
            plain.sendall(said)
            plain.shutdown(socket.SHUT_WR)
            while plain.recv(4096):
                pass
    with tls_broker.connect("SSL") as secure:
        assert is_answered(secure)


def test_frames_may_come_a_byte_in_each_record_and_many_in_one(tls_broker: TlsBroker) -> None:
    with tls_broker.connect("SSL") as secure:
        for at in range(len(ASK)):
            secure.send(ASK[at : at + 1])
        size = 4 + len(answer(secure))
        secure.sendall(ASK * 2000)
        got = 0
        while got < 2000 * size:
            got += len(secure.recv(1 << 16))
        assert got == 2000 * size


def test_who_says_that_it_sends_no_more_is_answered_still(tls_broker: TlsBroker) -> None:
    pipes = ssl.MemoryBIO(), ssl.MemoryBIO()
    secure = tls_broker.trusting().wrap_bio(*pipes, server_hostname=HOST)
    with socket.create_connection((HOST, tls_broker.ports["SSL"]), timeout=60) as plain:
        while True:
            try:
                secure.do_handshake()
                break
            except ssl.SSLWantReadError:
                plain.sendall(pipes[1].read())
                pipes[0].write(plain.recv(1 << 16))
        secure.write(ASK)
        with pytest.raises(ssl.SSLWantReadError):
            secure.unwrap()  # close_notify, and the other side's is not there yet
        plain.sendall(pipes[1].read())
        plain.shutdown(socket.SHUT_WR)
        while got := plain.recv(1 << 16):
            pipes[0].write(got)
        assert secure.read(1 << 16)[4:8] == struct.pack(">i", 7)


def fetch_all(topic: str) -> bytes:
    partition = struct.pack(">iqi", 0, 0, 1 << 20)
    return request(FETCH, 4, 9, struct.pack(">iiiib", -1, 0, 1, 1 << 20, 0) + array(string(topic) + array(partition)))


def test_who_does_not_take_its_replies_costs_little_and_gets_all_of_them_at_last(tls_broker: TlsBroker) -> None:
    producer = Producer(settings(tls_broker, "SSL"))
    for _ in range(20):
        producer.produce("slow", os.urandom(50_000), partition=0)
    assert producer.flush(60) == 0
    times = 100
    with tls_broker.connect("SSL") as secure, tls_broker.connect("SSL") as other:
        secure.sendall(fetch_all("slow") * times)
        assert all(is_answered(other) for _ in range(50))
        replies, data = 0, b""
        while replies < times:
            got = secure.recv(1 << 20)
            assert got
            data += got
            while len(data) >= 4 and len(data) >= 4 + struct.unpack_from(">i", data)[0]:
                (size,) = struct.unpack_from(">i", data)
                assert size > 900_000
                data, replies = data[4 + size :], replies + 1
        assert not data


def test_thousands_who_begin_a_handshake_and_stop_are_given_up_and_others_are_served(tls_broker: TlsBroker) -> None:
    with ExitStack() as held:
        halves = list[socket.socket]()
        for number in range(1500):
            half = held.enter_context(socket.create_connection((HOST, tls_broker.ports["SSL"]), timeout=60))
            halves.append(half)
            if number % 2:
                half.sendall(b"\x16\x03\x01\x02\x00\x01")
            if number % 100 == 0:
                with tls_broker.connect("SSL") as secure:
                    assert is_answered(secure)
        first = halves[: len(halves) - 1000]
        eventually(lambda: len(select.select(first, [], [], 0)[0]) >= len(first) - 20, timeout_s=60)
        with tls_broker.connect("SSL") as secure:
            assert is_answered(secure)


def test_a_renewed_certificate_is_taken_and_a_wrong_one_is_not(tls_broker: TlsBroker) -> None:
    with tls_broker.connect("SSL") as earlier:
        renewed = tls_broker.renew()
        eventually(lambda: tls_broker.shown() == renewed, timeout_s=60)
        assert is_answered(earlier)
        log_bytes = len(tls_broker.process.log)
        tls_broker.store.write_text("nothing of the kind")
        eventually(lambda: "listener SSL keeps its previous certificates: " in tls_broker.process.log[log_bytes:], timeout_s=60)
        assert f"ssl.keystore.location={tls_broker.store}" in tls_broker.process.log[log_bytes:]
        assert tls_broker.shown() == renewed
        again = tls_broker.renew()
        eventually(lambda: tls_broker.shown() == again, timeout_s=60)


KEY_STORE = "listener.name.asked.ssl.keystore.location"
BROKER, DESCRIBE, ALTER = 4, 32, 44


def changed(questioner: Questioner, name: str, value: str) -> tuple[int, str]:
    """The error code and the sentence of a change of a setting of the broker."""
    config = IncrementalAlterConfigsRequest.AlterableConfig(name=name, config_operation=0, value=value)
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=[config])
    (result,) = questioner.ask(ALTER, 1, IncrementalAlterConfigsRequest(resources=[resource])).responses
    return result.error_code, result.error_message or ""


def test_a_key_store_is_changed_while_the_broker_runs_and_a_wrong_one_is_refused(tls_broker: TlsBroker, tmp_path: Path) -> None:
    before = tls_broker.shown("ASKED")
    with closing(Questioner(tls_broker.process.address)) as questioner:
        code, words = changed(questioner, KEY_STORE, "/nowhere")
        assert (code, words) == (
            INVALID_REQUEST,
            f"{KEY_STORE}=/nowhere cannot be read: No such file or directory; name a readable file.",
        )
        assert changed(questioner, "ssl.keystore.location", "/nowhere")[0] == INVALID_REQUEST
        assert tls_broker.shown("ASKED") == before
        other = tmp_path / "other.pem"
        tls_broker.authority.issue_cert(HOST).private_key_and_cert_chain_pem.write_to_path(str(other))
        assert changed(questioner, KEY_STORE, str(other)) == (NONE, "")
        assert tls_broker.shown("ASKED") not in (before, tls_broker.shown("SSL"))
        assert changed(questioner, "listener.name.asked.ssl.key.password", "very secret") == (NONE, "")
        resource = DescribeConfigsRequest.DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=None)
        (result,) = questioner.ask(DESCRIBE, 4, DescribeConfigsRequest(resources=[resource], include_synonyms=True)).results
    found = {entry.name: (entry.value, entry.is_sensitive) for entry in result.configs}
    assert found[KEY_STORE] == (str(other), False)
    assert found["listener.name.asked.ssl.key.password"] == (None, True)
    assert "very secret" not in str(result) + tls_broker.process.log


def test_the_name_in_a_certificate_is_who_the_client_is(tls_broker: TlsBroker, tmp_path: Path) -> None:
    rules = r"RULE:^CN=(.*?),OU=(.*?),O=Ex\\, ample$/$1@example/U,DEFAULT"
    given = {"ssl.keystore.location": str(tls_broker.store), "ssl.truststore.location": str(tls_broker.trusted)}
    settings = BrokerSettings.parse(
        given | {"ssl.client.auth": "requested", "listener.name.mapped.ssl.principal.mapping.rules": rules}
    )

    async def principals() -> list[str]:
        listen = [Listen(HOST, 0, name, security=SecurityProtocol.SSL) for name in ("MAPPED", "PLAIN")]
        running = await start(str(tmp_path / "data"), listen, settings)
        found = list[str]()
        for where in running.addresses:
            for shows in (True, False):
                tls = tls_broker.trusting(shows=shows)
                reader, writer = await asyncio.open_connection(HOST, where.port, ssl=tls)
                writer.write(ASK)
                await reader.readexactly(8)
                found += [connection.peer.principal for connection in running.server._connections]
                writer.close()
                await writer.wait_closed()
                while running.server._connections:  # noqa: ASYNC110  # the server has its own time to notice
                    await asyncio.sleep(0.01)
        await running.stop()
        return found

    by_rule, nobody, by_name, nobody_there = asyncio.run(principals())
    assert (by_rule, nobody, nobody_there) == ("User:CLIENT@EXAMPLE", "User:ANONYMOUS", "User:ANONYMOUS")
    assert re.fullmatch(r"User:CN=client,OU=Testing cert \\#.*,O=Ex\\, ample", by_name)
