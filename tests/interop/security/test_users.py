"""Other people's clients log in by PLAIN and SCRAM: they are let in with the right password, and kept out with any other."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from kafka import KafkaConsumer, KafkaProducer

import ottla
from tests.interop.security.conftest import SHORT_MS, Users
from tests.support import java
from tests.support.secured import MECHANISMS, PASSWORD, USER

KINDS = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
SCRAM = sorted(KINDS)
VALUES = [b"%d" % n for n in range(20)]


class Login(NamedTuple):
    """How a client logs in where. With an `authority` it speaks TLS, and trusts that one."""

    address: str
    mechanism: str
    name: str = USER
    password: str = PASSWORD
    authority: Path | None = None

    @property
    def protocol(self) -> str:
        return "SASL_PLAINTEXT" if self.authority is None else "SASL_SSL"


Talk = Callable[[Login, str], Sequence[bytes | None]]


@pytest.fixture(scope="module", autouse=True)
def _scram_users(users: Users) -> None:
    """Give the user SCRAM credentials, as an operator does with confluent-kafka's admin client."""
    admin = AdminClient({"bootstrap.servers": users.operator})
    for kind in KINDS.values():
        upsertion = UserScramCredentialUpsertion(USER, ScramCredentialInfo(kind, 4096), PASSWORD.encode())
        for done in admin.alter_user_scram_credentials([upsertion]).values():
            done.result(30)


def confluent(to: Login, topic: str) -> Sequence[bytes | None]:
    failures: list[KafkaError] = []
    login: dict[str, Any] = {
        "bootstrap.servers": to.address,
        "security.protocol": to.protocol,
        "sasl.mechanism": to.mechanism,
        "sasl.username": to.name,
        "sasl.password": to.password,
        **({"ssl.ca.location": str(to.authority)} if to.authority else {}),
        "error_cb": failures.append,
        "log_level": 0,
    }
    producer = Producer(login)
    for value in VALUES:
        producer.produce(topic, value)
    while producer.flush(0.2):
        if any(failure.code() == KafkaError._AUTHENTICATION for failure in failures):
            producer.purge()
            raise PermissionError(str(failures[0]))
    consumer = Consumer({**login, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes | None] = []
    while len(found) < len(VALUES):
        found += [message.value() for message in consumer.consume(100, 0.5) if not message.error()]
    consumer.close()
    return found


def kafka_python(to: Login, topic: str) -> Sequence[bytes | None]:
    login: dict[str, Any] = {
        "bootstrap_servers": to.address,
        "security_protocol": to.protocol,
        "sasl_mechanism": to.mechanism,
        "sasl_plain_username": to.name,
        "sasl_plain_password": to.password,
        **({"ssl_cafile": str(to.authority)} if to.authority else {}),
    }
    producer = KafkaProducer(**login)
    for value in VALUES:
        producer.send(topic, value)
    producer.flush(30)
    producer.close()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", **login)
    found: list[bytes] = []
    while len(found) < len(VALUES):
        found += [record.value for records in consumer.poll(500).values() for record in records]
    consumer.close()
    return found


def aiokafka(to: Login, topic: str) -> Sequence[bytes | None]:
    login: dict[str, Any] = {
        "bootstrap_servers": to.address,
        "security_protocol": to.protocol,
        "sasl_mechanism": to.mechanism,
        "sasl_plain_username": to.name,
        "sasl_plain_password": to.password,
        **({"ssl_context": ssl.create_default_context(cafile=to.authority)} if to.authority else {}),
    }

    async def talk() -> list[bytes | None]:
        async with AIOKafkaProducer(**login) as producer:
            for value in VALUES:
                await producer.send_and_wait(topic, value)
        async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **login) as consumer:
            return [(await consumer.getone()).value for _ in VALUES]

    return asyncio.run(talk())


def own(to: Login, topic: str) -> Sequence[bytes | None]:
    login: dict[str, Any] = {
        "security_protocol": to.protocol,
        "sasl_mechanism": to.mechanism,
        "sasl_username": to.name,
        "sasl_password": to.password,
        **({"ssl_truststore_location": str(to.authority)} if to.authority else {}),
    }
    with ottla.Producer(to.address, **login) as producer:
        for value in VALUES:
            producer.send(topic, value)
    with ottla.Consumer(topic, bootstrap_servers=to.address, auto_offset_reset="earliest", **login) as consumer:
        found: list[bytes] = []
        while len(found) < len(VALUES):
            found += [record.value for record in consumer.poll(timeout_ms=500) if record.value is not None]
        return found


