"""What a JWT has to say to be good, at which time, to whom."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from json import dumps
from typing import Any

import pytest

from ottla.sasl.bearer import BearerRules, expiry_ms, judge_unsecured, split_token
from ottla.sasl.oauthbearer import BadToken, BearerToken

NOW_S = 1_700_000_000
NOW = NOW_S * 1000
GOOD = {"sub": "alice", "iat": NOW_S - 100, "exp": NOW_S + 60}


def part(value: object) -> str:
    text = value if isinstance(value, bytes) else dumps(value).encode()
    return urlsafe_b64encode(text).decode().rstrip("=")


def unsecured(claims: object, header: object = {"alg": "none"}, signature: str = "") -> str:
    return f"{part(header)}.{part(claims)}.{signature}"


def judged(rules: BearerRules, **claims: Any) -> BearerToken | BadToken:
    given = {name: value for name, value in {**GOOD, **claims}.items() if value is not None}
    return rules.judge(given, NOW)


def is_good(rules: BearerRules, **claims: Any) -> bool:
    return isinstance(judged(rules, **claims), BearerToken)


def test_a_token_ends_when_it_says_and_names_its_user_and_scopes() -> None:
    assert judged(BearerRules(), scope="a b") == BearerToken("alice", NOW + 60_000, frozenset({"a", "b"}))
    assert judged(BearerRules(scope_claim="scp", sub_claim="azp"), azp=" svc ", scp=["x"]) == BearerToken(
        "svc", NOW + 60_000, frozenset({"x"})
    )


@pytest.mark.parametrize(
    ("claims", "good"),
    [
        ({"exp": None}, False),
        ({"exp": NOW_S - 29}, True),
        ({"exp": NOW_S - 30}, False),
        ({"exp": NOW_S + 0.5}, True),
        ({"exp": "soon"}, False),
        ({"exp": True}, False),
        ({"exp": -1}, False),
        ({"exp": 1e300}, False),
        ({"exp": float("inf")}, False),
        ({"iat": None}, False),
        ({"iat": NOW_S + 30}, True),
        ({"iat": NOW_S + 31}, False),
        ({"nbf": NOW_S + 30}, True),
        ({"nbf": NOW_S + 31}, False),
        ({"sub": None}, False),
        ({"sub": "  "}, False),
        ({"sub": 7}, False),
        ({"scope": ""}, False),
        ({"scope": ["a", "a"]}, False),
        ({"scope": ["a", " "]}, False),
        ({"scope": {"a": 1}}, False),
    ],
)
def test_times_user_and_scopes_are_held_against_the_rules(claims: dict[str, Any], good: bool) -> None:
    assert is_good(BearerRules(), **claims) is good


def test_an_audience_has_to_be_expected_and_an_expected_one_has_to_be_there() -> None:
    expecting = BearerRules(audiences=frozenset({"kafka", "ottla"}))
    assert is_good(expecting, aud="ottla")
    assert is_good(expecting, aud=["web", "kafka"])
    assert not is_good(expecting)
    assert not is_good(expecting, aud="Kafka")
    assert not is_good(expecting, aud={"kafka": 1})
    assert not is_good(BearerRules(), aud="web")


def test_the_issuer_has_to_be_the_one_expected_to_the_letter() -> None:
    expecting = BearerRules(issuer="https://idp.test")
    assert is_good(expecting, iss="https://idp.test")
    assert not is_good(expecting)
    assert not is_good(expecting, iss="https://idp.test/")
    assert is_good(BearerRules(), iss="anybody")


def test_scopes_that_are_required_are_named_to_the_client_that_lacks_one() -> None:
    rules = BearerRules(required_scopes=frozenset({"read", "write"}))
    assert is_good(rules, scope="write read more")
    bad = judged(rules, scope="read")
    assert isinstance(bad, BadToken)
    assert (bad.status, bad.scope) == ("insufficient_scope", "read write")


def test_a_token_without_a_signature_is_judged_where_somebody_asked_for_that() -> None:
    rules = BearerRules(needs_issue_time=False)
    assert judge_unsecured(rules, unsecured({"sub": "a", "exp": NOW_S + 1}), NOW) == BearerToken("a", NOW + 1000)
    for token in (unsecured(GOOD, {"alg": "RS256"}), unsecured(GOOD, signature="AA"), unsecured(GOOD, {}), "a.b.c", "", "a.b"):
        assert isinstance(judge_unsecured(rules, token, NOW), BadToken)


@pytest.mark.parametrize(
    "token",
    [
        unsecured([]),
        unsecured("text"),
        unsecured(b"\xff"),
        unsecured(b"[" * 100_000),
        unsecured(GOOD, {"alg": "none", "crit": ["b64"]}),
        "!!.!!.",
        "\u00e9.a.b",
        "a" * 100_000,
        "....",
        "a.b.c.d.e",
    ],
)
def test_what_is_no_token_is_refused_in_a_sentence(token: str) -> None:
    with pytest.raises(ValueError, match=r"it|its|part"):
        split_token(token)
    assert expiry_ms(token) is None


def test_a_client_reads_the_end_of_its_own_token() -> None:
    assert expiry_ms(unsecured(GOOD)) == NOW + 60_000
    assert expiry_ms("opaque") is None
