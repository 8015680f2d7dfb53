"""Delegation tokens: who may do what to one, how long it lives, and how the registry keeps it."""

from __future__ import annotations

from json import loads

import pytest

from ottla.cluster.decision import Decision
from ottla.cluster.image import ClusterImage
from ottla.cluster.registry_entries import apply_all, load
from ottla.cluster.tokens import DelegationToken, Lifetimes, create, expire, renew, sweep
from ottla.sim.registry import MemoryRegistry
from ottla.wire.errors import (
    DELEGATION_TOKEN_EXPIRED,
    DELEGATION_TOKEN_NOT_FOUND,
    DELEGATION_TOKEN_OWNER_MISMATCH,
    INVALID_PRINCIPAL_TYPE,
    NONE,
)

NOW = 1_000_000
LIVES = Lifetimes(max_ms=1000, renewal_ms=100)
ALICE, BOB, EVE = "User:al/ice *", "User:bob", "User:eve"


def made(max_lifetime_ms: int = -1, *renewers: str) -> ClusterImage:
    image = ClusterImage()
    wanted = DelegationToken("id", ALICE, BOB, renewers, NOW, NOW, NOW)
    return applied(image, create(wanted, max_lifetime_ms, LIVES))


def applied(image: ClusterImage, decision: Decision) -> ClusterImage:
    assert decision.error_code == NONE, decision.message
    apply_all(image, decision.changes)
    return image


@pytest.mark.parametrize(("asked", "max_ms", "expiry_ms"), [(-1, 1000, 100), (0, 1000, 100), (50, 50, 50), (5000, 1000, 100)])
def test_a_token_lives_as_long_as_asked_and_no_longer_than_is_allowed(asked: int, max_ms: int, expiry_ms: int) -> None:
    token = made(asked).tokens["id"]
    assert token == DelegationToken("id", ALICE, BOB, (), NOW, NOW + max_ms, NOW + expiry_ms)


def test_only_users_can_renew() -> None:
    wanted = DelegationToken("id", ALICE, ALICE, (BOB, "Group:staff"), NOW, NOW, NOW)
    assert create(wanted, -1, LIVES).error_code == INVALID_PRINCIPAL_TYPE


def test_a_renewal_reaches_as_far_as_the_token_may_live() -> None:
    image = made(-1, BOB)
    for now, period, expiry in [(50, -1, 150), (60, 20, 80), (70, 5000, 170), (160, 0, 260)]:
        applied(image, renew(image.tokens["id"], BOB, period, LIVES, NOW + now))
        assert image.tokens["id"].expiry_ms == NOW + expiry
    long = made()
    for now in range(0, 1000, 90):
        applied(long, renew(long.tokens["id"], ALICE, -1, LIVES, NOW + now))
    assert long.tokens["id"].expiry_ms == NOW + 1000


@pytest.mark.parametrize(
    ("principal", "now", "renewing", "expiring"),
    [
        (EVE, 10, DELEGATION_TOKEN_OWNER_MISMATCH, DELEGATION_TOKEN_OWNER_MISMATCH),
        (EVE, 101, DELEGATION_TOKEN_EXPIRED, DELEGATION_TOKEN_OWNER_MISMATCH),
        (ALICE, 100, NONE, NONE),
        (ALICE, 101, DELEGATION_TOKEN_EXPIRED, DELEGATION_TOKEN_EXPIRED),
    ],
)
def test_owner_and_renewers_change_a_token_until_it_ends(principal: str, now: int, renewing: int, expiring: int) -> None:
    token = made().tokens["id"]
    assert renew(token, principal, -1, LIVES, NOW + now).error_code == renewing
    assert expire(token, principal, 5, NOW + now).error_code == expiring


def test_a_token_that_is_not_there_cannot_be_changed() -> None:
    assert renew(None, ALICE, -1, LIVES, NOW).error_code == DELEGATION_TOKEN_NOT_FOUND
    assert expire(None, ALICE, -1, NOW).error_code == DELEGATION_TOKEN_NOT_FOUND


def test_a_token_ends_earlier_or_now() -> None:
    image = made(-1, BOB)
    assert applied(image, expire(image.tokens["id"], BOB, 5, NOW + 1)).tokens["id"].expiry_ms == NOW + 6
    assert expire(image.tokens["id"], EVE, -1, NOW).error_code == DELEGATION_TOKEN_OWNER_MISMATCH
    assert not applied(image, expire(image.tokens["id"], BOB, -1, NOW + 5000)).tokens, "even if it has ended already"


def test_those_that_have_ended_are_swept_away() -> None:
    image = made()
    assert not sweep(image.tokens.values(), NOW + 100)
    (decision,) = sweep(image.tokens.values(), NOW + 101)
    assert not applied(image, decision).tokens


def test_the_registry_keeps_a_token_as_zookeepers_brokers_do_and_without_its_secret() -> None:
    registry = MemoryRegistry()
    wanted = DelegationToken("id", ALICE, BOB, (EVE,), NOW, NOW, NOW)
    registry.commit(create(wanted, -1, LIVES).changes)
    entry = registry.get("/delegation_token/tokens/id")
    assert entry is not None
    assert loads(entry.value) == {
        "version": 3,
        "owner": "User%3Aal%2Fice%20%2A",
        "tokenRequester": "User%3Abob",
        "renewers": ["User%3Aeve"],
        "issueTimestamp": NOW,
        "maxTimestamp": NOW + 1000,
        "expiryTimestamp": NOW + 100,
        "tokenId": "id",
    }
    image = ClusterImage()
    load(image, registry)
    assert image.tokens["id"] == made(-1, EVE).tokens["id"]
