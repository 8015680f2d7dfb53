"""OAUTHBEARER's messages (RFC 7628): what a client shows, and what becomes of it."""

from __future__ import annotations

import pytest

from ottla.sasl.mechanism import Authenticated, Challenge, Rejected, SaslFailed
from ottla.sasl.oauthbearer import BadToken, BearerToken, OAuthBearerClient, OAuthBearerServer

NOW = 1_000_000


def validate(token: str, wall_ms: int) -> BearerToken | BadToken:
    return BearerToken("alice", wall_ms + 5) if token == "good" else BadToken("it is bad", "insufficient_scope", "kafka")


def server() -> OAuthBearerServer:
    return OAuthBearerServer(validate)


def test_a_good_token_makes_its_user_until_it_ends_with_the_extensions_that_came_beside_it() -> None:
    shown = OAuthBearerClient("good", {"cluster": "lkc 1"}).step(b"")
    assert shown == b"n,,\x01auth=Bearer good\x01cluster=lkc 1\x01\x01"
    assert server().step(shown, NOW) == Authenticated("alice", b"", NOW + 5, {"cluster": "lkc 1"})


def test_a_bad_token_is_challenged_with_the_reason_and_refused_with_the_next_step() -> None:
    client, one = OAuthBearerClient("bad"), server()
    challenge = one.step(client.step(b"") or b"", NOW)
    assert challenge == Challenge(b'{"status": "insufficient_scope", "scope": "kafka"}')
    assert client.step(challenge.data) == b"\x01"
    assert one.step(b"\x01", NOW) == Rejected("it is bad", '{"status": "insufficient_scope", "scope": "kafka"}')
    assert isinstance(one.step(b"n,,\x01auth=Bearer good\x01\x01", NOW), Rejected), "the machine is used up"


def test_a_client_is_satisfied_when_the_broker_has_nothing_to_say() -> None:
    client = OAuthBearerClient("good")
    client.step(b"")
    assert client.step(b"") is None


@pytest.mark.parametrize("shown", [b"n,a=alice,\x01auth=Bearer good\x01\x01", b"n,,\x01auth=BEARER  good\x01\x01"])
def test_ones_own_authorization_id_and_any_case_of_the_scheme_are_taken(shown: bytes) -> None:
    assert isinstance(server().step(shown, NOW), Authenticated)


@pytest.mark.parametrize(
    "shown",
    [
        b"",
        b"\x01",
        b"n,,",
        b"n,,\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer good\x01",
        b"n,,\x01auth=Bearer good",
        b"y,,\x01auth=Bearer good\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer good\x01\x01",
        b"n,x=alice,\x01auth=Bearer good\x01\x01",
        b"n,a=bob,\x01auth=Bearer good\x01\x01",
        b"n,a=alice=41,\x01auth=Bearer good\x01\x01",
        b"n,a=ali\0ce,\x01auth=Bearer good\x01\x01",
        b"n,,\x01auth=Basic good\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer go od\x01\x01",
        b"n,,\x01auth=Bearer good\x01auth=Bearer good\x01\x01",
        b"n,,\x01auth=Bearer good\x01k1=v\x01\x01",
        b"n,,\x01auth=Bearer good\x01key=\x01\x01",
        "n,,\x01auth=Bearer good\x01key=\u00e9\x01\x01".encode(),
        b"n,,\x01key=v\x01\x01",
        b"\xff\xfe",
        b"n,,\x01" + b"a=b\x01" * 10_000,
    ],
)
def test_anything_else_is_refused_at_once_and_nothing_of_it_is_repeated(shown: bytes) -> None:
    refused = server().step(shown, NOW)
    assert isinstance(refused, Rejected)
    assert "good" not in refused.cause


@pytest.mark.parametrize(
    ("token", "extensions"), [("a b", {}), ("", {}), ("t\n", {}), ("t", {"auth": "x"}), ("t", {"k_": "v"}), ("t", {"k": ""})]
)
def test_what_cannot_be_sent_is_said_before_anything_is_sent(token: str, extensions: dict[str, str]) -> None:
    with pytest.raises(SaslFailed):
        OAuthBearerClient(token, extensions)
