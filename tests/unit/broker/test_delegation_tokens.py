"""Delegation tokens over the protocol: who may make, see, keep alive and end which (KIP-48, KIP-373)."""

from __future__ import annotations

import random
from base64 import b64decode, b64encode
from typing import Any

import pytest

from ottla.broker.security.authentication import Authentication, Offer, SaslListener
from ottla.broker.security.mechanisms import MECHANISMS
from ottla.broker.security.offers import Means, OfferedAt
from ottla.broker.security.proofs import NoProofs
from ottla.broker.serving.authorization import Operation, Resource
from ottla.broker.serving.request import Peer
from ottla.broker.settings import SecurityProtocol
from ottla.cluster.tokens import MOST_BYTES_OF_ONE, DelegationToken
from ottla.sasl.clients import client_mechanism
from ottla.sasl.mechanism import Authenticated, Computed, Rejected
from ottla.sasl.oauthbearer import BadToken, OAuthBearerServer
from ottla.sasl.scram import ALGORITHMS, SHA_256, Algorithm
from ottla.wire.errors import (
    DELEGATION_TOKEN_AUTH_DISABLED,
    DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    DELEGATION_TOKEN_EXPIRED,
    DELEGATION_TOKEN_NOT_FOUND,
    DELEGATION_TOKEN_OWNER_MISMATCH,
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    INVALID_PRINCIPAL_TYPE,
    INVALID_REQUEST,
    NONE,
    POLICY_VIOLATION,
)
from tests.support.cluster_machine import ClusterMachine
from tests.support.machine import OpenMachine
from tests.support.messages import request

CREATE, RENEW, EXPIRE, DESCRIBE = 38, 39, 40, 41
HOUR = 3_600_000


class Rules:
    """What was allowed besides: (operation, resource, name) of whom."""

    def __init__(self) -> None:
        self.allowed: set[tuple[str, Operation, Resource, str]] = set()

    def allows(self, peer: Peer, operation: Operation, resource: Resource, name: str) -> bool:
        return (peer.principal, operation, resource, name) in self.allowed


class Tokens:
    """A broker with tokens, and people who have logged in."""

    def __init__(self, secret_key: str = "the key of all brokers") -> None:
        self.rules = Rules()
        self.machine = OpenMachine(authorizer=self.rules, delegation_token_secret_key=secret_key)
        self.log_in("alice")

    def log_in(self, name: str, *, by_token: bool = False) -> None:
        now, peer = self.machine.clock.now(), self.machine.peer
        peer.security_protocol, peer.principal = SecurityProtocol.SASL_PLAINTEXT, f"User:{name}"
        peer.authentication = Authentication(SaslListener({"TEST": Offer(lambda: OAuthBearerServer(lambda *_: BadToken("")))}), now)
        assert peer.authentication.handshake("TEST", now, is_bare=False) is None
        peer.authentication.apply_step(Authenticated(name, by_token=by_token), now)

    def ask(self, key: int, version: int = 2, **fields: Any) -> Any:
        return self.machine.ask(key, version, request(key, version, **fields))

    def create(self, *renewers: str, lifetime_ms: int = -1, version: int = 3, **owner: Any) -> Any:
        named = [{"principal_type": "User", "principal_name": name} for name in renewers]
        return self.ask(CREATE, version, renewers=named, max_lifetime_ms=lifetime_ms, **owner)

    def visible(self, *owners: str) -> list[str]:
        """The owners of the tokens that one sees."""
        asked = [{"principal_type": "User", "principal_name": name} for name in owners] if owners else None
        response = self.ask(DESCRIBE, 3, owners=asked)
        assert response.error_code == NONE
        return sorted(token.principal_name for token in response.tokens)


@pytest.fixture
def tokens() -> Tokens:
    return Tokens()


