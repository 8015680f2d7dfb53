"""What a connection on a listener with SASL may do before it has logged in, while it does, and after; on a broker as a machine."""

from __future__ import annotations

from base64 import b64encode
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.serving.purgatory import DelayedReply
from ottla.broker.serving.request import Close, Peer
from ottla.broker.settings import SettingError
from ottla.ports import FileSlice
from ottla.wire.api.api_versions import ApiVersionsRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.api.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.errors import ILLEGAL_SASL_STATE, INVALID_REQUEST, NONE, SASL_AUTHENTICATION_FAILED, UNSUPPORTED_SASL_MECHANISM
from ottla.wire.framing import decode_response
from tests.support.machine import Machine, Outcome
from tests.support.messages import request

HANDSHAKE, AUTHENTICATE, VERSIONS, METADATA, INCREMENTAL_ALTER_CONFIGS = 17, 36, 18, 3, 44
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret" user_bob="word";'
VERSIONS_ASKED = ApiVersionsRequest(client_software_name="test", client_software_version="1")
PLAIN = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.security.protocol.map": "IN:SASL_PLAINTEXT",
    "listener.name.in.plain.sasl.jaas.config": JAAS,
}


class LoginMachine(Machine):
    """A broker with one listener, IN, and one connection to it."""

    def __init__(self, **settings: object) -> None:
        super().__init__(**PLAIN | settings)
        self.broker.logins.open("IN")
        self.connect()

    def connect(self) -> None:
        """Begin a new connection."""
        self.peer = Peer(self.peer.id + 1, "127.0.0.1", 50000, listener="IN", authentication=self.broker.logins.begin("IN"))

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Outcome:
        return self.ask(HANDSHAKE, version, SaslHandshakeRequest(mechanism=mechanism))

    def token(self, data: bytes, version: int = 2) -> Outcome:
        return self.ask(AUTHENTICATE, version, SaslAuthenticateRequest(auth_bytes=data))

    def login(self, name: str = "alice", password: str = "secret") -> Outcome:
        assert self.handshake().error_code == NONE
        return self.token(f"\0{name}\0{password}".encode())

    def metadata(self) -> Outcome:
        return self.ask(METADATA, 12, MetadataRequest(topics=[]))

    def bare(self, frame: bytes) -> Outcome:
        """Send a frame that is no request, and let time pass until it is answered."""
        answer = self.broker.receive(memoryview(frame), self.peer, self.clock.now())
        while isinstance(answer, DelayedReply) and not answer.done:
            self.pass_time(100)
        return answer.answer if isinstance(answer, DelayedReply) else answer


@pytest.fixture
def machine() -> LoginMachine:
    return LoginMachine()


MANY = LoginMachine(sasl_enabled_mechanisms="PLAIN,SCRAM-SHA-256,SCRAM-SHA-512")
"""For many short connections."""


def last_of(answer: Outcome, key: int, version: int) -> Outcome:
    """What is said before the connection is closed."""
    assert isinstance(answer, Close)
    parts = [part.read() if isinstance(part, FileSlice) else part for part in answer.parts]
    return decode_response(key, version, b"".join(parts)[4:])[1]


def test_who_has_logged_in_is_served_under_its_name(machine: LoginMachine) -> None:
    assert machine.ask(VERSIONS, 3, VERSIONS_ASKED).error_code == NONE
    assert machine.handshake() == SaslHandshakeResponse(mechanisms=["PLAIN"])
    assert machine.peer.principal == "User:ANONYMOUS"
    assert machine.token(b"\0alice\0secret") == SaslAuthenticateResponse(error_message=None)
    assert machine.peer.principal == "User:alice"
    assert machine.metadata().controller_id == 1
    assert machine.ask(VERSIONS, 3, VERSIONS_ASKED).error_code == NONE


def test_nobody_is_served_before(machine: LoginMachine) -> None:
    assert isinstance(machine.metadata(), Close)
    machine.connect()
    machine.ask(VERSIONS, 3, VERSIONS_ASKED)
    assert isinstance(machine.metadata(), Close)
    machine.connect()
    machine.handshake()
    assert isinstance(machine.metadata(), Close)
    machine.connect()
    assert isinstance(machine.token(b"\0alice\0secret"), Close)


def test_after_the_end_nothing_is_served_though_the_password_is_right(machine: LoginMachine) -> None:
    assert isinstance(machine.login(password="guess"), Close)
    for answer in (machine.handshake(), machine.token(b"\0alice\0secret"), machine.metadata(), machine.bare(b"\0alice\0secret")):
        assert isinstance(answer, Close)
    assert machine.peer.principal == "User:ANONYMOUS"


def test_versions_are_told_once_and_then_a_handshake_follows(machine: LoginMachine) -> None:
    assert machine.ask(VERSIONS, 3, ApiVersionsRequest()).error_code
    assert machine.ask(VERSIONS, 3, VERSIONS_ASKED).error_code == NONE
    assert isinstance(machine.ask(VERSIONS, 3, VERSIONS_ASKED), Close)


