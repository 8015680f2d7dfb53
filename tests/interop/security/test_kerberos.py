"""Kerberos of MIT, with a realm of its own: clients log in with tickets, over TLS, and nobody without."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kafka import KafkaProducer

import ottla
from bench.apache_kafka import free_port
from ottla.testing import BrokerProcess
from tests.support import java
from tests.support.kerberos import MODULE, REALM, kdc
from tests.support.peers import QUICK
from tests.support.secured import HOST, Certificates
from tests.support.watched import served

NAME = "localhost"
"""Tickets are for names of hosts."""

PRINCIPALS = {"kafka": f"kafka/{NAME}", "alice": "alice", "stranger": "stranger/admin"}


class Realm(NamedTuple):
    """A realm with a broker: where it is, where its keytabs are, and whom to trust there."""

    home: Path
    address: str
    authority: Path

    def keytab(self, name: str) -> Path:
        return self.home / f"{name}.keytab"

    def login(self, name: str) -> str:
        return f'{MODULE} required useKeyTab=true storeKey=true keyTab="{self.keytab(name)}" principal="{name}@{REALM}";'


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    pytest.importorskip("gssapi", reason="the extra gssapi is not installed", exc_type=ImportError)
    home, port = tmp_path_factory.mktemp("kerberos"), free_port()
    with kdc(home, PRINCIPALS) as environment, pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        certificates = Certificates(home)
        place = Realm(home, f"{NAME}:{port}", certificates.trust_store)
        settings: dict[str, object] = {
            **QUICK,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": certificates.server,
            "sasl.enabled.mechanisms": "GSSAPI",
            "listener.name.tickets.gssapi.sasl.jaas.config": place.login("kafka").replace("kafka@", f"kafka/{NAME}@"),
        }
        listen = ["--listen", f"{HOST}:{port},security=SASL_SSL,name=TICKETS"]
        advertised = {"advertised.listeners": f"TICKETS://{NAME}:{port}"}
        with BrokerProcess(home / "data", served(settings | advertised), arguments=listen):
            yield place


def ours(realm: Realm, topic: str, **more: Any) -> list[str]:
    """The topics that are there once our client has logged in and made one."""
    login: dict[str, Any] = {
        "security_protocol": "SASL_SSL",
        "ssl_truststore_location": str(realm.authority),
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
        **more,
    }
    with ottla.Admin(realm.address, **login) as admin:
        admin.create_topic(topic)
        return list(admin.list_topics())


def test_our_client_logs_in_with_the_tickets_of_kinit_and_with_a_keytab(realm: Realm) -> None:
    assert "by-kinit" in ours(realm, "by-kinit")
    assert "by-keytab" in ours(realm, "by-keytab", sasl_jaas_config=realm.login("alice"))


def test_who_has_no_ticket_for_this_service_or_is_nobody_by_the_rules_stays_out(realm: Realm) -> None:
    with pytest.raises(ottla.AuthenticationFailed, match=r"Kerberos says: .*not found"):
        ours(realm, "none", sasl_kerberos_service_name="another")
    with pytest.raises(ottla.AuthenticationFailed):
        ours(realm, "none", sasl_jaas_config=realm.login("stranger").replace("stranger@", "nobody@"))


def test_kafka_python_logs_in_with_tickets(realm: Realm, unique: Callable[[str], str]) -> None:
    producer = KafkaProducer(
        bootstrap_servers=realm.address,
        security_protocol="SASL_SSL",
        ssl_cafile=str(realm.authority),
        sasl_mechanism="GSSAPI",
        sasl_kerberos_service_name="kafka",
        sasl_kerberos_domain_name=NAME,
    )
    assert producer.send(unique("kerberos"), b"v").get(30).offset == 0
    producer.close()


@pytest.mark.java
def test_javas_clients_log_in_with_tickets(realm: Realm, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(
        f"security.protocol=SASL_SSL\nssl.truststore.type=PEM\nssl.truststore.location={realm.authority}\n"
        "sasl.mechanism=GSSAPI\nsasl.kerberos.service.name=kafka\n"
        f"sasl.jaas.config={realm.login('alice')}\n"
    )
    configured = [f"-Djava.security.krb5.conf={os.environ['KRB5_CONFIG']}"]
    arguments = ("--bootstrap-server", realm.address, "--command-config", str(path), "--list")
    ours(realm, "for-java")
    assert "for-java" in java.run(java.TOPICS, *arguments, timeout_s=100, properties=configured).split()
