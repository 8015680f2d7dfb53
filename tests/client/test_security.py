"""Ottla's client over TLS and SASL, and the one sentence about each connection that cannot be secured."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

import ottla
from tests.support.secured import (
    MECHANISMS,
    MTLS,
    PASSWORD,
    PLAINTEXT,
    SASL_PLAINTEXT,
    SASL_SSL,
    SHORT,
    SSL,
    USER,
    Certificates,
    Secured,
    started,
)
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def secured(peer_name: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with started(peer_name, tmp_path_factory.mktemp("secured")) as broker:
        admin = AdminClient({"bootstrap.servers": broker.at(PLAINTEXT)})
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            made = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
            for future in admin.alter_user_scram_credentials([made]).values():
                future.result(30)
        del admin
        yield broker


@pytest.fixture(scope="module")
def trust(secured: Secured) -> dict[str, Any]:
    return {"ssl_truststore_location": str(secured.certificates.trust_store)}


def login(listener: str, mechanism: str = "SCRAM-SHA-512", password: str = PASSWORD) -> dict[str, Any]:
    protocol = SASL_PLAINTEXT if listener == SHORT else listener
    return {"security_protocol": protocol, "sasl_mechanism": mechanism, "sasl_username": USER, "sasl_password": password}


def reaches(secured: Secured, listener: str, **settings: Any) -> bool:
    with ottla.Admin(secured.at(listener), **settings) as admin:
        return bool(admin.describe_cluster().cluster_id)


def test_records_go_over_tls_both_ways_large_ones_too(
    secured: Secured, trust: dict[str, Any], unique: Callable[[str], str]
) -> None:
    topic, given = unique("tls"), {"security_protocol": SSL, **trust}
    values = [bytes([i]) * 300_000 for i in range(20)]
    with ottla.Producer(secured.at(SSL), max_request_size=5_000_000, **given) as producer:
        for value in values:
            producer.send(topic, value, partition=0)
    with ottla.Consumer(bootstrap_servers=secured.at(SSL), auto_offset_reset="earliest", **given) as consumer:
        consumer.assign([(topic, 0)])
        found: list[bytes | None] = []
        while len(found) < len(values):
            found += [record.value for record in consumer.poll(30_000)]
    assert found == values


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("listener", [SASL_SSL, SASL_PLAINTEXT])
def test_a_login_by_name_and_password(listener: str, mechanism: str, secured: Secured, trust: dict[str, Any]) -> None:
    assert reaches(secured, listener, **login(listener, mechanism), **(trust if listener == SASL_SSL else {}))


def test_a_login_by_the_settings_of_javas_clients(secured: Secured) -> None:
    text = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{USER}" password="{PASSWORD}";'
    given = {"security_protocol": SASL_PLAINTEXT, "sasl_mechanism": "SCRAM-SHA-256", "sasl_jaas_config": text}
    assert reaches(secured, SASL_PLAINTEXT, **given)


def test_a_clients_certificate_is_shown_where_brokers_want_one(secured: Secured, trust: dict[str, Any]) -> None:
    store = str(secured.certificates.client)
    assert reaches(secured, MTLS, security_protocol=SSL, ssl_keystore_location=store, **trust)


def test_a_context_of_ones_own_takes_the_place_of_files(secured: Secured) -> None:
    context = ssl.create_default_context(cafile=str(secured.certificates.trust_store))
    assert reaches(secured, SSL, security_protocol=SSL, ssl_context=context)


def test_clients_on_asyncio_log_in_as_well(secured: Secured, trust: dict[str, Any], unique: Callable[[str], str]) -> None:
    topic, given = unique("asyncio"), {**login(SASL_SSL), **trust}

    async def main() -> bytes | None:
        async with ottla.AsyncProducer(secured.at(SASL_SSL), **given) as producer:
            await (await producer.send(topic, b"here"))
        async with ottla.AsyncConsumer(
            topic, bootstrap_servers=secured.at(SASL_SSL), group_id=topic, auto_offset_reset="earliest", **given
        ) as consumer:
            async for record in consumer:
                value: bytes | None = record.value
                return value
        return None

    assert asyncio.run(main()) == b"here"


def test_transactions_go_over_a_login(secured: Secured, unique: Callable[[str], str]) -> None:
    topic, given = unique("transactions"), login(SASL_PLAINTEXT)
    with ottla.Producer(secured.at(SASL_PLAINTEXT), transactional_id=topic, **given) as producer, producer.transaction():
        sent = producer.send(topic, b"x")
    assert sent.result(30).offset == 0
    with ottla.Consumer(
        topic,
        bootstrap_servers=secured.at(SASL_PLAINTEXT),
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        **given,
    ) as consumer:
        assert next(iter(consumer)).value == b"x"


def test_a_login_is_renewed_before_it_ends_and_no_record_is_lost(
    secured: Secured, unique: Callable[[str], str], caplog: pytest.LogCaptureFixture
) -> None:
    topic, given, sent, found = unique("renewed"), login(SHORT), 0, 0
    caplog.set_level(logging.DEBUG, "ottla.client")
    with (
        ottla.Producer(secured.at(SHORT), linger_ms=0, **given) as producer,
        ottla.Producer(secured.at(SHORT), linger_ms=0, acks=0, **given) as unanswered,
        ottla.Consumer(
            topic, bootstrap_servers=secured.at(SHORT), group_id=topic, auto_offset_reset="earliest", **given
        ) as consumer,
    ):

        def went_on() -> bool:
            nonlocal sent, found
            producer.send(topic, b"%d" % sent).result(30)
            unanswered.send(topic, b"%d" % sent).result(30)
            sent += 2
            found += len(consumer.poll(10))
            return caplog.text.count("renewed its login") >= 8

        eventually(went_on, timeout_s=60)
        while found < sent:
            found += len(consumer.poll(30_000))
        snapshots = [client.metrics() for client in (producer, unanswered, consumer)]
    assert found == sent
    assert " broke: " not in caplog.text
    assert sum(snapshot.value("successful-reauthentication-total") for snapshot in snapshots) >= 8
    assert all(snapshot.value("reauthentication-latency-max") > 0 for snapshot in snapshots)
    assert not any(snapshot.value("failed-reauthentication-total") for snapshot in snapshots)


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "untrusted": (SSL, {"security_protocol": SSL}, r"is not trusted \(.*\): add its authority's certificate to "),
    "no certificate": (MTLS, {"security_protocol": SSL, "trust": True}, "ended the TLS handshake .* from ssl_keystore_location"),
    "a wrong password": (
        SASL_PLAINTEXT,
        login(SASL_PLAINTEXT, password="wrong"),
        r"refused the login by SCRAM-SHA-512 \(.*\): check name",
    ),
    "a wrong password in the clear": (SASL_PLAINTEXT, login(SASL_PLAINTEXT, "PLAIN", "wrong"), "refused the login by PLAIN"),
    "a mechanism that is not enabled": (
        SHORT,
        login(SHORT, "PLAIN"),
        "sasl_mechanism=PLAIN: choose one of SCRAM-SHA-512",
    ),
    "a login where none is asked for": (
        PLAINTEXT,
        login(SASL_PLAINTEXT),
        "requires no authentication: set security_protocol to PLAINTEXT or SSL",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_who_is_not_let_in_hears_at_once_why(case: str, secured: Secured, trust: dict[str, Any]) -> None:
    listener, given, sentence = REFUSED[case]
    given = {**given, **(trust if given.get("trust") else {})}
    given.pop("trust", None)
    with pytest.raises(ottla.AuthenticationFailed, match=sentence) as refused:
        reaches(secured, listener, **given)
    assert "\n" not in str(refused.value)
    assert not refused.value.retriable
    assert PASSWORD not in str(refused.value)


PUZZLED: dict[str, tuple[str, dict[str, Any], str]] = {
    "no login": (SASL_PLAINTEXT, {}, "A listener with SASL needs security_protocol"),
    "TLS at a plain listener": (
        PLAINTEXT,
        {"security_protocol": SSL},
        "closed during the TLS handshake; check that the broker is up",
    ),
}


@pytest.mark.parametrize("case", PUZZLED)
def test_who_speaks_otherwise_than_the_listener_is_told_what_may_be_the_matter(case: str, secured: Secured) -> None:
    listener, given, sentence = PUZZLED[case]
    with pytest.raises(ottla.KafkaError, match=sentence):
        reaches(secured, listener, default_api_timeout_ms=1_500, **given)


def test_a_certificate_of_another_host_is_refused_unless_that_is_allowed(tmp_path: Path) -> None:
    """The broker here is a socket with TLS: it needs to say nothing."""
    certificates = Certificates(tmp_path, "elsewhere.example")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificates.server)

    async def main() -> None:
        listening = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0, ssl=server)
        address = "127.0.0.1:{1}".format(*listening.sockets[0].getsockname())
        given: dict[str, Any] = {"security_protocol": SSL, "ssl_truststore_location": str(certificates.trust_store)}
        with pytest.raises(ottla.AuthenticationFailed, match=r"is for another host .*: let bootstrap_servers"):
            async with ottla.AsyncAdmin(address, **given) as admin:
                await admin.describe_cluster()
        with pytest.raises(ottla.KafkaError, match="broke"):
            async with ottla.AsyncAdmin(
                address, ssl_endpoint_identification_algorithm="", default_api_timeout_ms=500, **given
            ) as admin:
                await admin.describe_cluster()
        listening.close()

    asyncio.run(main())
