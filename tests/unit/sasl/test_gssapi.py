"""GSSAPI's exchange (RFC 4752), with contexts of a library that needs one token each way."""

from __future__ import annotations

import pytest

from ottla.sasl.gssapi import GssapiClient, GssapiServer, SecurityFailed
from ottla.sasl.mechanism import Authenticated, Challenge, Computed, Rejected, SaslFailed


class Context:
    """Sends as many tokens as it is told; what it wraps says so."""

    initiator = "alice@TEST"

    def __init__(self, sends: int, takes: int) -> None:
        self.left = sends
        self.missing = takes

    @property
    def is_complete(self) -> bool:
        return self.left == 0 and self.missing == 0

    def step(self, token: bytes) -> bytes:
        if token == b"broken":
            raise SecurityFailed("Kerberos says: no")
        self.missing -= bool(token)
        if self.left:
            self.left -= 1
            return b"token"
        return b""

    def wrap(self, message: bytes) -> bytes:
        return b"(" + message + b")"

    def unwrap(self, message: bytes) -> bytes:
        if not message.startswith(b"("):
            raise SecurityFailed("Kerberos says: not wrapped")
        return message[1:-1]


def server(sends: int = 1) -> GssapiServer:
    return GssapiServer(lambda: Context(sends, 1), {"alice@TEST": "alice"}.get)


def done(one: GssapiServer, data: bytes) -> Challenge | Authenticated | Rejected:
    step = one.step(data, 0)
    assert isinstance(step, Computed), "the library may read files"
    return step.work()


@pytest.mark.parametrize("sends", [0, 1])
def test_both_sides_agree_on_no_layer_and_on_who_it_is(sends: int) -> None:
    client, one = GssapiClient(Context(1, sends)), server(sends)
    said: bytes | None = client.step(b"")
    for _ in range(5):
        answer = done(one, said or b"")
        if isinstance(answer, Authenticated):
            break
        assert isinstance(answer, Challenge)
        said = client.step(answer.data)
    assert answer == Authenticated("alice")
    assert client.step(b"") is None


def offered() -> GssapiServer:
    one = server()
    done(one, b"token")
    assert done(one, b"") == Challenge(b"(\x01\0\0\0)")
    return one


@pytest.mark.parametrize("choice", [b"(\x02\0\0\0)", b"(\x01)", b"()", b"\x01\0\0\0"])
def test_another_layer_and_what_is_not_wrapped_are_refused(choice: bytes) -> None:
    assert isinstance(done(offered(), choice), Rejected)


@pytest.mark.parametrize("name", [b"", b"alice@TEST", b"bob@TEST", b"kafka@host", b"\xff"])
def test_whoever_a_client_wants_to_act_as_it_is_who_has_the_ticket(name: bytes) -> None:
    assert done(offered(), b"(\x01\0\0\0" + name + b")") == Authenticated("alice")


def test_whom_no_rule_knows_is_refused() -> None:
    one = GssapiServer(lambda: Context(1, 1), lambda principal: None)
    done(one, b"token")
    done(one, b"")
    assert isinstance(done(one, b"(\x01\0\0\0)"), Rejected)


def test_nothing_may_follow_the_context_but_the_choice_of_a_layer() -> None:
    one = server()
    done(one, b"token")
    assert isinstance(done(one, b"more"), Rejected)


def test_what_the_library_refuses_is_refused_and_told_to_ones_own_people() -> None:
    assert done(server(), b"broken") == Rejected("Kerberos says: no")
    with pytest.raises(SaslFailed, match="no"):
        GssapiClient(Context(1, 1)).step(b"broken")


def test_a_broker_that_insists_on_a_layer_is_left() -> None:
    client = GssapiClient(Context(0, 0))
    with pytest.raises(SaslFailed, match="SASL_SSL"):
        client.step(b"(\x06\0\0\0)")
