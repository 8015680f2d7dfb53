"""Kerberos of MIT, with a realm of its own: clients log in with tickets, over TLS, and nobody without."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kafka import KafkaProducer

import ottla
from bench.apache_kafka import free_port
from ottla.testing import BrokerProcess
from tests.support import java
from tests.support.peers import QUICK
from tests.support.secured import HOST, Certificates
from tests.support.waiting import eventually
from tests.support.watched import served

REALM = "OTTLA.TEST"
MODULE = "com.sun.security.auth.module.Krb5LoginModule"
NAME = "localhost"
"""Tickets are for names of hosts."""


class Realm(NamedTuple):
    """A realm with a broker: where it is, where its keytabs are, and whom to trust there."""

    home: Path
    address: str
    authority: Path

    def keytab(self, name: str) -> Path:
        return self.home / f"{name}.keytab"

    def login(self, name: str) -> str:
        return f'{MODULE} required useKeyTab=true storeKey=true keyTab="{self.keytab(name)}" principal="{name}@{REALM}";'


@contextmanager
def kdc(home: Path) -> Iterator[dict[str, str]]:
    """The environment in which a realm with principals kafka/localhost and alice is found."""
    if not shutil.which("krb5kdc") or not shutil.which("kadmin.local"):
        pytest.skip("there is no MIT Kerberos (Debian's packages krb5-kdc and krb5-admin-server)")
    port = free_port()
    (home / "krb5.conf").write_text(
        f"[libdefaults]\ndefault_realm = {REALM}\ndns_lookup_kdc = false\ndns_lookup_realm = false\n"
        f"dns_canonicalize_hostname = false\nrdns = false\nudp_preference_limit = 1\ndefault_ccache_name = FILE:{home}/tickets\n"
        f"[realms]\n{REALM} = {{\n kdc = 127.0.0.1:{port}\n}}\n"
    )
    (home / "kdc.conf").write_text(
        f"[kdcdefaults]\nkdc_listen = 127.0.0.1:{port}\nkdc_tcp_listen = 127.0.0.1:{port}\n"
        f"[realms]\n{REALM} = {{\n database_name = {home}/principal\n key_stash_file = {home}/stash\n"
        " supported_enctypes = aes256-cts-hmac-sha1-96:normal\n}\n"
    )
    environment = {"KRB5_CONFIG": str(home / "krb5.conf"), "KRB5_KDC_PROFILE": str(home / "kdc.conf")}
    everything = os.environ | environment

    def call(*command: str) -> None:
        subprocess.run(command, env=everything, check=True, capture_output=True, timeout=60)

    call("kdb5_util", "create", "-s", "-P", "secret", "-W")
    for principal, name in ((f"kafka/{NAME}", "kafka"), ("alice", "alice"), ("stranger/admin", "stranger")):
        call("kadmin.local", "-q", f"addprinc -randkey {principal}")
        call("kadmin.local", "-q", f"ktadd -k {home / name}.keytab {principal}")
    with subprocess.Popen(["krb5kdc", "-n", "-P", str(home / "pid")], env=everything, stderr=subprocess.DEVNULL) as process:
        try:
            ready = ["kinit", "-k", "-t", str(home / "alice.keytab"), f"alice@{REALM}"]
            eventually(lambda: subprocess.run(ready, env=everything, capture_output=True, timeout=20).returncode == 0)
            yield environment
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    pytest.importorskip("gssapi", reason="the extra gssapi is not installed", exc_type=ImportError)
    home, port = tmp_path_factory.mktemp("kerberos"), free_port()
    with kdc(home) as environment, pytest.MonkeyPatch.context() as patch:
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
