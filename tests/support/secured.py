"""A broker with a listener of each kind of security, its certificates and its users, for tests of clients.

The same settings are given to Ottla and to Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from bench.apache_kafka import ApacheKafka, Unavailable, free_port
from ottla.testing import BrokerProcess
from tests.support.peers import Peer

HOST = "127.0.0.1"
USER, PASSWORD = "alice", "al;ice's secret"
PLAINTEXT, SSL, MTLS, SASL_SSL, SASL_PLAINTEXT, SHORT = LISTENERS = (
    "PLAINTEXT", "SSL", "MTLS", "SASL_SSL", "SASL_PLAINTEXT", "SHORT"
)  # fmt: skip
"""SHORT lets a login count for a moment, and knows SCRAM-SHA-512 alone."""
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PROTOCOLS = {MTLS: SSL, SHORT: SASL_PLAINTEXT}
SHORT_MS = 1500


def private_key(issued: trustme.LeafCert) -> bytes:
    """As PKCS#8, which is all that Java reads."""
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def key_store(issued: trustme.LeafCert) -> bytes:
    """Key and certificates as one PEM file."""
    return private_key(issued) + b"".join(each.bytes() for each in issued.cert_chain_pems)


class Certificates:
    """One authority, and the files of a server for `HOST` and of a client."""

    def __init__(self, home: Path, *names: str) -> None:
        self.authority = trustme.CA()
        self.trust_store, self.server, self.client = (home / name for name in ("authority.pem", "server.pem", "client.pem"))
        self.authority.cert_pem.write_to_path(self.trust_store)
        self.server.write_bytes(key_store(self.authority.issue_cert(*(names or (HOST, "localhost")))))
        self.client.write_bytes(key_store(self.authority.issue_cert("client.example", common_name="client")))


def plain_users(users: Mapping[str, str]) -> str:
    """The login module that knows users and passwords of a listener."""
    known = " ".join(f'user_{name}="{password}"' for name, password in users.items())
    return f"org.apache.kafka.common.security.plain.PlainLoginModule required {known};"


SCRAM_USERS = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@dataclass(frozen=True, slots=True)
class Secured:
    """Where a broker's listeners are, by name, and what to trust."""

    ports: Mapping[str, int]
    certificates: Certificates

    def at(self, listener: str) -> str:
        return f"{HOST}:{self.ports[listener]}"


def settings(secured: Secured) -> dict[str, object]:
    """Of a broker, as in a server.properties."""
    made: dict[str, object] = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": secured.certificates.server,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": secured.certificates.trust_store,
        "listener.name.mtls.ssl.client.auth": "required",
        "listener.name.short.connections.max.reauth.ms": SHORT_MS,
    }
    for listener in (SASL_SSL, SASL_PLAINTEXT, SHORT):
        prefix = f"listener.name.{listener.lower()}"
        made[f"{prefix}.sasl.enabled.mechanisms"] = ",".join(MECHANISMS[-1:] if listener == SHORT else MECHANISMS)
        made[f"{prefix}.plain.sasl.jaas.config"] = plain_users({USER: PASSWORD})
        for size in (256, 512):
            made[f"{prefix}.scram-sha-{size}.sasl.jaas.config"] = SCRAM_USERS
    return made


@contextmanager
def started(peer: str, home: Path) -> Iterator[Secured]:
    """A broker with all `LISTENERS`. Skips the test where Apache Kafka cannot be had."""
    secured = Secured({name: free_port() for name in LISTENERS}, Certificates(home))
    made = settings(secured)
    if peer == "ottla":
        more = [("--listen", f"{secured.at(name)},name={name},security={PROTOCOLS.get(name, name)}") for name in LISTENERS[1:]]
        serving: AbstractContextManager[Peer] = BrokerProcess(
            home / "data", made, port=secured.ports[PLAINTEXT], arguments=[word for pair in more for word in pair]
        )
    else:
        serving = _apache_kafka(home, secured, made)
    with serving:
        yield secured


def _apache_kafka(home: Path, secured: Secured, made: dict[str, object]) -> AbstractContextManager[Peer]:
    try:
        kafka = ApacheKafka(home / "kafka", made)
    except Unavailable as missing:
        pytest.skip(f"no Apache Kafka: {missing}")
    kafka.port = secured.ports[PLAINTEXT]
    addresses = ",".join(f"{name}://{secured.at(name)}" for name in LISTENERS)
    kafka.settings |= {
        "listeners": f"{addresses},CONTROLLER://{HOST}:{kafka.controller_port}",
        "advertised.listeners": addresses,
        "listener.security.protocol.map": ",".join(
            ["CONTROLLER:PLAINTEXT", *(f"{name}:{PROTOCOLS.get(name, name)}" for name in LISTENERS)]
        ),
    }
    return kafka
