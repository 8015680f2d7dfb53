"""The state machine of one connection's SASL authentication, and of its reauthentications (KIP-368).

A handshake is followed by the mechanism's steps; one ApiVersions may precede it. Any other request closes the connection, as in
Kafka. Tokens arrive in SaslAuthenticate requests (KIP-152), or as bare frames after a handshake of version 0.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from ottla.ports import Now
from ottla.sasl.mechanism import Authenticated, Challenge, Rejected, ServerMechanism, Step
from ottla.wire.api.api_versions import ApiVersionsRequest
from ottla.wire.api.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.api.sasl_handshake import SaslHandshakeRequest

API_VERSIONS: Final = ApiVersionsRequest.WIRE.key
HANDSHAKE: Final = SaslHandshakeRequest.WIRE.key
AUTHENTICATE: Final = SaslAuthenticateRequest.WIRE.key
GSSAPI: Final = "GSSAPI"
MOST_BYTES: Final = 64 * 1024
"""Upper limit of a frame before authentication, in bytes."""
LONGEST_LOGIN_MS: Final = 60_000
"""Time a client has to authenticate before its connection is closed, in ms."""
LEAST_APART_MS: Final = 1000
"""Shortest time between two handshakes of a connection, in ms, as in Kafka."""


@dataclass(frozen=True, slots=True)
class Offer:
    """A SASL mechanism that a listener offers. `begin` creates its state machine.

    `max_reauth_ms` limits a session; 0 means no limit.
    """

    begin: Callable[[], ServerMechanism]
    max_reauth_ms: int = 0


@dataclass(frozen=True, slots=True)
class SaslListener:
    """Settings shared by all connections of a listener with SASL."""

    offers: Mapping[str, Offer]
    most_bytes: int = MOST_BYTES
    failed_delay_ms: int = 0


class LoginPhase(Enum):
    """The phases of a connection's authentication."""

    BEGINNING = auto()
    HANDSHAKE = auto()
    STEPS = auto()
    OPEN = auto()
    OVER = auto()


