"""SCRAM against the examples of its RFCs, a client against a server, and servers and clients that lie."""

from __future__ import annotations

from base64 import b64encode
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.sasl.clients import client_mechanism
from ottla.sasl.dummy_credentials import dummy_credential
from ottla.sasl.mechanism import Authenticated, Challenge, ClientMechanism, Computed, Rejected, SaslFailed, ServerMechanism, Step
from ottla.sasl.scram import ALGORITHMS, SHA_256, SHA_512, Algorithm, credential_of, nonce, xor
from ottla.sasl.scram_client import ScramClient
from ottla.sasl.scram_server import Account, ScramServer

SALT = bytes(range(16))


def account(name: str, password: str, algorithm: Algorithm = SHA_256) -> Account:
    return Account(name, credential_of(algorithm, algorithm.salt_password(password, SALT, 4096), SALT, 4096))


ALICE = account("alice", "secret")


def server(algorithm: Algorithm = SHA_256, *accounts: Account, own_nonce: str = "server") -> ScramServer:
    known = {each.name: each for each in accounts or (ALICE,)}
    return ScramServer(
        algorithm,
        lambda name, is_token: None if is_token else known.get(name),
        own_nonce,
        partial(dummy_credential, algorithm, b"key"),
    )


def talk(client: ClientMechanism, to: ServerMechanism, wall_ms: int = 0) -> Step:
    """Let both talk to each other until the server has decided, and have the client judge that."""
    said, step = client.step(b""), None
    while said is not None:
        step = to.step(said, wall_ms)
        if isinstance(step, Computed):
            step = step.work()
        if not isinstance(step, Challenge | Authenticated):
            return step
        said = client.step(step.data)
    assert step is not None
    return step


