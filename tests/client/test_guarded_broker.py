"""A broker inside the test's process that lets in users alone, over TLS or not, and its settings for other people's clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient

import ottla
from ottla.cli.main import main

USERS = {"alice": 'al;ice\'s "secret"\\', "bob": "b"}
KINDS = {"SASL_PLAINTEXT": (USERS, False), "SASL_SSL": (USERS, True), "SSL": (None, True)}


@pytest.fixture(scope="module", params=KINDS)
def guarded(request: pytest.FixtureRequest) -> Iterator[ottla.Broker]:
    users, tls = KINDS[request.param]
    with ottla.Broker(users=users, tls=tls) as broker:
        yield broker


def topics_seen_by(words: str, settings: dict[str, Any]) -> set[str]:
    if words == "confluent":
        return set(AdminClient(settings).list_topics(timeout=20).topics)
    if words == "kafka-python":
        admin = KafkaAdminClient(**settings)
        try:
            return set(admin.list_topics())
        finally:
            admin.close()
    if words == "aiokafka":
        return asyncio.run(_topics_of_aiokafka(settings))
    with ottla.Admin(**settings) as ours:
        return set(ours.list_topics())


async def _topics_of_aiokafka(settings: dict[str, Any]) -> set[str]:
    async with AIOKafkaProducer(**settings) as producer:
        return {"known"} if await producer.partitions_for("known") else set()


@pytest.mark.parametrize("words", ["ottla", "confluent", "kafka-python", "aiokafka"])
def test_each_client_is_let_in_by_settings_in_its_own_words(words: str, guarded: ottla.Broker) -> None:
    with ottla.Admin(**guarded.client_settings()) as admin:
        if "known" not in admin.list_topics():
            admin.create_topic("known")
    assert "known" in topics_seen_by(words, guarded.client_settings(words))


def test_settings_in_javas_and_sparks_words_name_the_same() -> None:
    with ottla.Broker(users=USERS, tls=True) as broker:
        java = broker.client_settings("java", user="bob")
        assert java == {
            "bootstrap.servers": broker.address,
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": broker.ca_file,
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": 'org.apache.kafka.common.security.plain.PlainLoginModule required username="bob" password="b";',
        }
        assert broker.client_settings("spark", user="bob") == {f"kafka.{name}": value for name, value in java.items()}


def test_who_is_no_user_is_not_let_in(guarded: ottla.Broker) -> None:
    given = guarded.client_settings()
    if "sasl_password" in given:
        with (
            pytest.raises(ottla.AuthenticationFailed, match="refused the login by PLAIN"),
            ottla.Admin(**{**given, "sasl_password": "b"}) as admin,
        ):
            admin.list_topics()
    with pytest.raises(ottla.KafkaError), ottla.Admin(guarded.address, default_api_timeout_ms=1000) as stranger:
        stranger.list_topics()


def test_words_and_users_that_are_none_are_told() -> None:
    with ottla.Broker(users=USERS) as broker:
        assert broker.ca_file is None
        with pytest.raises(ValueError, match="no settings in the format of 'ruby': choose ottla, confluent"):
            broker.client_settings("ruby")
        with pytest.raises(ValueError, match="There is no user 'eve'"):
            broker.client_settings(user="eve")
    with ottla.Broker() as plain:
        assert plain.client_settings() == {"bootstrap_servers": plain.address, "security_protocol": "PLAINTEXT"}


def test_commands_log_in_by_a_file_of_client_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with ottla.Broker(users={"alice": "secret"}) as broker:
        file = tmp_path / "client.properties"
        where, given = ["--bootstrap-server", broker.address], ["--command-config", str(file)]
        file.write_text("".join(f"{name}={text}\n" for name, text in broker.client_settings("java").items()) + "acks=all\n")
        with ottla.Producer(**broker.client_settings()) as producer:
            producer.send("flights", b"JFK").result()
        assert main(["transactions", "list", *where, *given]) == 0
        assert "ignored settings of" in (said := capsys.readouterr().err)
        assert "acks" in said
        assert main(["pipeline", "tables", *where, *given]) == 0
        assert "flights" in capsys.readouterr().out
        assert main(["features", "describe", *where, *given, "--command-property", "sasl.mechanism=SCRAM-SHA-256"]) == 2
        assert "sasl.jaas.config names PlainLoginModule" in (said := capsys.readouterr().err)
        assert "secret" not in said
    assert main(["features", "describe", *where, "--command-config", "/nowhere"]) == 2
    assert "Cannot read /nowhere: No such file or directory; name a readable" in capsys.readouterr().err


def test_certificates_survive_a_restart_and_go_with_the_broker() -> None:
    with ottla.Broker(tls=True) as broker:
        given = broker.client_settings()
        broker.restart()
        assert broker.client_settings() == given
        with ottla.Admin(**given) as admin:
            assert admin.list_topics() == []
        made = broker.ca_file
    assert made is not None
    assert not Path(made).exists()
    assert broker.ca_file is None
