"""Links to other brokers: connections made when they are needed and made anew, with the security of the listener for brokers."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.apache_kafka import free_port
from ottla.broker.interbroker.channels import SYSTEMS
from ottla.broker.settings import BrokerSettings, SettingError, SettingsInForce
from ottla.net.links import BrokerLinks, PeerLink
from ottla.testing import BrokerProcess
from ottla.wire.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.framing import FrameHeader, decode_response, encode_request
from tests.support.secured import HOST, Certificates, plain_users

KEY = 18
LISTENERS = {"MTLS": "SSL", "LOGIN": "SASL_SSL", "SHORT": "SASL_PLAINTEXT"}
SHORT_MS = 1500
BUFFER_BYTES = 20_000
LONG_MS = 30_000


class TheOther:
    """A broker with a listener of each kind, and the settings of one that reaches it there."""

    def __init__(self, home: Path) -> None:
        self.certificates = Certificates(home)
        self.ports = {name: free_port() for name in ("PLAINTEXT", *LISTENERS)}
        self.given = {
            "listener.security.protocol.map": ",".join(f"{name}:{spoken}" for name, spoken in LISTENERS.items())
            + ",PLAINTEXT:PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.certificates.server),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificates.trust_store),
            "listener.name.mtls.ssl.client.auth": "required",
            "listener.name.short.connections.max.reauth.ms": str(SHORT_MS),
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
        }
        login = plain_users({"broker": "secret"}).replace("required", 'required username="broker" password="secret"')
        for name in ("login", "short"):
            self.given[f"listener.name.{name}.sasl.enabled.mechanisms"] = "PLAIN"
            self.given[f"listener.name.{name}.plain.sasl.jaas.config"] = login
        more = [("--listen", f"{HOST}:{self.ports[name]},name={name},security={spoken}") for name, spoken in LISTENERS.items()]
        settings: dict[str, object] = dict(self.given)
        self.process = BrokerProcess(
            home / "data", settings, port=self.ports["PLAINTEXT"], arguments=[word for pair in more for word in pair]
        )


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TheOther]:
    found = TheOther(tmp_path_factory.mktemp("other"))
    with found.process:
        yield found


def tell(call: Callable[[], None]) -> None:
    call()


def links(settings: dict[str, str], listener: str) -> BrokerLinks:
    return BrokerLinks(2, BrokerSettings.parse(settings | {"inter.broker.listener.name": listener}), tell)


def asked(link: PeerLink, number: int = 1, timeout_ms: int = LONG_MS) -> asyncio.Future[memoryview | None]:
    answer: asyncio.Future[memoryview | None] = asyncio.get_running_loop().create_future()
    link.send(encode_request(FrameHeader(KEY, 0, number, "test"), ApiVersionsRequest()), timeout_ms, answer.set_result)
    return answer


def number_of(frame: memoryview | None) -> int:
    assert frame is not None
    number, body = decode_response(KEY, 0, frame)
    assert isinstance(body, ApiVersionsResponse)
    assert body.api_keys
    return number


@pytest.mark.parametrize("listener", ["PLAINTEXT", *LISTENERS])
def test_brokers_reach_each_other_by_the_security_of_their_listener(other: TheOther, listener: str) -> None:
    async def main() -> list[int]:
        link = links(other.given, listener).open(HOST, other.ports[listener], SYSTEMS)
        answers = [asked(link, number) for number in (5, 6, 7)]
        found = [number_of(await answer) for answer in answers]
        link.close()
        return found

    assert asyncio.run(main()) == [5, 6, 7]


def test_a_login_is_renewed_while_the_link_is_used(other: TheOther) -> None:
    async def main() -> None:
        link = links(other.given, "SHORT").open(HOST, other.ports["SHORT"], SYSTEMS)
        loop = asyncio.get_running_loop()
        until = loop.time() + 2 * SHORT_MS / 1000
        while loop.time() < until:
            assert number_of(await asked(link)) == 1
            await asyncio.sleep(0.05)
        link.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("listener", "change", "says"),
    [
        (
            "LOGIN",
            {"listener.name.login.plain.sasl.jaas.config": 'P required username="broker" password="wrong";'},
            "refused the login",
        ),
        ("MTLS", {"listener.name.mtls.ssl.truststore.location": ""}, "not trusted"),
    ],
)
def test_who_is_not_let_in_gets_no_answer_and_the_log_says_why_once(
    other: TheOther, listener: str, change: dict[str, str], says: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        link = links(other.given | change, listener).open(HOST, other.ports[listener], SYSTEMS)
        for _ in range(2):
            assert await asked(link) is None
        link.close()

    with caplog.at_level(logging.INFO, "ottla.net"):
        asyncio.run(main())
    lines = [record.getMessage() for record in caplog.records if "is unreachable" in record.getMessage()]
    assert len(lines) == 1
    assert says in lines[0]


def test_settings_that_cannot_secure_a_link_are_refused_with_a_sentence() -> None:
    with pytest.raises(SettingError, match=r"^Brokers cannot authenticate to each other at listener SASL_PLAINTEXT: sasl_user"):
        links({"sasl.mechanism.inter.broker.protocol": "PLAIN"}, "SASL_PLAINTEXT")
    with pytest.raises(SettingError, match="add NOWHERE:PLAINTEXT"):
        links({}, "nowhere")


def test_settings_that_are_changed_are_checked_and_hold_for_the_next_connection(other: TheOther, tmp_path: Path) -> None:
    broken = tmp_path / "broken.pem"
    broken.write_text("nothing")
    given = other.given | {"inter.broker.listener.name": "MTLS"}

    async def main() -> None:
        in_force = SettingsInForce(BrokerSettings.parse(given))
        found = BrokerLinks(2, in_force.value, tell)
        found.follow(in_force)
        with pytest.raises(SettingError, match=r"broken\.pem"):
            in_force.check({}, {"listener.name.mtls.ssl.truststore.location": str(broken)})
        link = found.open(HOST, other.ports["MTLS"], SYSTEMS)
        assert number_of(await asked(link)) == 1
        link.close()
        in_force.change({}, {"listener.name.mtls.ssl.truststore.location": ""})
        link = found.open(HOST, other.ports["MTLS"], SYSTEMS)
        assert await asked(link) is None
        link.close()

    asyncio.run(main())


class Deaf:
    """A server that takes connections and answers nothing; `ends` has it end each once something was sent."""

    def __init__(self, *, ends: bool = False) -> None:
        self.connections = 0
        self._ends = ends
        self.heard = asyncio.Event()

    async def __aenter__(self) -> Deaf:
        self._server = await asyncio.start_server(self._connected, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        await reader.read(1)
        self.heard.set()
        if not self._ends:
            await reader.read()
        writer.close()


@pytest.mark.parametrize("ends", [True, False])
def test_a_connection_that_ends_or_is_late_answers_none_and_is_made_anew(ends: bool) -> None:
    async def main() -> None:
        async with Deaf(ends=ends) as deaf:
            link = links({}, "PLAINTEXT").open(HOST, deaf.port, SYSTEMS)
            for _ in range(2):
                answers = [asked(link, timeout_ms=LONG_MS if ends else 200), asked(link)]
                assert [await answer for answer in answers] == [None, None]
            assert deaf.connections == 2
            link.close()

    asyncio.run(main())


def test_closing_a_link_answers_all_that_wait_and_not_at_once() -> None:
    async def main() -> None:
        async with Deaf() as deaf:
            link = links({}, "PLAINTEXT").open(HOST, deaf.port, SYSTEMS)
            early = asked(link)
            await deaf.heard.wait()
            late = asked(link)
            link.close()
            assert not late.done()
            assert await early is None
            assert await late is None

    asyncio.run(main())


def test_closing_a_link_that_is_being_opened_answers_all_that_wait() -> None:
    async def main() -> None:
        async with Deaf() as deaf:
            link = links({}, "PLAINTEXT").open(HOST, deaf.port, SYSTEMS)
            waits = asked(link)
            link.close()
            assert not waits.done()
            assert await waits is None

    asyncio.run(main())


@pytest.mark.parametrize("host", ["127.0.0.1", "no.such.host.invalid", "x" * 70 + ".example", ".."])
def test_a_broker_that_is_not_there_answers_none(host: str) -> None:
    async def main() -> None:
        link = links({}, "PLAINTEXT").open(host, free_port(), SYSTEMS)
        assert await asked(link) is None
        link.close()

    asyncio.run(main())


def test_a_link_has_the_receive_buffer_that_it_was_opened_with(other: TheOther) -> None:
    async def main(receive_buffer_bytes: int) -> int:
        link = links(other.given, "PLAINTEXT").open(HOST, other.ports["PLAINTEXT"], receive_buffer_bytes)
        number_of(await asked(link))
        connected = link._link
        assert connected is not None
        assert connected._transport is not None
        size: int = connected._transport.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        link.close()
        return size

    # Linux doubles what it is told, for its own use.
    assert asyncio.run(main(BUFFER_BYTES)) in (BUFFER_BYTES, 2 * BUFFER_BYTES)
    assert asyncio.run(main(SYSTEMS)) > 2 * BUFFER_BYTES
