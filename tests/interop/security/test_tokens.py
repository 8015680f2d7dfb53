"""Other people's clients and tools, and ours, log in over TLS: by signed tokens (OAUTHBEARER) and by delegation tokens (KIP-48)."""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from json import dumps, loads
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonsTokenProvider

import ottla
from bench.apache_kafka import free_port
from ottla.cli.main import main
from ottla.testing import BrokerProcess
from tests.support import java
from tests.support.peers import QUICK
from tests.support.secured import HOST, PASSWORD, SCRAM_USERS, USER, Certificates
from tests.support.waiting import eventually
from tests.support.watched import served

jwt = pytest.importorskip("jwt", reason="PyJWT is absent: pip install 'ottla[oauth]'")
rsa = pytest.importorskip(
    "cryptography.hazmat.primitives.asymmetric.rsa", reason="cryptography is absent: pip install 'ottla[oauth]'"
)

KEY, STRANGERS_KEY = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
SCRAM = "SCRAM-SHA-256"
SECRET, ISSUERS_SECRET = "the secret of delegation tokens", "secret & id"


def token(key: Any = KEY, **claims: object) -> str:
    now = int(time.time())
    said = {"sub": USER, "iat": now, "exp": now + 600, "aud": "ottla", "scope": "kafka", **claims}
    made: str = jwt.encode(said, key, "RS256", headers={"kid": "one"})
    return made


class Place(NamedTuple):
    """Where an operator needs no login, where tokens are shown, where passwords are, and whom to trust there."""

    operator: str
    bearer: str
    scram: str
    log: Path
    authority: Path

    @property
    def java(self) -> str:
        """The first settings of Kafka's tools."""
        return f"security.protocol=SASL_SSL\nssl.truststore.type=PEM\nssl.truststore.location={self.authority}\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    home = tmp_path_factory.mktemp("tokens")
    jwk = {**loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key())), "kid": "one"}
    (home / "keys.json").write_text(dumps({"keys": [jwk]}))
    ports, certificates = {name: free_port() for name in ("BEARER", "SCRAM")}, Certificates(home)
    settings: dict[str, object] = {
        **QUICK,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": certificates.server,
        "listener.name.bearer.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.scram.sasl.enabled.mechanisms": SCRAM,
        "listener.name.scram.scram-sha-256.sasl.jaas.config": SCRAM_USERS,
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{home}/keys.json",
        "sasl.oauthbearer.expected.audience": "ottla",
        "ottla.sasl.oauthbearer.required.scope": "kafka",
        "delegation.token.secret.key": SECRET,
    }
    listen = [word for name, port in ports.items() for word in ("--listen", f"{HOST}:{port},security=SASL_SSL,name={name}")]
    with BrokerProcess(home / "data", served(settings), arguments=listen) as broker:
        bearer, scram = (f"{HOST}:{port}" for port in ports.values())
        yield Place(broker.address, bearer, scram, broker.log_path, certificates.trust_store)


def topics_by(place: Place, address: str, **login: Any) -> list[str]:
    with ottla.Admin(address, security_protocol="SASL_SSL", ssl_truststore_location=str(place.authority), **login) as admin:
        return list(admin.list_topics())


def test_our_client_logs_in_by_a_token_of_a_function_of_a_file_and_of_an_issuer(place: Place, tmp_path: Path) -> None:
    by = {"sasl_mechanism": "OAUTHBEARER"}
    topics_by(place, place.bearer, **by, sasl_oauthbearer_token_callback=token)
    (tmp_path / "token").write_text(token() + "\n")
    topics_by(place, place.bearer, **by, sasl_oauthbearer_token_endpoint_url=f"file://{tmp_path}/token")
    with Issuer() as issuer:
        serving = threading.Thread(target=issuer.serve_forever, args=(0.02,))
        serving.start()
        client = {
            "sasl_oauthbearer_token_endpoint_url": f"http://{HOST}:{issuer.server_port}/token",
            "sasl_oauthbearer_client_credentials_client_id": "me",
        }
        try:
            topics_by(place, place.bearer, **by, **client, sasl_oauthbearer_client_credentials_client_secret=ISSUERS_SECRET)
            with pytest.raises(ottla.AuthenticationFailed, match="answers 401"):
                topics_by(place, place.bearer, **by, **client, sasl_oauthbearer_client_credentials_client_secret="guess")
        finally:
            issuer.shutdown()
            serving.join()


class Issuer(HTTPServer):
    """Gives tokens to who knows its secret (RFC 6749)."""

    def __init__(self) -> None:
        super().__init__((HOST, 0), Issuing)


