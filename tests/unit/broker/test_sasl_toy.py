"""A SASL mechanism is one entry of a table: a machine that is told a client's bytes, and says who the client is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.broker.security.mechanisms import MECHANISMS
from ottla.broker.security.offers import Means, OfferedAt
from ottla.broker.serving.authorization import Operation, Resource
from ottla.broker.serving.request import Close, Peer
from ottla.sasl.mechanism import Authenticated, Challenge, Computed, Rejected, Step
from ottla.wire.api.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.api.sasl_handshake import SaslHandshakeRequest
from ottla.wire.errors import NONE, TOPIC_AUTHORIZATION_FAILED
from tests.support.machine import OpenMachine
from tests.support.messages import request

CREATE_TOPICS, HANDSHAKE, AUTHENTICATE = 19, 17, 36


class Riddle:
    """Whoever knows the answer is the one that he says; finding out takes the processor for long."""

    def __init__(self) -> None:
        self._name = ""

    def step(self, data: bytes, wall_ms: int) -> Step:
        if not self._name:
            self._name = data.decode()
            return Challenge(b"six by nine")
        return Computed(lambda: Authenticated(self._name, b"right") if data == b"42" else Rejected("its answer is wrong"))


def riddles(at: OfferedAt, means: Means) -> Callable[[], Riddle]:
    return Riddle


class OnlyAlice:
    """She may do everything, and nobody else anything."""

    def allows(self, peer: Peer, operation: Operation, resource: Resource, name: str) -> bool:
        return peer.principal == "User:alice"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> OpenMachine:
    monkeypatch.setitem(MECHANISMS, "RIDDLE", riddles)
    return OpenMachine(authorizer=OnlyAlice(), sasl_enabled_mechanisms="RIDDLE")


def connect(machine: OpenMachine) -> None:
    machine.broker.logins.open("IN")
    machine.peer = Peer(2, "127.0.0.1", 50001, listener="IN", authentication=machine.broker.logins.begin("IN"))
    assert machine.ask(HANDSHAKE, 1, SaslHandshakeRequest(mechanism="RIDDLE")).mechanisms == ["RIDDLE"]


def create_topic(machine: OpenMachine) -> int:
    topics = [{"name": "t", "num_partitions": 1, "replication_factor": 1}]
    code: int = machine.ask(CREATE_TOPICS, 5, request(CREATE_TOPICS, 5, topics=topics)).topics[0].error_code
    return code


def token(machine: OpenMachine, data: bytes) -> bytes | None:
    """What is said to a token; None if that is the end."""
    answer = machine.ask(AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=data))
    return None if isinstance(answer, Close) else bytes(answer.auth_bytes)


def test_who_has_authenticated_may_do_what_others_may_not(machine: OpenMachine) -> None:
    assert create_topic(machine) == TOPIC_AUTHORIZATION_FAILED
    connect(machine)
    assert token(machine, b"alice") == b"six by nine"
    assert token(machine, b"42") == b"right"
    assert create_topic(machine) == NONE


def test_who_has_not_is_sent_away(machine: OpenMachine) -> None:
    connect(machine)
    token(machine, b"alice")
    assert token(machine, b"54") is None
    assert machine.peer.principal == "User:ANONYMOUS"