def test_a_wrong_password_is_told_late_and_ends_the_connection() -> None:
    machine = LoginMachine(connection_failed_authentication_delay_ms=700)
    machine.handshake()
    answer = machine.begin(AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=b"\0alice\0guess"))
    assert isinstance(answer, DelayedReply)
    assert answer.blocking
    machine.pass_time(600)
    assert not answer.done
    machine.pass_time(100)
    assert answer.done
    told = last_of(answer.answer, AUTHENTICATE, 2)
    assert told.error_code == SASL_AUTHENTICATION_FAILED
    assert told.error_message == "The name or the password is wrong."


def test_an_unknown_user_hears_what_one_with_a_wrong_password_hears(machine: LoginMachine) -> None:
    wrong = last_of(machine.login(password="guess"), AUTHENTICATE, 2)
    machine.connect()
    assert last_of(machine.login("mallory"), AUTHENTICATE, 2) == wrong


def test_an_unknown_mechanism_is_told_those_that_are_known(machine: LoginMachine) -> None:
    told = last_of(machine.handshake("SCRAM-SHA-256"), HANDSHAKE, 1)
    assert told == SaslHandshakeResponse(error_code=UNSUPPORTED_SASL_MECHANISM, mechanisms=["PLAIN"])


def test_mechanisms_are_named_exactly(machine: LoginMachine) -> None:
    for name in ("plain", "PLAIN ", "", "PLAIN\0", "\uff30LAIN"):
        machine.connect()
        assert isinstance(machine.handshake(name), Close)


def test_after_a_handshake_of_version_0_tokens_are_frames_of_their_own(machine: LoginMachine) -> None:
    assert machine.handshake(version=0).mechanisms == ["PLAIN"]
    assert b"".join(machine.bare(b"\0alice\0secret")) == pack(">i", 0)
    assert machine.peer.principal == "User:alice"
    assert machine.metadata().controller_id == 1


def test_a_wrong_bare_token_is_answered_by_the_end_alone(machine: LoginMachine) -> None:
    machine.handshake(version=0)
    answer = machine.bare(b"\0alice\0guess")
    assert isinstance(answer, Close)
    assert not answer.parts


def test_a_request_in_place_of_a_bare_token_is_taken_for_one(machine: LoginMachine) -> None:
    machine.handshake(version=0)
    assert isinstance(machine.metadata(), Close)


@pytest.mark.parametrize("frame", [b"", b"\0", b"\0\x11", b"\0\x11\0\1", b"\x60\x82", b"\0alice\0secret", b"\xff" * 40])
def test_frames_that_are_no_requests_end_the_connection(machine: LoginMachine, frame: bytes) -> None:
    assert isinstance(machine.bare(frame), Close)


def test_a_login_without_an_end_is_not_repeated(machine: LoginMachine) -> None:
    machine.login()
    assert machine.handshake().error_code == ILLEGAL_SASL_STATE
    assert machine.token(b"\0bob\0word").error_code == ILLEGAL_SASL_STATE
    assert machine.peer.principal == "User:alice"
    assert machine.metadata().controller_id == 1


@pytest.fixture
def renewing() -> LoginMachine:
    """A broker where a login counts for ten seconds, with a client that has logged in."""
    machine = LoginMachine(connections_max_reauth_ms=10_000)
    assert machine.login().session_lifetime_ms == 10_000
    return machine


def test_a_session_that_has_ended_serves_nothing_but_another_login(renewing: LoginMachine) -> None:
    renewing.pass_time(9_900)
    assert renewing.metadata().controller_id == 1
    renewing.pass_time(200)
    assert isinstance(renewing.metadata(), Close)
    assert renewing.login().session_lifetime_ms == 10_000
    assert renewing.metadata().controller_id == 1


def test_a_login_in_time_renews_the_session(renewing: LoginMachine) -> None:
    for _ in range(5):
        renewing.pass_time(8_000)
        assert renewing.login().error_code == NONE
        assert renewing.metadata().controller_id == 1


def test_nobody_becomes_somebody_else_by_logging_in_again(renewing: LoginMachine) -> None:
    renewing.pass_time(8_000)
    assert last_of(renewing.login("bob", "word"), AUTHENTICATE, 2).error_code == SASL_AUTHENTICATION_FAILED
    assert renewing.peer.principal == "User:alice"
    assert isinstance(renewing.metadata(), Close)


def test_nothing_else_is_served_while_somebody_logs_in_again(renewing: LoginMachine) -> None:
    renewing.pass_time(8_000)
    renewing.handshake()
    assert isinstance(renewing.metadata(), Close)


def test_nobody_logs_in_again_at_once(renewing: LoginMachine) -> None:
    assert renewing.handshake().error_code == ILLEGAL_SASL_STATE
    assert renewing.metadata().controller_id == 1