@pytest.mark.parametrize("version", range(4))
def test_a_token_is_made_told_in_full_and_proved_by_its_hmac(tokens: Tokens, version: int) -> None:
    made = tokens.create("bob", version=version)
    assert made.error_code == NONE
    assert (made.principal_type, made.principal_name) == ("User", "alice")
    assert (made.expiry_timestamp_ms - made.issue_timestamp_ms, made.max_timestamp_ms - made.issue_timestamp_ms) == (
        24 * HOUR,
        7 * 24 * HOUR,
    )
    assert len(made.hmac) == 64
    (told,) = tokens.ask(DESCRIBE, version, owners=None).tokens
    assert (told.token_id, told.hmac, told.expiry_timestamp) == (made.token_id, made.hmac, made.expiry_timestamp_ms)
    assert [renewer.principal_name for renewer in told.renewers] == ["bob"]
    login = tokens.machine.broker.tokens.login(made.token_id)
    assert login is not None
    assert (b64decode(login.password), login.owner, login.expiry_ms) == (made.hmac, "User:alice", made.expiry_timestamp_ms)


def test_tokens_outlive_a_restart_with_the_same_secret(tokens: Tokens) -> None:
    made = tokens.create()
    tokens.machine.restart()
    tokens.log_in("alice")
    assert tokens.ask(RENEW, hmac=made.hmac, renew_period_ms=-1).error_code == NONE
    assert made.hmac not in b"".join(entry.value for _, entry in tokens.machine.registry.tree.entries())


def test_who_may_ask_has_logged_in_and_not_with_a_token(tokens: Tokens) -> None:
    def codes() -> set[int]:
        return {
            tokens.create().error_code,
            tokens.ask(RENEW, hmac=b"x", renew_period_ms=-1).error_code,
            tokens.ask(EXPIRE, hmac=b"x", expiry_time_period_ms=-1).error_code,
            tokens.ask(DESCRIBE, owners=None).error_code,
        }

    peer = tokens.machine.peer
    tokens.log_in("alice", by_token=True)
    assert codes() == {DELEGATION_TOKEN_REQUEST_NOT_ALLOWED}
    peer.authentication, peer.security_protocol = None, SecurityProtocol.PLAINTEXT
    assert codes() == {DELEGATION_TOKEN_REQUEST_NOT_ALLOWED}
    peer.principal, peer.security_protocol = "User:ANONYMOUS", SecurityProtocol.SSL
    assert codes() == {DELEGATION_TOKEN_REQUEST_NOT_ALLOWED}
    peer.principal = "User:CN=alice"
    assert tokens.create().error_code == NONE


def test_without_the_secret_key_there_are_no_tokens() -> None:
    tokens = Tokens(secret_key="")
    assert tokens.create().error_code == DELEGATION_TOKEN_AUTH_DISABLED
    assert tokens.ask(RENEW, hmac=b"x", renew_period_ms=-1).error_code == DELEGATION_TOKEN_AUTH_DISABLED
    assert tokens.ask(DESCRIBE, owners=None).error_code == DELEGATION_TOKEN_AUTH_DISABLED


def test_a_token_for_somebody_else_needs_the_right_to_make_his(tokens: Tokens) -> None:
    bob: dict[str, Any] = {"owner_principal_type": "User", "owner_principal_name": "bob"}
    refused = tokens.create(**bob)
    assert (refused.error_code, refused.token_id, refused.hmac) == (DELEGATION_TOKEN_AUTHORIZATION_FAILED, "", b"")
    assert (refused.issue_timestamp_ms, refused.principal_name, refused.token_requester_principal_name) == (-1, "bob", "alice")
    tokens.rules.allowed.add(("User:alice", Operation.CREATE_TOKENS, Resource.USER, "User:bob"))
    made = tokens.create(**bob)
    assert (made.error_code, made.principal_name, made.token_requester_principal_name) == (NONE, "bob", "alice")
    assert tokens.visible() == [], "who asked for it neither owns nor renews it"


def test_only_users_renew(tokens: Tokens) -> None:
    renewers = [{"principal_type": "Group", "principal_name": "staff"}]
    assert tokens.ask(CREATE, renewers=renewers, max_lifetime_ms=-1).error_code == INVALID_PRINCIPAL_TYPE