class Authentication:
    """The SASL authentication of one connection.

    `user` is the authenticated user, and `by_token` is true if a delegation token was used. `is_bare`: SASL tokens are frames
    without a request header.
    """

    __slots__ = ("_again_ms", "_began_ms", "_ends_ms", "_mechanism", "_name", "_phase", "_sasl", "by_token", "is_bare", "user")

    def __init__(self, sasl: SaslListener, now: Now) -> None:
        self._sasl = sasl
        self._began_ms = now.mono_ms
        self._phase = LoginPhase.BEGINNING
        self._name = ""
        self._mechanism: ServerMechanism | None = None
        self._ends_ms: int | None = None
        self._again_ms = 0
        self.user: str | None = None
        self.by_token = False
        self.is_bare = False

    @property
    def sasl(self) -> SaslListener:
        return self._sasl

    @property
    def mechanisms(self) -> Collection[str]:
        return self._sasl.offers

    def is_late(self, mono_ms: int) -> bool:
        """Return whether the client has failed to authenticate in time."""
        return self.user is None and mono_ms - self._began_ms > LONGEST_LOGIN_MS

    @property
    def most_bytes(self) -> int | None:
        """Return the limit of the next frame, in bytes; None if the ordinary limit applies."""
        return None if self._phase is LoginPhase.OPEN else self._sasl.most_bytes

    @property
    def accepts_bare_tokens(self) -> bool:
        """Return whether the next frame is a token instead of a request."""
        return self.is_bare and self.is_under_way

    @property
    def accepts_first_tokens(self) -> bool:
        """Return whether the next frame may be a token without a handshake, as clients of 0.9 send it."""
        return self._phase is LoginPhase.BEGINNING and GSSAPI in self._sasl.offers

    def is_open(self, mono_ms: int) -> bool:
        """Return whether the client is authenticated and its session has not expired."""
        return self._phase is LoginPhase.OPEN and (self._ends_ms is None or mono_ms < self._ends_ms)

    def objection(self, key: int, now: Now) -> str | None:
        """Return the reason why a request of this API must close the connection; None if the request may be served."""
        phase = self._phase
        if (key == HANDSHAKE and self.may_begin(now)) or (key == API_VERSIONS and phase is LoginPhase.BEGINNING):
            return None
        if key == AUTHENTICATE and phase is LoginPhase.STEPS:
            return None
        if phase is LoginPhase.OPEN:
            return "its session expired, and it did not reauthenticate in time"
        return f"API {key} was sent before authentication" if self.user is None else f"API {key} was sent during reauthentication"

    def may_begin(self, now: Now) -> bool:
        """Return whether a handshake is allowed now: the first one, or a reauthentication of a session that expires."""
        if self._phase is LoginPhase.OPEN:
            return self._ends_ms is not None and now.mono_ms >= self._again_ms
        return self._phase in (LoginPhase.BEGINNING, LoginPhase.HANDSHAKE)

    @property
    def is_under_way(self) -> bool:
        """Return whether an authentication has begun, so that the client must send a SASL token next."""
        return self._phase is LoginPhase.STEPS

    def record_api_versions(self) -> None:
        """Record that ApiVersions was answered, so that a handshake must follow."""
        if self._phase is LoginPhase.BEGINNING:
            self._phase = LoginPhase.HANDSHAKE

    def handshake(self, name: str, now: Now, *, is_bare: bool) -> Rejected | None:
        """Begin an authentication with a mechanism. Return the reason if it is rejected; the connection must then be closed."""
        if name not in self._sasl.offers:
            return self._over(Rejected(f"{name[:40]!r} is none of its listener's mechanisms"))
        if self.user is not None and name != self._name:
            again = f"Reauthenticate with {self._name}: a connection keeps its mechanism."
            return self._over(Rejected(f"it tried to reauthenticate with {name}, not {self._name}", again))
        self._name, self.is_bare, self._again_ms = name, is_bare, now.mono_ms + LEAST_APART_MS
        self._mechanism, self._phase = self._sasl.offers[name].begin(), LoginPhase.STEPS
        return None

    def step(self, data: bytes, now: Now) -> Step:
        """Process a SASL token of the client, and return the result.

        If the result is `Computed`, the caller runs its work, and then passes its outcome to the connection's authentication.
        """
        mechanism, self._mechanism = self._mechanism, None
        assert mechanism is not None, "there was a handshake, and no step has failed"
        step = mechanism.step(data, now.wall_ms)
        self._mechanism = mechanism
        return step

    def apply_step(self, step: Challenge | Authenticated | Rejected, now: Now) -> tuple[Challenge | Authenticated | Rejected, int]:
        """Apply the outcome of a token, and return the response and the lifetime of the session, in ms (0: unlimited)."""
        if isinstance(step, Challenge):
            return step, 0
        self._mechanism = None
        if isinstance(step, Rejected):
            return self._over(step), 0
        if self.user is not None and step.name != self.user:
            return self._over(Rejected("it tried to reauthenticate as another user", "Reauthenticate as the same user.")), 0
        self.user, self.by_token = step.name, step.by_token
        self._phase = LoginPhase.OPEN
        lifetimes = [self._sasl.offers[self._name].max_reauth_ms or None]
        lifetimes.append(None if step.expires_ms is None else max(step.expires_ms - now.wall_ms, 0))
        lifetime_ms = min((lifetime for lifetime in lifetimes if lifetime is not None), default=None)
        self._ends_ms = None if lifetime_ms is None else now.mono_ms + lifetime_ms
        return step, lifetime_ms or 0

    def sentence(self, rejected: Rejected) -> str:
        """Return the error message to send to a client whose authentication was rejected."""
        return rejected.sentence or f"{self._name} authentication failed: check name and password."

    def _over(self, rejected: Rejected) -> Rejected:
        self._phase, self._mechanism = LoginPhase.OVER, None
        return rejected
