"""OAUTHBEARER (RFC 7628; KIP-255, KIP-342): the client presents a token that an identity provider has issued.

A `Validate` callback judges the token and its signature; `ottla.sasl.bearer` has the rules for its claims.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from json import dumps
from typing import Final

from ottla.sasl.mechanism import Authenticated, Challenge, Rejected, SaslFailed, Step

NAME: Final = "OAUTHBEARER"
END: Final = "\x01"
AUTH: Final = "auth"
INVALID: Final = "invalid_token"
INSUFFICIENT: Final = "insufficient_scope"

_KEY: Final = re.compile("[A-Za-z]+")
_VALUE: Final = re.compile("[\\x21-\\x7E \t\r\n]+")
_TOKEN: Final = re.compile("[-_~+/.a-zA-Z0-9]+=*")


@dataclass(frozen=True, slots=True)
class BearerToken:
    """A valid token of the user `name`. `expires_ms` is its expiry, in milliseconds since 1970."""

    name: str
    expires_ms: int
    scopes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class BadToken:
    """An invalid token. `cause` is for the broker's log. `status` and `scope` are sent to the client, as RFC 7628 defines them."""

    cause: str
    status: str = INVALID
    scope: str | None = None


Validate = Callable[[str, int], BearerToken | BadToken]
"""Validates a token at a time in milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The contents of a client's first message: the token, the authorization id and the SASL extensions."""

    token: str
    acts_as: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict)


class OAuthBearerServer:
    """The server's side. It calls `validate` for the one token that the client sends."""

    def __init__(self, validate: Validate) -> None:
        self._validate = validate
        self._refused: Rejected | None = None

    def step(self, data: bytes, wall_ms: int) -> Step:
        if self._refused is not None:
            return self._refused
        try:
            shown = read(data)
        except ValueError as malformed:
            return Rejected(f"its OAUTHBEARER message cannot be decoded: {malformed}")
        token = self._validate(shown.token, wall_ms)
        if isinstance(token, BadToken):
            told = {"status": token.status} | ({} if token.scope is None else {"scope": token.scope})
            self._refused = Rejected(token.cause, dumps(told))
            return Challenge(dumps(told).encode())
        if shown.acts_as not in ("", token.name):
            return Rejected("its authorization id is not its user", "The authorization id is not the token's user: leave it empty.")
        return Authenticated(token.name, expires_ms=token.expires_ms, extensions=shown.extensions)


class OAuthBearerClient:
    """The client's side, which sends a token and SASL extensions. The constructor raises `SaslFailed` if they cannot be encoded."""

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        pairs = dict(extensions or {})
        if not _TOKEN.fullmatch(token):
            raise SaslFailed("OAUTHBEARER cannot send this token: make its source return a JWT, without spaces or line breaks.")
        fault = _fault(pairs)
        if fault:
            raise SaslFailed(f"The extensions of the token are invalid: {fault}.")
        said = "".join(f"{name}={value}{END}" for name, value in {AUTH: f"Bearer {token}", **pairs}.items())
        self._message: bytes | None = f"n,,{END}{said}{END}".encode()

    def step(self, challenge: bytes) -> bytes | None:
        """Return the token as the first message.

        A challenge means that the broker refuses the token. Then return the answer after which the broker ends the exchange.
        """
        if self._message is not None:
            message, self._message = self._message, None
            return message
        return END.encode() if challenge else None


def read(data: bytes) -> Shown:
    """Parse a client's first message. Raises `ValueError`, whose text quotes nothing of the message."""
    text = data.decode()
    header, mark, rest = text.partition(END)
    binding, comma, acts_as = header.partition(",")
    if binding != "n" or not comma or not acts_as.endswith(",") or not mark:
        raise ValueError("it does not begin with a GS2 header without channel binding")
    acts_as = acts_as[:-1]
    if acts_as and not acts_as.startswith("a="):
        raise ValueError("its GS2 header has a field other than an authorization id")
    if not rest.endswith(END) or (rest != END and not rest.endswith(END * 2)):
        raise ValueError("its end mark is missing")
    pairs = dict[str, str]()
    for pair in rest[:-1].split(END)[:-1]:
        name, _, value = pair.partition("=")
        if name in pairs:
            raise ValueError("it has an extension twice")
        pairs[name] = value
    auth = pairs.pop(AUTH, "")
    scheme, _, token = auth.partition(" ")
    if scheme.lower() != "bearer" or not _TOKEN.fullmatch(token.strip(" ")):
        raise ValueError("it has no bearer token")
    fault = _fault(pairs)
    if fault:
        raise ValueError(fault)
    return Shown(token.strip(" "), _name(acts_as.removeprefix("a=")), pairs)


def _name(text: str) -> str:
    if not re.fullmatch("(?:[^=,\0]|=2C|=3D)*", text):
        raise ValueError("its authorization id is not written as RFC 5801 has it")
    return text.replace("=2C", ",").replace("=3D", "=")


def _fault(extensions: Mapping[str, str]) -> str:
    """Return what is wrong with the extensions; empty if nothing is."""
    for name, value in extensions.items():
        if name == AUTH or not _KEY.fullmatch(name):
            return "the name of an extension is not made of letters, or is 'auth'"
        if not _VALUE.fullmatch(value):
            return "the value of an extension is empty, or not made of printable ASCII"
    return ""
