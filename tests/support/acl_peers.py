"""Brokers that keep rules of access, to be asked as one user or another: Ottla as a process or a machine, and Apache Kafka."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.apache_kafka import ApacheKafka, free_port
from ottla.broker.serving.request import Close
from ottla.broker.settings import SecurityProtocol
from ottla.broker.settings.broker_access import BY_RULES
from ottla.testing import BrokerProcess
from ottla.wire.api.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.api.sasl_handshake import SaslHandshakeRequest
from ottla.wire.framing import FrameHeader, decode_response, encode_request
from tests.support.acl_cases import ADMIN, CLOSED, USERS, Ask
from tests.support.jars import SOURCES, compile_java
from tests.support.machine import Machine
from tests.support.peers import QUICK
from tests.support.secured import plain_users
from tests.support.watched import served

RECEIVER = "TelemetryReceiver"
"""The class without which Apache Kafka does not serve the APIs of client metrics."""
PASSWORDS = {name: name for name in (ADMIN, *USERS)}
RULES_DECIDE = {"authorizer.class.name": BY_RULES[0], "super.users": f"User:{ADMIN};User:ANONYMOUS"}


class MachineOfUsers:
    """A machine that is asked by one user after the other, each as the one that a listener has found him to be."""

    def __init__(self, *, security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT, **settings: object) -> None:
        self.machine = Machine(**{name.replace(".", "_"): value for name, value in RULES_DECIDE.items()}, **settings)
        self._peer = replace(self.machine.peer, security_protocol=security_protocol)

    def ask(self, user: str, key: int, version: int, body: Any) -> Any:
        self.machine.peer = replace(self._peer, principal=f"User:{user}")
        answer = self.machine.ask(key, version, body)
        return CLOSED if isinstance(answer, Close) else answer


class SaslConnections:
    """A connection of each user, by SASL/PLAIN with his name as the password; each is opened anew when it was closed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._open: dict[str, socket.socket] = {}

    def ask(self, user: str, key: int, version: int, body: Any) -> Any:
        connection = self._open.get(user) or self._login(user)
        try:
            return self._asked(connection, key, version, body)
        except (EOFError, OSError):
            self._open.pop(user).close()
            return CLOSED

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()

    def _login(self, user: str) -> socket.socket:
        connection = self._open[user] = socket.create_connection(("127.0.0.1", self._port), timeout=60)
        shaken = self._asked(connection, 17, 1, SaslHandshakeRequest(mechanism="PLAIN"))
        assert not shaken.error_code, f"no SASL/PLAIN: {shaken}"
        said = self._asked(connection, 36, 1, SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{user}".encode()))
        assert not said.error_code, f"{user} is not let in: {said.error_message}"
        return connection

    @staticmethod
    def _asked(connection: socket.socket, key: int, version: int, body: Any) -> Any:
        for part in encode_request(FrameHeader(key, version, 1, "test"), body):
            connection.sendall(part)
        return decode_response(key, version, _read(connection, struct.unpack(">i", _read(connection, 4))[0]))[1]


def _read(connection: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        data = connection.recv(size - len(found))
        if not data:
            raise EOFError
        found += data
    return bytes(found)


@contextmanager
def ottla_with_users(home: Path, more: Mapping[str, object] | None = None) -> Iterator[int]:
    """A broker of Ottla's in a process of its own, with `more` settings: the port of its listener for SASL/PLAIN."""
    port = free_port()
    settings: dict[str, object] = {
        **QUICK,
        **(more or {}),
        **RULES_DECIDE,
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": plain_users(PASSWORDS),
    }
    listen = ("--listen", f"127.0.0.1:{port},security=SASL_PLAINTEXT,name=LOGIN")
    with BrokerProcess(home / "data", served(settings), arguments=listen):
        yield port


@contextmanager
def kafka_with_users(home: Path, more: Mapping[str, object] | None = None) -> Iterator[int]:
    """A real Apache Kafka with its StandardAuthorizer, which serves the APIs of client metrics: its port for SASL/PLAIN.

    `more` are further settings. Raises `Unavailable`.
    """
    kafka, port = ApacheKafka(home), free_port()
    classes = home / "classes"
    classes.mkdir(parents=True)
    kafka.class_path = compile_java([SOURCES / f"{RECEIVER}.java"], kafka.class_path, classes)
    kafka.settings = {
        **(more or {}),
        "metric.reporters": RECEIVER,
        **RULES_DECIDE,
        "listeners": (
            f"PLAINTEXT://{kafka.address},SASL_PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{kafka.controller_port}"
        ),
        "advertised.listeners": f"PLAINTEXT://{kafka.address},SASL_PLAINTEXT://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain_users(PASSWORDS),
        "connections.max.idle.ms": 600_000,
    }
    with kafka:
        yield port


@contextmanager
def ottla_of_users(home: Path, more: Mapping[str, object] | None = None) -> Iterator[Ask]:
    """Requests by SASL/PLAIN to a broker of Ottla's in a process of its own."""
    with ottla_with_users(home, more) as port, _connections(port) as ask:
        yield ask


@contextmanager
def kafka_of_users(home: Path, more: Mapping[str, object] | None = None) -> Iterator[Ask]:
    """Requests by SASL/PLAIN to a real Apache Kafka. Raises `Unavailable`."""
    with kafka_with_users(home, more) as port, _connections(port) as ask:
        yield ask


@contextmanager
def _connections(port: int) -> Iterator[Ask]:
    connections = SaslConnections(port)
    try:
        yield connections.ask
    finally:
        with suppress(OSError):
            connections.close()