TALKS: list[Talk] = [confluent, kafka_python, aiokafka, own]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize("talk", TALKS, ids=lambda talk: talk.__name__)
def test_who_knows_the_password_writes_and_reads(users: Users, unique: Callable[[str], str], talk: Talk, mechanism: str) -> None:
    assert talk(Login(users.login, mechanism), unique("login")) == VALUES


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("talk", TALKS, ids=lambda talk: talk.__name__)
@pytest.mark.rows(4, seconds=0.6)
def test_they_do_so_over_tls(users: Users, unique: Callable[[str], str], talk: Talk, mechanism: str) -> None:
    assert talk(Login(users.encrypted, mechanism, authority=users.authority), unique("encrypted")) == VALUES


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("talk", [confluent, own], ids=lambda talk: talk.__name__)
def test_nobody_else_does(users: Users, unique: Callable[[str], str], talk: Talk, mechanism: str) -> None:
    for name, password in ((USER, "guess"), ("mallory", PASSWORD)):
        with pytest.raises((PermissionError, ottla.KafkaError), match=r"wrong|authentication failed"):
            talk(Login(users.login, mechanism, name, password), unique("closed"))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_kcat_logs_in_over_tls(users: Users, unique: Callable[[str], str], mechanism: str) -> None:
    if not shutil.which("kcat"):
        pytest.skip("kcat is not installed")
    topic = unique("kcat")
    login = [
        "security.protocol=SASL_SSL",
        f"ssl.ca.location={users.authority}",
        f"sasl.mechanism={mechanism}",
        f"sasl.username={USER}",
        f"sasl.password={PASSWORD}",
    ]
    options = ["-b", users.encrypted, "-t", topic, *(word for setting in login for word in ("-X", setting))]
    subprocess.run(["kcat", "-P", *options], input="a\nb\n", text=True, check=True, timeout=60)
    read = subprocess.run(["kcat", "-C", "-e", "-q", *options], text=True, check=True, timeout=60, capture_output=True)
    assert read.stdout == "a\nb\n"


def java_login(path: Path, authority: Path, mechanism: str) -> str:
    """A file of settings for one of Kafka's tools, which trusts an authority of a PEM file."""
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    path.write_text(
        f"security.protocol=SASL_SSL\nssl.truststore.type=PEM\nssl.truststore.location={authority}\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config=org.apache.kafka.common.security.{module} required username="{USER}" password="{PASSWORD}";\n'
    )
    return str(path)


@pytest.mark.full(seconds=40)
@pytest.mark.java
def test_kafkas_own_tools_set_credentials_and_log_in_over_tls(users: Users, unique: Callable[[str], str], tmp_path: Path) -> None:
    where, topic = ("--bootstrap-server", users.encrypted), unique("java")
    as_plain, first, second = (
        ("--command-config", java_login(tmp_path / each, users.authority, each))
        for each in ("PLAIN", "SCRAM-SHA-512", "SCRAM-SHA-256")
    )
    named = ("--entity-type", "users", "--entity-name", "carol")
    java.run("kafka.admin.ConfigCommand", *where, *as_plain, "--alter", "--add-config", "SCRAM-SHA-256=[password=carols]", *named)
    told = java.run("kafka.admin.ConfigCommand", *where, *as_plain, "--describe", *named)
    assert "SCRAM-SHA-256=iterations=4096" in told
    assert "carols" not in told
    java.run(java.PRODUCE, *where, "--topic", topic, *first, stdin="x\n")
    options = ("--topic", topic, "--from-beginning", "--max-messages", "1", "--timeout-ms", "30000")
    assert java.run(java.CONSUME, *where, *options, *second) == "x\n"


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.full(seconds=6)
def test_logins_are_renewed_under_load_and_nothing_is_lost(users: Users, unique: Callable[[str], str], mechanism: str) -> None:
    topic, lost = unique("renewed"), list[KafkaError]()
    login: dict[str, Any] = {
        "bootstrap.servers": users.renewed,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(users.authority),
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password": PASSWORD,
        "enable.idempotence": True,
        "linger.ms": 0,
    }
    producer, sent = Producer(login), 0
    until = time.monotonic() + 3 * SHORT_MS / 1000
    while time.monotonic() < until:
        producer.produce(topic, b"%d" % sent, on_delivery=lambda error, _: lost.append(error) if error else None)
        sent += 1
        producer.poll(0.005)
    assert producer.flush(60) == 0
    assert not lost
    consumer = Consumer({**login, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes | None] = []
    while len(found) < sent:
        found += [message.value() for message in consumer.consume(1000, 0.5) if not message.error()]
    consumer.close()
    assert found == [b"%d" % n for n in range(sent)]
    assert "its session expired" not in users.broker.log


def test_no_secret_is_in_the_log_or_in_settings_or_in_files(users: Users) -> None:
    admin = AdminClient({"bootstrap.servers": users.operator})
    with ottla.Admin(users.operator) as own_admin:
        shown = own_admin.describe_broker_configs(1)
    told = admin.describe_user_scram_credentials([USER])
    assert isinstance(told, dict)
    texts = [users.broker.log, repr(shown), repr(vars(told[USER].result(30)))]
    registry = subprocess.run(["grep", "-rlF", PASSWORD, str(users.broker.data_dir)], capture_output=True, text=True)
    assert not registry.stdout
    for text in texts:
        assert PASSWORD not in text
        assert "user_" not in text
