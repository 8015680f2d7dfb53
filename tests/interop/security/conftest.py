"""One broker with users, for all tests of a module: a listener for its operator, and one where everybody logs in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.apache_kafka import free_port
from ottla.testing import BrokerProcess
from tests.support.peers import QUICK
from tests.support.secured import HOST, MECHANISMS, PASSWORD, SCRAM_USERS, USER, Certificates, plain_users
from tests.support.watched import served

SHORT_MS = 1_500
"""How long a login counts on the listener RENEWED, which speaks TLS as ENCRYPTED does."""


@dataclass(frozen=True, slots=True)
class Users:
    """Where users log in, where an operator need not, the process behind both, and whom to trust where there is TLS."""

    broker: BrokerProcess
    login: str
    renewed: str
    encrypted: str
    authority: Path

    @property
    def operator(self) -> str:
        return self.broker.address


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    """A broker whose user `USER` has the password `PASSWORD` for PLAIN, and no SCRAM credentials yet."""
    ports = {name: free_port() for name in ("LOGIN", "RENEWED", "ENCRYPTED")}
    home = tmp_path_factory.mktemp("users")
    certificates = Certificates(home)
    settings: dict[str, object] = {
        **QUICK,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": certificates.server,
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.renewed.connections.max.reauth.ms": SHORT_MS,
    }
    for name in ports:
        settings[f"listener.name.{name.lower()}.plain.sasl.jaas.config"] = plain_users({USER: PASSWORD})
        settings[f"listener.name.{name.lower()}.scram-sha-256.sasl.jaas.config"] = SCRAM_USERS
    spoken = {name: "SASL_PLAINTEXT" if name == "LOGIN" else "SASL_SSL" for name in ports}
    listen = [word for name, port in ports.items() for word in ("--listen", f"{HOST}:{port},security={spoken[name]},name={name}")]
    with BrokerProcess(home / "data", served(settings), arguments=listen) as broker:
        addresses = {name.lower(): f"{HOST}:{port}" for name, port in ports.items()}
        yield Users(broker, authority=certificates.trust_store, **addresses)
