"""The protocol of all mechanisms: a state machine on each side that takes the peer's bytes and returns its own (RFC 4422).

Frames are the caller's business. The caller sends the client only the bytes and the sentence of a step: the cause of a rejection
is for the broker's log alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Challenge:
    """The exchange goes on: `data` goes to the client, and the client's answer is the input of the next step."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The client is authenticated; `data` is the last message to it.

    `name` is the user's name, so the principal is User:name. `expires_ms` (ms since 1970) is the expiry of the token or other
    proof, None if it has none. `extensions` are those that the client sent with its token (KIP-342). `by_token` is set for a
    delegation token (KIP-48).
    """

    name: str
    data: bytes = b""
    expires_ms: int | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)
    by_token: bool = False


@dataclass(frozen=True, slots=True)
class Rejected:
    """The login is refused. `cause` is for the broker's log.

    `sentence` is for the client, and must not reveal whether a user exists. With None the client gets the sentence that all wrong
    credentials get.
    """

    cause: str
    sentence: str | None = None


@dataclass(frozen=True, slots=True)
class Computed:
    """The step needs the processor for milliseconds or more. `work` returns the step, and may run on another thread.

    The machine must not be called again before `work` has returned.
    """

    work: Callable[[], Challenge | Authenticated | Rejected]


Step = Challenge | Authenticated | Rejected | Computed
"""The result of a server's step."""


class ServerMechanism(Protocol):
    """The server's side of one exchange. A machine is used once: a new exchange needs a new machine."""

    def step(self, data: bytes, wall_ms: int) -> Step:
        """Process the client's next message at `wall_ms` (ms since 1970). Only after a `Challenge` is there a next step."""


class ClientMechanism(Protocol):
    """The client's side of one exchange. A machine is used once: a new exchange needs a new machine."""

    def step(self, challenge: bytes) -> bytes | None:
        """Process the server's message (empty at first) and return the message to send, or None once the server is authenticated.

        A call may use the processor for some milliseconds. Raises `SaslFailed`.
        """


class SaslFailed(Exception):
    """The server did not prove its identity, or does not support the mechanism: one sentence that says what to do."""
