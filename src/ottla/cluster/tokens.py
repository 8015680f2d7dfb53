"""Decisions about delegation tokens (KIP-48, KIP-373): create, renew, expire, remove. Callers pass the times.

Keys and requests are elsewhere. A token's entry is not secret, because its HMAC also depends on a key that no registry contains.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any, Final

from ottla.cluster import layout
from ottla.cluster.decision import Decision
from ottla.ports import NEW, Change
from ottla.values import dataclass
from ottla.wire.errors import (
    DELEGATION_TOKEN_EXPIRED,
    DELEGATION_TOKEN_NOT_FOUND,
    DELEGATION_TOKEN_OWNER_MISMATCH,
    ERRORS,
    INVALID_PRINCIPAL_TYPE,
    INVALID_REQUEST,
    POLICY_VIOLATION,
)

USER: Final = "User:"
"""The prefix of principals that can own and renew tokens."""
TOKEN_BYTES, NAME_BYTES = 1000, 60
MOST_BYTES: Final = 64 << 10
MOST_BYTES_OF_ONE: Final = 4 << 20
MOST_BYTES_OF_ALL: Final = 32 << 20
"""The most memory, in estimated bytes, of one token, of one requester's tokens, and of all: each broker stores all tokens."""
LATEST_MS: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token, valid until `expiry_ms`. Renewals extend `expiry_ms` up to `max_ms`. Principals have the form "User:name"."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_ms: int
    max_ms: int
    expiry_ms: int

    def is_expired(self, now_ms: int) -> bool:
        return self.max_ms < now_ms or self.expiry_ms < now_ms

    @property
    def size_bytes(self) -> int:
        """Return an estimate of the token's memory in bytes."""
        return TOKEN_BYTES + len(self.owner) + len(self.requester) + sum(len(name) + NAME_BYTES for name in self.renewers)

    def is_of(self, principals: Collection[str]) -> bool:
        """Return whether one of the principals is the token's owner or one of its renewers."""
        return self.owner in principals or any(renewer in principals for renewer in self.renewers)


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """The longest lifetime of a token (`delegation.token.max.lifetime.ms`), and the longest time between two renewals."""

    max_ms: int
    renewal_ms: int


def create(
    wanted: DelegationToken, max_lifetime_ms: int, lifetimes: Lifetimes, present: Collection[DelegationToken] = ()
) -> Decision:
    """Create a token at `wanted.issue_ms`, and decide its maximum and expiry times.

    A `max_lifetime_ms` of 0 or less requests the longest lifetime. Return INVALID_REQUEST if the token is too large, and
    POLICY_VIOLATION if it and the `present` tokens exceed the memory limits.
    """
    if not all(principal.startswith(USER) for principal in wanted.renewers):
        return _refuse(wanted.token_id, INVALID_PRINCIPAL_TYPE)
    if layout.is_too_long(wanted.owner, wanted.requester, *wanted.renewers) or wanted.size_bytes > MOST_BYTES:
        return _refuse(wanted.token_id, INVALID_REQUEST)
    of_one = sum(token.size_bytes for token in present if token.requester == wanted.requester)
    if of_one + wanted.size_bytes > MOST_BYTES_OF_ONE or sum(token.size_bytes for token in present) > MOST_BYTES_OF_ALL:
        return _refuse(wanted.token_id, POLICY_VIOLATION)
    most = lifetimes.max_ms if max_lifetime_ms <= 0 else min(max_lifetime_ms, lifetimes.max_ms)
    max_ms = _later(wanted.issue_ms, most)
    token = replace(wanted, max_ms=max_ms, expiry_ms=min(max_ms, _later(wanted.issue_ms, lifetimes.renewal_ms)))
    return Decision(token.token_id, changes=(Change(layout.delegation_token_path(token.token_id), _json(token), NEW),))


def renew(token: DelegationToken | None, principal: str, period_ms: int, lifetimes: Lifetimes, now_ms: int) -> Decision:
    """Return the decision that makes a token expire `period_ms` from now, within the limits.

    A `period_ms` of 0 or less requests the longest period.
    """
    refusal = _refusal(token, principal, now_ms)
    if refusal is not None or token is None:
        return refusal or _refuse("", DELEGATION_TOKEN_NOT_FOUND)
    most = lifetimes.renewal_ms if period_ms <= 0 else min(period_ms, lifetimes.renewal_ms)
    return _until(token, min(token.max_ms, _later(now_ms, most)))


def expire(token: DelegationToken | None, principal: str, period_ms: int, now_ms: int) -> Decision:
    """Return the decision that makes a token expire `period_ms` from now. A negative period deletes it, even if expired."""
    if token is not None and period_ms < 0 and token.is_of((principal,)):
        return Decision(token.token_id, changes=(Change(layout.delegation_token_path(token.token_id), None),))
    refusal = _refusal(token, principal, now_ms, owner_first=True)
    if refusal is not None or token is None:
        return refusal or _refuse("", DELEGATION_TOKEN_NOT_FOUND)
    return _until(token, min(token.max_ms, _later(now_ms, period_ms)))


def sweep(tokens: Iterable[DelegationToken], now_ms: int) -> list[Decision]:
    """Return the decisions that remove all expired tokens."""
    ended = [token.token_id for token in tokens if token.is_expired(now_ms)]
    return [Decision(token_id, changes=(Change(layout.delegation_token_path(token_id), None),)) for token_id in ended]


def _json(token: DelegationToken) -> bytes:
    """Encode a token's entry in the format of Kafka's brokers with ZooKeeper."""
    people = token.owner, token.requester, token.renewers
    return layout.delegation_token_json(people, (token.issue_ms, token.max_ms, token.expiry_ms), token.token_id)


def read(token_id: str, value: bytes) -> DelegationToken:
    """Parse a token's entry, of any version. Raises `ValueError`, `LookupError` or `TypeError` if it is invalid."""
    stored: dict[str, Any] = layout.read(value)
    owner = layout.name_in(stored["owner"])
    return DelegationToken(
        token_id,
        owner,
        layout.name_in(stored["tokenRequester"]) if stored["version"] >= layout.DELEGATION_TOKEN_VERSION else owner,
        tuple(layout.name_in(renewer) for renewer in stored["renewers"]),
        layout.whole(stored["issueTimestamp"], highest=LATEST_MS),
        layout.whole(stored["maxTimestamp"], highest=LATEST_MS),
        layout.whole(stored["expiryTimestamp"], highest=LATEST_MS),
    )


def _refusal(token: DelegationToken | None, principal: str, now_ms: int, *, owner_first: bool = False) -> Decision | None:
    """Return the refusal of a change, or None. Expiry is reported before a wrong owner, unless `owner_first`."""
    if token is None:
        return _refuse("", DELEGATION_TOKEN_NOT_FOUND)
    faults = [
        (token.is_expired(now_ms), DELEGATION_TOKEN_EXPIRED),
        (not token.is_of((principal,)), DELEGATION_TOKEN_OWNER_MISMATCH),
    ]
    for is_so, error_code in reversed(faults) if owner_first else faults:
        if is_so:
            return _refuse(token.token_id, error_code)
    return None


def _refuse(token_id: str, error_code: int) -> Decision:
    return Decision(token_id, error_code, ERRORS[error_code].sentence)


def _until(token: DelegationToken, expiry_ms: int) -> Decision:
    changed = replace(token, expiry_ms=expiry_ms)
    return Decision(token.token_id, changes=(Change(layout.delegation_token_path(token.token_id), _json(changed)),))


def _later(now_ms: int, duration_ms: int) -> int:
    return min(LATEST_MS, now_ms + duration_ms)