def test_one_sees_ones_own_those_one_renews_and_those_one_was_allowed_to_see(tokens: Tokens) -> None:
    tokens.create("bob")
    tokens.log_in("carol")
    of_carol = tokens.create()
    tokens.log_in("bob")
    tokens.create()
    assert tokens.visible() == ["alice", "bob"]
    assert tokens.visible("alice", "carol") == ["alice"]
    assert tokens.ask(DESCRIBE, 3, owners=[]).tokens == []
    tokens.rules.allowed.add(("User:bob", Operation.DESCRIBE, Resource.DELEGATION_TOKEN, of_carol.token_id))
    assert tokens.visible() == ["alice", "bob", "carol"]
    tokens.log_in("dave")
    tokens.rules.allowed.add(("User:dave", Operation.DESCRIBE_TOKENS, Resource.USER, "User:alice"))
    assert tokens.visible() == ["alice"]


def test_a_token_is_kept_alive_and_ended_by_owner_and_renewers_alone(tokens: Tokens) -> None:
    made = tokens.create("bob", lifetime_ms=48 * HOUR)
    tokens.machine.pass_time(HOUR)
    tokens.log_in("bob")
    renewed = tokens.ask(RENEW, hmac=made.hmac, renew_period_ms=2 * HOUR)
    assert renewed.expiry_timestamp_ms == made.issue_timestamp_ms + 3 * HOUR
    tokens.log_in("eve")
    assert tokens.ask(RENEW, hmac=made.hmac, renew_period_ms=-1).error_code == DELEGATION_TOKEN_OWNER_MISMATCH
    assert tokens.ask(EXPIRE, hmac=made.hmac, expiry_time_period_ms=-1).error_code == DELEGATION_TOKEN_OWNER_MISMATCH
    tokens.log_in("alice")
    ended = tokens.ask(EXPIRE, hmac=made.hmac, expiry_time_period_ms=1000)
    assert ended.expiry_timestamp_ms == made.issue_timestamp_ms + HOUR + 1000
    gone = tokens.ask(EXPIRE, hmac=made.hmac, expiry_time_period_ms=-1)
    assert gone.expiry_timestamp_ms == made.issue_timestamp_ms + HOUR
    assert tokens.ask(RENEW, hmac=made.hmac, renew_period_ms=-1).error_code == DELEGATION_TOKEN_NOT_FOUND


@pytest.mark.parametrize("hmac", [b"", b"x", bytes(64), bytes(100_000)])
def test_what_proves_no_token_finds_none(tokens: Tokens, hmac: bytes) -> None:
    tokens.create()
    assert tokens.ask(RENEW, hmac=hmac, renew_period_ms=-1).error_code == DELEGATION_TOKEN_NOT_FOUND