def test_the_example_of_rfc_7677() -> None:
    client = ScramClient(SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert client.step(b"") == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    final = client.step(b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    assert final == (b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    assert client.step(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=") is None


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=lambda algorithm: algorithm.name)
@pytest.mark.parametrize(("name", "password"), [("alice", "secret"), ("a=b,c", "=,="), ("é名", "pässwörd")])
def test_who_knows_the_password_is_let_in_and_trusts_the_server(algorithm: Algorithm, name: str, password: str) -> None:
    step = talk(ScramClient(algorithm, name, password, "client"), server(algorithm, account(name, password, algorithm)))
    assert isinstance(step, Authenticated)
    assert (step.name, step.expires_ms, step.by_token) == (name, None, False)


def test_wrong_passwords_and_unknown_users_hear_the_same() -> None:
    wrong = talk(ScramClient(SHA_256, "alice", "guess", "client"), server())
    unknown = talk(ScramClient(SHA_256, "bob", "guess", "client"), server())
    assert isinstance(wrong, Rejected)
    assert wrong == unknown


def test_unknown_users_have_a_salt_of_their_own_that_stays() -> None:
    salts = []
    for name in ("bob", "bob", "carol"):
        step = server().step(f"n,,n={name},r=client".encode(), 0)
        assert isinstance(step, Challenge)
        salts.append(step.data.split(b",")[1:])
    assert salts[0] == salts[1] != salts[2]
    assert salts[0][1] == b"i=4096"


def test_a_salt_that_is_made_up_looks_like_those_that_tools_make() -> None:
    step = server().step(b"n,,n=bob,r=client", 0)
    assert isinstance(step, Challenge)
    made = step.data.split(b",")[1]
    real = b64encode(nonce(partial(bytes.__mul__, b"\x17")).encode())
    assert len(made) == len(b"s=" + real)


def test_a_login_that_was_heard_can_not_be_said_again() -> None:
    client, heard = ScramClient(SHA_256, "alice", "secret", "client"), list[bytes]()
    first = client.step(b"")
    assert first is not None
    live = server(own_nonce="one")
    challenge = live.step(first, 0)
    assert isinstance(challenge, Challenge)
    final = client.step(challenge.data)
    assert final is not None
    assert isinstance(live.step(final, 0), Authenticated)
    heard += [first, final]
    replayed = server(own_nonce="two")
    assert isinstance(replayed.step(heard[0], 0), Challenge)
    assert replayed.step(heard[1], 0) == Rejected("its nonce is not the one in the challenge")


class Repeating(ScramClient):
    """Answers with its nonce before the one that it was given, as librdkafka before 2.6.1 does."""

    def __init__(self, password: str, times: int = 1) -> None:
        super().__init__(SHA_256, "alice", password, "client")
        self._times = times

    def step(self, challenge: bytes) -> bytes | None:
        said = super().step(challenge)
        if said is None or not said.startswith(b"c="):
            return said
        without_proof = b"c=biws,r=" + b"client" * self._times + b"clientserver"
        salted = SHA_256.salt_password(self._password, SALT, 4096)
        signed = SHA_256.hmac(
            credential_of(SHA_256, salted, SALT, 4096).stored_key, b",".join([self._bare.encode(), challenge, without_proof])
        )
        return without_proof + b",p=" + b64encode(xor(SHA_256.hmac(salted, b"Client Key"), signed))


def test_who_repeats_its_nonce_is_let_in_by_its_proof_alone() -> None:
    def decided(client: ScramClient) -> Step:
        to, first = server(), client.step(b"")
        assert first is not None
        challenge = to.step(first, 0)
        assert isinstance(challenge, Challenge)
        final = client.step(challenge.data)
        assert final is not None
        return to.step(final, 0)

    assert isinstance(decided(Repeating("secret")), Authenticated)
    assert decided(Repeating("guess")) == Rejected("the name or the password is wrong")
    assert decided(Repeating("secret", times=2)) == Rejected("its nonce is not the one in the challenge")


def test_a_proof_of_an_unknown_user_made_of_zeros_does_not_fit() -> None:
    to = server()
    challenge = to.step(b"n,,n=bob,r=client", 0)
    assert isinstance(challenge, Challenge)
    for proof in (bytes(32), b"", bytes(64)):
        to = server()
        to.step(b"n,,n=bob,r=client", 0)
        assert isinstance(to.step(b"c=biws,r=clientserver,p=" + b64encode(proof), 0), Rejected)


@pytest.mark.parametrize(
    "first",
    [
        b"", b"n", b"n,,", b"n,,r=a,n=b", b"y,,n=alice,r=client", b"p=tls-unique,,n=alice,r=client", b"n,b=x,n=alice,r=client",
        b"n,,n=,r=client", b"n,,n=al=ice,r=client", b"n,,n=alice,r=", b"n,,n=alice", b"n,,m=x,n=alice,r=client", b"\xff\xfe",
        b"n,,n=alice,r=cl\x7fient", b"n,,n=alice\0,r=client", b"n,,n=alice,r=client,=", b"n,,n=alice,r=client,",
    ],
)  # fmt: skip
def test_a_first_message_that_is_none_is_refused(first: bytes) -> None:
    assert isinstance(server().step(first, 0), Rejected)


@pytest.mark.parametrize(
    "final",
    [
        b"",
        b"c=biws",
        b"c=biws,r=clientserver",
        b"c=biws,r=client,p=AAAA",
        b"c=eSws,r=clientserver,p=AAAA",
        b"c=biws,r=clientserver,p=?",
    ],
)
def test_a_final_message_that_is_none_is_refused(final: bytes) -> None:
    to = server()
    assert isinstance(to.step(b"n,,n=alice,r=client", 0), Challenge)
    assert isinstance(to.step(final, 0), Rejected)


def test_nobody_acts_as_somebody_else() -> None:
    assert isinstance(server().step(b"n,a=bob,n=alice,r=client", 0), Rejected)
    assert isinstance(server().step(b"n,a=alice,n=alice,r=client", 0), Challenge)


def test_a_token_logs_its_owner_in_until_it_expires() -> None:
    token = Account("owner", ALICE.credential, expires_ms=1000, by_token=True)

    def lookup(name: str, is_token: bool) -> Account | None:
        return token if is_token and name == "id" else None

    def login(wall_ms: int, *, token: bool) -> Step:
        return talk(
            ScramClient(SHA_256, "id", "secret", "c", token=token),
            ScramServer(SHA_256, lookup, "s", partial(dummy_credential, SHA_256, b"key")),
            wall_ms,
        )

    step = login(999, token=True)
    assert isinstance(step, Authenticated)
    assert (step.name, step.expires_ms, step.by_token) == ("owner", 1000, True)
    assert isinstance(login(1000, token=True), Rejected)
    assert isinstance(login(999, token=False), Rejected)


def test_what_takes_long_is_computed_elsewhere() -> None:
    to = ScramServer(SHA_256, lambda name, is_token: lambda: ALICE, "server", partial(dummy_credential, SHA_256, b"key"))
    assert isinstance(to.step(b"n,,n=alice,r=client", 0), Computed)
    to = ScramServer(SHA_256, lambda name, is_token: lambda: ALICE, "server", partial(dummy_credential, SHA_256, b"key"))
    assert isinstance(talk(ScramClient(SHA_256, "alice", "secret", "client"), to), Authenticated)


@pytest.mark.parametrize(
    "challenge",
    [
        b"r=other,s=AAAA,i=4096", b"r=client,s=AAAA,i=4096", b"r=clientserver,s=AAAA,i=1", b"r=clientserver,s=AAAA,i=99999999",
        b"r=clientserver,s=AAAA,i=-4096", b"r=clientserver,s=?,i=4096", b"e=other-error", b"", b"\xff", b"r=clientserver,s=AAAA,i=",
    ],
)  # fmt: skip
def test_a_client_does_not_go_on_with_a_server_that_plays_wrong(challenge: bytes) -> None:
    client = ScramClient(SHA_256, "alice", "secret", "client")
    client.step(b"")
    with pytest.raises(SaslFailed):
        client.step(challenge)


@pytest.mark.parametrize("final", [b"v=AAAA", b"e=invalid-proof", b"x=y", b"", b"v=?"])
def test_a_client_does_not_trust_a_server_that_proves_nothing(final: bytes) -> None:
    client = ScramClient(SHA_256, "alice", "secret", "client")
    client.step(b"")
    client.step(b"r=clientserver,s=AAAA,i=4096")
    with pytest.raises(SaslFailed):
        client.step(final)


@given(st.lists(st.binary(max_size=60), max_size=3))
def test_a_server_only_refuses_what_it_can_not_read(messages: list[bytes]) -> None:
    to = server()
    for message in messages:
        step = to.step(message, 0)
        assert not isinstance(step, Authenticated)
        if not isinstance(step, Challenge):
            break


@pytest.mark.parametrize("name", ["PLAIN", *ALGORITHMS])
def test_a_mechanism_is_found_by_its_name(name: str) -> None:
    assert b"alice" in (client_mechanism(name, "alice", "secret", bytes).step(b"") or b"")


def test_a_mechanism_that_is_none_is_named_with_those_that_are() -> None:
    with pytest.raises(SaslFailed, match="PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"):
        client_mechanism("MD5", "alice", "secret", bytes)


def test_no_secret_is_shown() -> None:
    shown = repr(account("alice", "secret", SHA_512))
    assert "key" not in shown
    assert "salt" not in shown
