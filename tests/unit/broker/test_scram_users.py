"""SCRAM on a broker as a machine: credentials are set, told of, used to log in, and outlive a restart."""

from __future__ import annotations

import pytest

from ottla.broker.serving.request import Close, Peer
from ottla.cluster import layout
from ottla.ports import Change
from ottla.sasl.clients import client_mechanism
from ottla.sasl.mechanism import ClientMechanism
from ottla.sasl.scram import ALGORITHMS
from ottla.wire.errors import NONE, RESOURCE_NOT_FOUND, SASL_AUTHENTICATION_FAILED
from tests.support.machine import Outcome
from tests.support.messages import request
from tests.unit.broker.test_logins import AUTHENTICATE, LoginMachine, last_of

DESCRIBE, ALTER = 50, 51
SALT = bytes(range(26))


class ScramMachine(LoginMachine):
    """A broker with a listener for SCRAM, and with users."""

    def __init__(self, **settings: object) -> None:
        super().__init__(**{"sasl.enabled.mechanisms": ",".join(ALGORITHMS)}, **settings)

    def as_operator(self, key: int, body: Outcome) -> Outcome:
        """Ask on a connection that needs no login."""
        peer, self.peer = self.peer, Peer(99, "127.0.0.1", 50001)
        answer = self.ask(key, 0, body)
        self.peer = peer
        return answer

    def add(self, user: str, password: str, mechanism: str = "SCRAM-SHA-256", iterations: int = 4096) -> int:
        algorithm = ALGORITHMS[mechanism]
        salted = algorithm.salt_password(password, SALT, iterations)
        one = {"name": user, "mechanism": algorithm.number, "iterations": iterations, "salt": SALT, "salted_password": salted}
        code: int = self.as_operator(ALTER, request(ALTER, 0, deletions=[], upsertions=[one])).results[0].error_code
        return code

    def remove(self, user: str, mechanism: str = "SCRAM-SHA-256") -> int:
        one = {"name": user, "mechanism": ALGORITHMS[mechanism].number}
        code: int = self.as_operator(ALTER, request(ALTER, 0, deletions=[one], upsertions=[])).results[0].error_code
        return code

    def told(self, *users: str) -> dict[str, Outcome]:
        """What is told of these users, or of all."""
        names = [{"name": user} for user in users] if users else None
        answer = self.as_operator(DESCRIBE, request(DESCRIBE, 0, users=names))
        return {each.user: each for each in answer.results}

    def prove(self, client: ClientMechanism, mechanism: str) -> Outcome:
        """Log in as a client does; the last answer."""
        assert self.handshake(mechanism).error_code == NONE
        said, answer = client.step(b""), None
        while said is not None:
            answer = self.token(said)
            if isinstance(answer, Close):
                return answer
            said = client.step(bytes(answer.auth_bytes))
        return answer

    def scram(self, user: str, password: str, mechanism: str = "SCRAM-SHA-256") -> Outcome:
        return self.prove(client_mechanism(mechanism, user, password, self.broker.random_bytes), mechanism)


@pytest.fixture
def machine() -> ScramMachine:
    return ScramMachine()


@pytest.mark.parametrize("mechanism", ALGORITHMS)
def test_a_user_logs_in_with_his_password(machine: ScramMachine, mechanism: str) -> None:
    assert machine.add("alice", "secret", mechanism) == NONE
    assert machine.scram("alice", "secret", mechanism).error_code == NONE
    assert machine.peer.principal == "User:alice"
    assert machine.metadata().controller_id == 1


@pytest.mark.parametrize("mechanism", ALGORITHMS)
def test_a_credential_is_good_for_its_own_mechanism_alone(machine: ScramMachine, mechanism: str) -> None:
    (other,) = ALGORITHMS.keys() - {mechanism}
    machine.add("alice", "secret", mechanism)
    told = last_of(machine.scram("alice", "secret", other), AUTHENTICATE, 2)
    assert told.error_code == SASL_AUTHENTICATION_FAILED


def test_unknown_users_and_wrong_passwords_hear_the_same(machine: ScramMachine) -> None:
    machine.add("alice", "secret")
    wrong = last_of(machine.scram("alice", "guess"), AUTHENTICATE, 2)
    machine.connect()
    unknown = last_of(machine.scram("bob", "guess"), AUTHENTICATE, 2)
    assert wrong.error_code == SASL_AUTHENTICATION_FAILED
    assert wrong == unknown


@pytest.mark.parametrize("name", ["Alice", "alice ", "ali\u0441e", "alice\u200b", "\uff41lice", "a", "alicex", "<default>"])
def test_names_are_compared_letter_by_letter(machine: ScramMachine, name: str) -> None:
    machine.add("alice", "secret")
    assert isinstance(machine.scram(name, "secret"), Close)


def test_quotas_of_everybody_are_no_credential(machine: ScramMachine) -> None:
    assert isinstance(machine.scram("<default>", "secret"), Close)