def test_a_mechanism_is_kept_when_somebody_logs_in_again() -> None:
    machine = LoginMachine(connections_max_reauth_ms=10_000, sasl_enabled_mechanisms="PLAIN,SCRAM-SHA-256")
    machine.login()
    machine.pass_time(8_000)
    assert last_of(machine.handshake("SCRAM-SHA-256"), HANDSHAKE, 1).error_code == UNSUPPORTED_SASL_MECHANISM


def test_frames_are_short_before_a_login(machine: LoginMachine) -> None:
    login = machine.peer.authentication
    assert login is not None
    assert login.most_bytes == 65536
    machine.login()
    assert login.most_bytes is None
    small = LoginMachine(sasl_server_max_receive_size=100).peer.authentication
    assert small is not None
    assert small.most_bytes == 100


def test_who_does_not_log_in_is_not_waited_for() -> None:
    machine = LoginMachine()
    login = machine.peer.authentication
    assert login is not None
    machine.pass_time(60_000)
    assert not login.is_late(machine.clock.now().mono_ms)
    machine.pass_time(1)
    assert login.is_late(machine.clock.now().mono_ms)
    machine.login()
    assert not login.is_late(machine.clock.now().mono_ms)


def set_users(machine: LoginMachine, jaas: str) -> int:
    """Change the users of PLAIN while the broker runs, as `kafka-configs` does."""
    name, peer = "listener.name.in.plain.sasl.jaas.config", machine.peer
    machine.peer = Peer(99, "127.0.0.1", 50001)
    configs = [{"name": name, "config_operation": 0, "value": jaas}]
    resource = {"resource_type": 4, "resource_name": "1", "configs": configs}
    answer = machine.ask(INCREMENTAL_ALTER_CONFIGS, 1, request(INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource]))
    machine.peer = peer
    code: int = answer.responses[0].error_code
    return code


def test_users_of_plain_change_while_the_broker_runs(machine: LoginMachine) -> None:
    assert set_users(machine, JAAS.replace("user_bob", "user_carol")) == NONE
    machine.connect()
    assert machine.login("carol", "word").error_code == NONE
    machine.connect()
    assert isinstance(machine.login("bob", "word"), Close)


def test_users_that_are_none_are_refused_and_leave_those_there_were(machine: LoginMachine) -> None:
    assert set_users(machine, JAAS[:-1]) == INVALID_REQUEST
    machine.connect()
    assert machine.login().error_code == NONE


STEPS = st.one_of(
    st.tuples(st.just("handshake"), st.sampled_from(["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", ""]), st.integers(0, 1)),
    st.tuples(st.just("token"), st.sampled_from([b"", b"\0alice\0guess", b"n,,n=alice,r=x", b"c=biws,r=x,p="]), st.integers(0, 2)),
    st.tuples(st.just("bare"), st.binary(max_size=40), st.just(0)),
    st.tuples(st.just("versions"), st.just(b""), st.integers(0, 4)),
    st.tuples(st.just("metadata"), st.just(b""), st.just(12)),
)


@given(st.lists(STEPS, max_size=8))
def test_no_order_of_frames_lets_anybody_in_without_a_password(steps: list[tuple[str, str | bytes, int]]) -> None:
    MANY.connect()
    for kind, what, version in steps:
        if kind == "handshake":
            answer = MANY.handshake(str(what), version)
        elif kind == "versions":
            answer = MANY.ask(VERSIONS, version, VERSIONS_ASKED)
        elif kind == "metadata":
            assert isinstance(MANY.metadata(), Close)
            break
        else:
            data = what if isinstance(what, bytes) else b""
            answer = MANY.token(data, version) if kind == "token" else MANY.bare(data)
        if isinstance(answer, Close):
            break
    assert MANY.peer.principal == "User:ANONYMOUS"
    assert MANY.broker.changes.mistakes == 0


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"sasl.enabled.mechanisms": ""}, "set sasl.enabled.mechanisms"),
        ({"sasl.enabled.mechanisms": "MD5"}, "'MD5' in sasl.enabled.mechanisms is not a supported SASL mechanism"),
        (
            {"listener.name.in.plain.sasl.jaas.config": ""},
            "PLAIN has no users on listener IN: set listener.name.in.plain.sasl.jaas",
        ),
        ({"listener.name.in.plain.sasl.jaas.config": JAAS[:-1]}, "listener.name.in.plain.sasl.jaas.config does not end with"),
        ({"listener.name.in.plain.sasl.jaas.config": JAAS.replace("Plain", "Scram")}, "has no users of PLAIN"),
        ({"listener.name.in.plain.sasl.jaas.config": JAAS.replace("user_", "")}, "has no users of PLAIN"),
    ],
)
def test_what_is_wrong_with_a_listener_is_said_at_the_start_without_a_password(settings: dict[str, str], sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence) as refused:
        LoginMachine(**settings)
    assert "secret" not in str(refused.value)
    assert b64encode(b"secret").decode() not in str(refused.value)
