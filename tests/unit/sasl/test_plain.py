"""PLAIN: a name and a password, and everything that looks like it."""

from __future__ import annotations

import pytest

from ottla.sasl.mechanism import Authenticated, Rejected, SaslFailed
from ottla.sasl.plain import PlainClient, PlainServer

USERS = {"alice": "secret", "名": "pässwörd"}


def step(data: bytes) -> object:
    return PlainServer(lambda name, password: USERS.get(name) == password).step(data, 0)


@pytest.mark.parametrize(("name", "password"), USERS.items())
def test_who_knows_the_password_is_let_in(name: str, password: str) -> None:
    client = PlainClient(name, password)
    message = client.step(b"")
    assert message is not None
    assert step(message) == Authenticated(name)
    assert client.step(b"") is None


@pytest.mark.parametrize(
    "data",
    [
        b"", b"alice", b"\0alice", b"\0alice\0", b"\0\0secret", b"\0alice\0guess", b"\0bob\0secret", b"bob\0alice\0secret",
        b"\0alice\0secret\0", b"\0alice\0secret\0x", b"\0Alice\0secret", b"\0alice \0secret", b"\0\xff\0secret",
        b"\0alice\0secret ",
    ],
)  # fmt: skip
def test_anything_else_is_refused(data: bytes) -> None:
    assert isinstance(step(data), Rejected)


def test_acting_as_oneself_is_no_other() -> None:
    assert step(b"alice\0alice\0secret") == Authenticated("alice")


def test_wrong_passwords_and_unknown_users_hear_the_same() -> None:
    assert step(b"\0alice\0guess") == step(b"\0bob\0guess")


@pytest.mark.parametrize(("name", "password"), [("", "x"), ("x", ""), ("a\0b", "x")])
def test_a_client_says_what_it_needs(name: str, password: str) -> None:
    with pytest.raises(SaslFailed):
        PlainClient(name, password)
