"""A SASL mechanism is a pair of handlers in one module: they set the principal that the authorizer is asked about."""

from __future__ import annotations

import pytest

from ottla.broker.serving.authorization import Operation, Resource
from ottla.broker.serving.later import Reply
from ottla.broker.serving.request import Peer, Request
from ottla.broker.serving.routes import serves
from ottla.wire.api.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.api.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.errors import NONE, SASL_AUTHENTICATION_FAILED, TOPIC_AUTHORIZATION_FAILED, UNSUPPORTED_SASL_MECHANISM
from tests.support.machine import OpenMachine
from tests.support.messages import request

CREATE_TOPICS, HANDSHAKE, AUTHENTICATE = 19, 17, 36
USERS = {"alice": "secret"}


@serves(SaslHandshakeRequest)
def sasl_handshake(request: Request[SaslHandshakeRequest]) -> Reply:
    is_plain = request.body.mechanism == "PLAIN"
    return SaslHandshakeResponse(error_code=NONE if is_plain else UNSUPPORTED_SASL_MECHANISM, mechanisms=["PLAIN"])


@serves(SaslAuthenticateRequest)
def sasl_authenticate(request: Request[SaslAuthenticateRequest]) -> Reply:
    """PLAIN (RFC 4616): an identity to act as, a name and a password, with a zero byte between each."""
    _, name, password = bytes(request.body.auth_bytes).decode().split("\0")
    if USERS.get(name) != password:
        return SaslAuthenticateResponse(error_code=SASL_AUTHENTICATION_FAILED, error_message="The name or the password is wrong.")
    request.peer.principal = f"User:{name}"
    return SaslAuthenticateResponse(error_message=None)


class OnlyAlice:
    """She may do everything, and nobody else anything."""

    def allows(self, peer: Peer, operation: Operation, resource: Resource, name: str) -> bool:
        return peer.principal == "User:alice"


@pytest.fixture
def machine() -> OpenMachine:
    return OpenMachine(routes=[sasl_handshake, sasl_authenticate], authorizer=OnlyAlice())


def create_topic(machine: OpenMachine) -> int:
    topics = [{"name": "t", "num_partitions": 1, "replication_factor": 1}]
    code: int = machine.ask(CREATE_TOPICS, 5, request(CREATE_TOPICS, 5, topics=topics)).topics[0].error_code
    return code


def authenticate(machine: OpenMachine, password: bytes) -> int:
    body = SaslAuthenticateRequest(auth_bytes=b"\0alice\0" + password)
    code: int = machine.ask(AUTHENTICATE, 2, body).error_code
    return code


def test_who_has_authenticated_may_do_what_others_may_not(machine: OpenMachine) -> None:
    assert machine.ask(HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN")).mechanisms == ["PLAIN"]
    assert create_topic(machine) == TOPIC_AUTHORIZATION_FAILED
    assert authenticate(machine, b"guess") == SASL_AUTHENTICATION_FAILED
    assert create_topic(machine) == TOPIC_AUTHORIZATION_FAILED
    assert authenticate(machine, b"secret") == NONE
    assert create_topic(machine) == NONE