def test_a_password_can_be_changed_and_removed(machine: ScramMachine) -> None:
    machine.add("alice", "secret")
    machine.add("alice", "other")
    assert isinstance(machine.scram("alice", "secret"), Close)
    machine.connect()
    assert machine.scram("alice", "other").error_code == NONE
    assert machine.remove("alice") == NONE
    assert machine.remove("alice") == RESOURCE_NOT_FOUND
    machine.connect()
    assert isinstance(machine.scram("alice", "other"), Close)


def test_credentials_outlive_a_restart(machine: ScramMachine) -> None:
    machine.add("alice", "secret")
    machine.restart()
    machine.broker.logins.open("IN")
    machine.connect()
    assert machine.scram("alice", "secret").error_code == NONE


def test_of_users_it_is_told_what_they_have_and_no_secret(machine: ScramMachine) -> None:
    machine.add("alice", "secret", "SCRAM-SHA-512", 8192)
    machine.add("bob", "secret")
    assert machine.told().keys() == {"alice", "bob"}
    infos = machine.told("alice")["alice"].credential_infos
    assert [(info.mechanism, info.iterations) for info in infos] == [(2, 8192)]
    assert machine.told("carol")["carol"].error_code == RESOURCE_NOT_FOUND


def test_bare_tokens_carry_scram_for_old_clients(machine: ScramMachine) -> None:
    machine.add("alice", "secret")
    client = client_mechanism("SCRAM-SHA-256", "alice", "secret", machine.broker.random_bytes)
    machine.handshake("SCRAM-SHA-256", version=0)
    said = client.step(b"")
    while said is not None:
        said = client.step(b"".join(machine.bare(said))[4:])
    assert machine.peer.principal == "User:alice"


def test_what_one_login_said_does_not_let_another_in(machine: ScramMachine) -> None:
    machine.add("alice", "secret")
    heard: list[bytes] = []

    class Recorder:
        """A client that notes what it says."""

        def __init__(self) -> None:
            self._client = client_mechanism("SCRAM-SHA-256", "alice", "secret", machine.broker.random_bytes)

        def step(self, challenge: bytes) -> bytes | None:
            said = self._client.step(challenge)
            heard.extend([said] if said else [])
            return said

    assert machine.prove(Recorder(), "SCRAM-SHA-256").error_code == NONE
    machine.connect()
    machine.handshake("SCRAM-SHA-256")
    assert machine.token(heard[0]).error_code == NONE
    assert isinstance(machine.token(heard[1]), Close)


def challenge(machine: ScramMachine, user: str, mechanism: str = "SCRAM-SHA-256") -> list[str]:
    """Return salt and iterations that the broker sends to somebody who claims to be this user."""
    machine.connect()
    assert machine.handshake(mechanism).error_code == NONE
    answer = machine.token(f"n,,n={user},r=client".encode())
    return bytes(answer.auth_bytes).decode().split(",")[1:]


def test_salts_of_unknown_users_stay_the_same_whatever_becomes_of_others(machine: ScramMachine) -> None:
    """Whose salt changes with that of another user does not exist: anybody who watches for a while could tell."""
    machine.add("bob", "secret", iterations=8192)
    first = challenge(machine, "mallory")
    assert first != challenge(machine, "trudy")
    assert first[1] == challenge(machine, "bob")[1] == "i=8192"
    assert len(first[0]) == len(challenge(machine, "bob")[0])
    machine.add("bob", "other", iterations=4096)
    machine.add("alice", "secret", iterations=16384)
    assert challenge(machine, "mallory") == first
    machine.remove("bob")
    machine.remove("alice")
    assert challenge(machine, "mallory") == first
    machine.restart()
    machine.broker.logins.open("IN")
    assert challenge(machine, "mallory") == first


def test_salts_of_unknown_users_differ_by_mechanism_and_look_like_real_ones_of_it(machine: ScramMachine) -> None:
    machine.add("alice", "secret", "SCRAM-SHA-256", 5000)
    of_256 = challenge(machine, "mallory")
    machine.add("alice", "secret", "SCRAM-SHA-512", 6000)
    of_512 = challenge(machine, "mallory", "SCRAM-SHA-512")
    assert of_256 == challenge(machine, "mallory")
    assert [of_256[1], of_512[1]] == ["i=5000", "i=6000"]
    assert of_256[0] != of_512[0]


def test_two_listeners_have_one_salt_for_an_unknown_user(machine: ScramMachine) -> None:
    first = challenge(machine, "mallory")
    machine.broker.logins.open("IN")
    assert challenge(machine, "mallory") == first


def test_credentials_of_a_registry_without_the_secret_give_their_likeness_at_the_start(machine: ScramMachine) -> None:
    machine.add("alice", "secret", iterations=7000)
    machine.registry.commit([Change(layout.UNKNOWN_USERS, None)])
    machine.restart()
    machine.broker.logins.open("IN")
    assert challenge(machine, "mallory")[1] == "i=7000"
    assert machine.registry.get(layout.UNKNOWN_USERS) is not None