class Issuing(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        known = b64encode(b"me:secret%20%26%20id").decode()
        is_known = self.headers["Authorization"] == f"Basic {known}"
        body = dumps({"access_token": token()} if is_known else {"error": "invalid_client"}).encode()
        self.send_response(200 if is_known else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is said."""


@pytest.mark.rows(2, seconds=1)
@pytest.mark.parametrize(
    "bad",
    [
        token(STRANGERS_KEY),
        token(exp=1),
        token(aud="others"),
        token(scope="web"),
        jwt.encode({"sub": USER, "iat": 1, "exp": 1 << 40, "aud": "ottla", "scope": "kafka"}, None, "none"),
    ],
    ids=["another key", "expired", "another audience", "another scope", "no signature"],
)
def test_no_other_token_lets_anybody_in_and_none_is_in_the_log(place: Place, bad: str) -> None:
    with pytest.raises(ottla.AuthenticationFailed, match=r"invalid_token|insufficient_scope"):
        topics_by(place, place.bearer, sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_token_callback=lambda: bad)
    assert bad.split(".")[1] not in place.log.read_text()


def test_confluents_client_logs_in_by_a_token(place: Place) -> None:
    asked = list[str]()

    def shown(_: str) -> tuple[str, float]:
        asked.append(token())
        return asked[-1], time.time() + 600

    login: dict[str, Any] = {
        "bootstrap.servers": place.bearer,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(place.authority),
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": shown,
    }
    admin = AdminClient(login)
    eventually(lambda: admin.poll(0.1) or asked)
    assert admin.list_topics(timeout=30).brokers


class Provider(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    async def token(self) -> str:
        return token()


def test_aiokafka_logs_in_by_a_token(place: Place, unique: Callable[[str], str]) -> None:
    async def send() -> int:
        producer = AIOKafkaProducer(
            bootstrap_servers=place.bearer,
            security_protocol="SASL_SSL",
            ssl_context=ssl.create_default_context(cafile=place.authority),
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Provider(),
        )
        async with producer:
            offset: int = (await producer.send_and_wait(unique("bearer"), b"v")).offset
            return offset

    assert asyncio.run(send()) == 0


class KafkaPythonsProvider(KafkaPythonsTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    def token(self) -> str:
        return token()


def test_kafka_python_logs_in_by_a_token(place: Place, unique: Callable[[str], str]) -> None:
    producer = KafkaProducer(
        bootstrap_servers=place.bearer,
        security_protocol="SASL_SSL",
        ssl_cafile=str(place.authority),
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=KafkaPythonsProvider(),
    )
    assert producer.send(unique("bearer"), b"v").get(30).offset == 0
    producer.close()


@pytest.mark.java
def test_kafkas_tool_logs_in_by_a_token_of_a_file(place: Place, tmp_path: Path) -> None:
    shown, client = tmp_path / "token.jwt", tmp_path / "client.properties"
    shown.write_text(token())
    client.write_text(
        f"{place.java}sasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url={shown.as_uri()}\n"
        "sasl.login.callback.handler.class=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler\n"
        "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;\n"
    )
    allowed = (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.{what}" for what in (f"urls={shown.as_uri()}", f"files={shown}"))
    arguments = ("--bootstrap-server", place.bearer, "--command-config", str(client), "--list")
    with ottla.Admin(place.operator) as admin:
        admin.create_topic("for-java")
    assert "for-java" in java.run(java.TOPICS, *arguments, properties=allowed).split()


@pytest.mark.full(seconds=8)
@pytest.mark.java
def test_kafkas_tool_makes_a_delegation_token_which_lets_its_holder_in_until_it_is_ended(place: Place, tmp_path: Path) -> None:
    java.run(
        "kafka.admin.ConfigCommand",
        *("--bootstrap-server", place.operator, "--alter", "--entity-type", "users", "--entity-name", USER),
        *("--add-config", f"{SCRAM}=[iterations=4096,password={PASSWORD.replace(' ', '').replace(';', '')}]"),
    )
    password = PASSWORD.replace(" ", "").replace(";", "")
    by_password = write_login(place, tmp_path / "user.properties", USER, password)

    def tool(*arguments: str) -> str:
        tool = "org.apache.kafka.tools.DelegationTokenCommand"
        return java.run(tool, "--bootstrap-server", place.scram, "--command-config", str(by_password), *arguments)

    made = tool("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    row = next(line.split() for line in made.splitlines() if f"User:{USER}" in line)
    token_id, hmac = row[0], row[1]
    login = {"sasl_mechanism": SCRAM, "sasl_jaas_config": jaas(token_id, hmac, "tokenauth=true")}
    topics_by(place, place.scram, **login)
    assert token_id in tool("--describe", "--owner-principal", f"User:{USER}")
    assert "Completed renew operation" in tool("--renew", "--renew-time-period", "-1", "--hmac", hmac)
    by_token = write_login(place, tmp_path / "token.properties", token_id, hmac, "tokenauth=true")
    java.run(java.TOPICS, "--bootstrap-server", place.scram, "--command-config", str(by_token), "--list")
    assert "Completed expire operation" in tool("--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    with pytest.raises(ottla.AuthenticationFailed):
        topics_by(place, place.scram, **login)
    assert hmac not in place.log.read_text()


def test_our_command_makes_a_delegation_token_which_lets_its_holder_in_until_it_is_ended(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    with ottla.Admin(place.operator) as admin:
        admin.set_user_password(USER, ISSUERS_SECRET)
    words = ["-b", place.scram, "--json"]
    for setting in (
        "security.protocol=SASL_SSL", "ssl.truststore.type=PEM", f"ssl.truststore.location={place.authority}",
        f"sasl.mechanism={SCRAM}", f"sasl.username={USER}", f"sasl.password={ISSUERS_SECRET}",
    ):  # fmt: skip
        words += ["-X", setting]

    def command(line: str) -> Any:
        assert main([*line.split(), *words]) == 0
        return loads(capsys.readouterr().out)

    made = command("token create --renewer User:bob")
    login = {"sasl_mechanism": SCRAM, "sasl_jaas_config": jaas(made["id"], made["hmac"], "tokenauth=true")}
    topics_by(place, place.scram, **login)
    assert command("token list")["id"] == made["id"]
    command(f"token expire {made['id']} --yes")
    with pytest.raises(ottla.AuthenticationFailed):
        topics_by(place, place.scram, **login)
    assert made["hmac"] not in place.log.read_text()


def jaas(name: str, password: str, more: str = "") -> str:
    return f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{name}" password="{password}" {more};'


def write_login(place: Place, path: Path, name: str, password: str, more: str = "") -> Path:
    path.write_text(f"{place.java}sasl.mechanism={SCRAM}\nsasl.jaas.config={jaas(name, password, more)}\n")
    return path
