"""The protocol of all mechanisms: a state machine on each side that takes the peer's bytes and returns its own (RFC 4422).

The caller reads and writes frames. It sends the client only the bytes and the sentence of a step. It writes the cause of a
rejection to the broker's log only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Challenge:
    """The exchange continues. `data` goes to the client, and the client's answer is the input of the next step."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The client is authenticated. `data` is the last message to the client.

    `name` is the user's name, so that the principal is User:name. `expires_ms` (ms since 1970) is the expiry of a token or another
    proof; None if it does not expire. `extensions` are the SASL extensions that the client sent with its token (KIP-342).
    `by_token` is set for a delegation token (KIP-48).
    """

    name: str
    data: bytes = b""
    expires_ms: int | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)
    by_token: bool = False


@dataclass(frozen=True, slots=True)
class Rejected:
    """The login is refused. `cause` is for the broker's log.

    `sentence` is for the client, and must not reveal whether a user exists. If it is None, the client gets the sentence for wrong
    credentials.
    """

    cause: str
    sentence: str | None = None


@dataclass(frozen=True, slots=True)
class Computed:
    """The step takes milliseconds of processor time, or more. `work` returns the actual step, and can run on another thread.

    The machine must not be called before `work` has returned.
    """

    work: Callable[[], Challenge | Authenticated | Rejected]


Step = Challenge | Authenticated | Rejected | Computed
"""The result of a server's step."""


class ServerMechanism(Protocol):
    """The server's side of one exchange. A machine is used once: a new exchange needs a new machine."""

    def step(self, data: bytes, wall_ms: int) -> Step:
        """Process the client's next message at `wall_ms` (ms since 1970). Only a `Challenge` is followed by another step."""


class ClientMechanism(Protocol):
    """The client's side of one exchange. A machine is used once: a new exchange needs a new machine."""

    def step(self, challenge: bytes) -> bytes | None:
        """Process the server's message (empty at first), and return the message to send.

        Return None once the server is authenticated. A call can take some milliseconds of processor time. Raises `SaslFailed`.
        """


class SaslFailed(Exception):
    """The server did not prove its identity, or does not support the mechanism. The message says what to do."""
