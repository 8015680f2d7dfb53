"""JSON Web Tokens (RFC 7519): a parser, and the rules that decide whether the claims are valid. The caller checks signatures.

The rules are the ones of Kafka's validators (KIP-768, KIP-1139). A token must have an expiry, an issue time and a user. A token for
an audience is refused if no audience is expected.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error
from collections.abc import Mapping
from dataclasses import dataclass
from json import loads
from math import isfinite
from typing import Any, Final, NamedTuple

from ottla.sasl.oauthbearer import INSUFFICIENT, BadToken, BearerToken

Claims = Mapping[str, Any]
NO_SIGNATURE: Final = "none"
LARGEST_SECONDS: Final = 1 << 43
"""The bound below which a time in seconds, converted to milliseconds, fits in 64 bits."""


class TokenParts(NamedTuple):
    """A token in its compact form, split and decoded, but not verified."""

    header: Claims
    claims: Claims
    signature: bytes


@dataclass(frozen=True, slots=True)
class BearerRules:
    """The claims that a valid token must have.

    Without `audiences`, a token for an audience is refused, unless `any_audience` is set. Without an `issuer`, any issuer is
    accepted if its key verifies the signature. A token must have all `required_scopes`.
    """

    audiences: frozenset[str] = frozenset()
    issuer: str | None = None
    skew_ms: int = 30_000
    scope_claim: str = "scope"
    sub_claim: str = "sub"
    required_scopes: frozenset[str] = frozenset()
    needs_issue_time: bool = True
    any_audience: bool = False

    def judge(self, claims: Claims, wall_ms: int) -> BearerToken | BadToken:
        """Return the token that these claims describe, or why it is invalid at `wall_ms`. The caller has checked the signature."""
        try:
            expires_ms = self._check_times(claims, wall_ms)
            self._check_origin(claims)
            name = claims.get(self.sub_claim)
            if not isinstance(name, str) or not name.strip():
                raise ValueError(f"its claim {self.sub_claim!r} names no user")
            scopes = self._scopes(claims)
        except ValueError as wrong:
            return BadToken(str(wrong))
        missing = self.required_scopes - scopes
        if missing:
            return BadToken(
                f"it lacks the scopes {', '.join(sorted(missing))}", INSUFFICIENT, " ".join(sorted(self.required_scopes))
            )
        return BearerToken(name.strip(), expires_ms, scopes)

    def _check_times(self, claims: Claims, wall_ms: int) -> int:
        expires_ms, issued_ms, from_ms = (_time_ms(claims, claim) for claim in ("exp", "iat", "nbf"))
        if expires_ms is None:
            raise ValueError("it has no expiry (exp)")
        if issued_ms is None and self.needs_issue_time:
            raise ValueError("it has no issue time (iat)")
        if wall_ms - self.skew_ms >= expires_ms:
            raise ValueError("it has expired")
        if from_ms is not None and wall_ms + self.skew_ms < from_ms:
            raise ValueError("it is not valid yet (nbf)")
        if issued_ms is not None and (wall_ms + self.skew_ms < issued_ms or issued_ms >= expires_ms):
            raise ValueError("its issue time (iat) is in the future or not before its expiry (exp)")
        return expires_ms

    def _check_origin(self, claims: Claims) -> None:
        meant = claims.get("aud")
        named = {meant} if isinstance(meant, str) else set(_texts(meant, "aud")) if meant is not None else set()
        if self.audiences.isdisjoint(named) if self.audiences else meant is not None and not self.any_audience:
            raise ValueError("it is for another audience (aud), or sasl.oauthbearer.expected.audience lacks it")
        if self.issuer is not None and claims.get("iss") != self.issuer:
            raise ValueError("its issuer (iss) is not sasl.oauthbearer.expected.issuer")

    def _scopes(self, claims: Claims) -> frozenset[str]:
        stated = claims.get(self.scope_claim)
        if stated is None:
            return frozenset()
        scopes = stated.split() if isinstance(stated, str) else _texts(stated, self.scope_claim)
        if isinstance(stated, str) and not scopes:
            raise ValueError(f"its claim {self.scope_claim!r} is empty")
        if len(set(scopes)) < len(scopes) or not all(scope.strip() for scope in scopes):
            raise ValueError(f"its claim {self.scope_claim!r} names a scope twice, or an empty one")
        return frozenset(scope.strip() for scope in scopes)


def split_token(token: str) -> TokenParts:
    """Split and decode a token. Raises `ValueError` if it is not three parts whose header and claims are JSON objects."""
    parts = token.split(".")
    if len(parts) != 3:
        raise ValueError("it does not have three parts")
    header, claims = (_object(part) for part in parts[:2])
    if "crit" in header:
        raise ValueError("its header requires unsupported extensions (crit)")
    return TokenParts(header, claims, _bytes(parts[2]))


def judge_unsecured(rules: BearerRules, token: str, wall_ms: int) -> BearerToken | BadToken:
    """Judge a token without a signature. Any client can make one, so this is for tests, and only if the configuration allows it."""
    try:
        header, claims, signature = split_token(token)
    except ValueError as malformed:
        return BadToken(str(malformed))
    if header.get("alg") != NO_SIGNATURE or signature:
        return BadToken("it is signed, and only tokens without a signature are accepted here")
    return rules.judge(claims, wall_ms)


def expiry_ms(token: str) -> int | None:
    """Return the expiry of a token in milliseconds since 1970; None if it has none or cannot be parsed."""
    try:
        return _time_ms(split_token(token).claims, "exp")
    except ValueError:
        return None


def _time_ms(claims: Claims, claim: str) -> int | None:
    value = claims.get(claim)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or not 0 <= value < LARGEST_SECONDS:
        raise ValueError(f"its claim {claim!r} is not a time in seconds")
    return int(value * 1000)


def _texts(value: object, claim: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"its claim {claim!r} is neither a string nor a list of strings")
    return value


def _object(part: str) -> dict[str, Any]:
    try:
        value = loads(_bytes(part))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError:
        raise ValueError("a part of it is not JSON") from None
    if not isinstance(value, dict):
        raise ValueError("a part of it is not a JSON object")
    return value


def _bytes(part: str) -> bytes:
    try:
        return b64decode(part.encode("ascii") + b"=" * (-len(part) % 4), b"-_", validate=True)
    except (Error, UnicodeEncodeError):
        raise ValueError("a part of it is not base64url") from None