def test_a_token_that_has_ended_cannot_be_renewed_and_is_swept_away(tokens: Tokens) -> None:
    machine = tokens.machine
    made = tokens.create(lifetime_ms=HOUR // 2)
    machine.pass_time(HOUR // 2 + 1)
    assert tokens.ask(RENEW, hmac=made.hmac, renew_period_ms=-1).error_code == DELEGATION_TOKEN_EXPIRED
    for _ in range(3):
        machine.pass_time(HOUR)
    assert not machine.broker.image.tokens
    assert machine.registry.get(f"/delegation_token/tokens/{made.token_id}") is None
    assert machine.broker.tokens.login(made.token_id) is None


def test_what_proved_tokens_that_are_gone_is_forgotten(tokens: Tokens) -> None:
    for _ in range(40):
        tokens.create(lifetime_ms=1)
    for _ in range(3):
        tokens.machine.pass_time(HOUR)
    assert len(tokens.machine.broker.tokens._proofs) == 0


def test_ids_can_stand_on_a_command_line(tokens: Tokens) -> None:
    assert not any(tokens.create().token_id.startswith("-") for _ in range(200))


def logged_in(tokens: Tokens, algorithm: Algorithm, token_id: str, hmac: bytes, *, token: bool = True) -> Authentication:
    """Log in as a client does with a token."""
    machine = tokens.machine
    settings = machine.broker.settings_in_force.value
    means = Means(random.Random(7).randbytes, machine.broker.credentials, machine.broker.tokens, NoProofs())
    begin = MECHANISMS[algorithm.name](OfferedAt(settings, "X", algorithm.name), means)
    authentication = Authentication(SaslListener({algorithm.name: Offer(begin)}), machine.clock.now())
    assert authentication.handshake(algorithm.name, machine.clock.now(), is_bare=False) is None
    client = client_mechanism(algorithm.name, token_id, b64encode(hmac).decode(), random.Random(8).randbytes, token=token)
    said = client.step(b"")
    while said is not None and authentication.is_under_way:
        step = authentication.step(said, machine.clock.now())
        outcome, _ = authentication.apply_step(step.work() if isinstance(step, Computed) else step, machine.clock.now())
        said = None if isinstance(outcome, Rejected) else client.step(outcome.data)
    return authentication


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)
def test_who_holds_a_token_logs_in_as_its_owner_until_it_ends(tokens: Tokens, algorithm: Algorithm) -> None:
    made = tokens.create(lifetime_ms=HOUR)
    for _ in range(2):
        authentication = logged_in(tokens, algorithm, made.token_id, made.hmac)
        assert (authentication.user, authentication.by_token) == ("alice", True)
    now = tokens.machine.clock.now().mono_ms
    assert authentication.is_open(now + HOUR - 1)
    assert not authentication.is_open(now + HOUR)
    tokens.machine.pass_time(HOUR)
    assert logged_in(tokens, algorithm, made.token_id, made.hmac).user is None, "it has ended"


def test_a_token_with_another_proof_or_gone_or_taken_for_a_user_lets_nobody_in(tokens: Tokens) -> None:
    made, other = tokens.create(), tokens.create()
    for token_id, hmac in [(made.token_id, other.hmac), ("unknown", made.hmac), ("alice", made.hmac)]:
        assert logged_in(tokens, SHA_256, token_id, hmac).user is None
    assert logged_in(tokens, SHA_256, made.token_id, made.hmac, token=False).user is None
    assert logged_in(tokens, SHA_256, made.token_id, made.hmac).user == "alice"
    tokens.ask(EXPIRE, hmac=made.hmac, expiry_time_period_ms=-1)
    assert logged_in(tokens, SHA_256, made.token_id, made.hmac).user is None


def test_only_the_controller_of_a_cluster_removes_tokens_that_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = ClusterMachine(delegation_token_secret_key="secret")
    machine.tell_brokers(1, 2, 3)
    tokens = machine.broker.image.tokens
    tokens["old"] = DelegationToken("old", "User:a", "User:a", (), 0, 1, 1)
    machine.pass_time(3_600_000)
    machine.pass_time(10)
    assert "old" in tokens
    monkeypatch.setattr(machine.broker.tokens, "_is_controller", lambda: True)
    machine.pass_time(3_600_000)
    machine.pass_time(10)
    assert machine.shared.entries.get("/delegation_token/tokens/old") is None


def test_tokens_take_no_more_memory_than_they_may() -> None:
    tokens = Tokens()
    assert tokens.create(*["r" * 5000] * 1500).error_code == INVALID_REQUEST
    assert tokens.create("r" * 5000).error_code == INVALID_REQUEST
    most = ["r" * 4000] * 15
    made = 0
    while (code := tokens.create(*most).error_code) == NONE:
        made += 1
        assert made < 1000
    assert code == POLICY_VIOLATION
    assert made * 60_000 <= MOST_BYTES_OF_ONE < (made + 2) * 65_000
    tokens.log_in("bob")
    assert tokens.create("carol").error_code == NONE


def test_a_principal_is_logged_on_one_line(caplog: pytest.LogCaptureFixture) -> None:
    tokens = Tokens()
    tokens.log_in("eve\n2026-01-01 INFO User:admin logged in")
    with caplog.at_level("DEBUG"):
        assert tokens.create("carol").error_code == NONE
    messages = [record.getMessage() for record in caplog.records]
    assert any("eve\\n2026" in message for message in messages)
    assert not any("\n" in message for message in messages)
