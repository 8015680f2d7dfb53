"""What every mechanism has in common: a machine on either side, which takes the other's bytes and gives its own (RFC 4422).

Knows nothing of frames. Who runs a server's machine says to the client no more than what is in the step: why somebody was refused
is for the broker's log alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Challenge:
    """The exchange goes on: these bytes go to the client, and its answer is the next step."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The client is who it says; `data` is the last it hears.

    `name` is the user's, so that the principal is User:name. `expires_ms` (Unix epoch) is when what proved it ends, None if it does
    not. `extensions` are what the client said beside its proof (KIP-342). `by_token`: it came with a delegation token (KIP-48).
    """

    name: str
    data: bytes = b""
    expires_ms: int | None = None
    extensions: Mapping[str, str] = field(default_factory=dict)
    by_token: bool = False


@dataclass(frozen=True, slots=True)
class Rejected:
    """The client is not let in. `cause` is for the broker's log.

    `sentence` is for the client; without one it hears the same as everybody with wrong credentials. It must not tell whether a user
    exists.
    """

    cause: str
    sentence: str | None = None


@dataclass(frozen=True, slots=True)
class Computed:
    """The step takes the processor for long: `work` returns it. It may be called on another thread, and nothing else meanwhile."""

    work: Callable[[], Challenge | Authenticated | Rejected]


Step = Challenge | Authenticated | Rejected | Computed
"""What comes of a client's bytes."""


class ServerMechanism(Protocol):
    """A server's side of one exchange. It is used once: a new exchange needs a new machine."""

    def step(self, data: bytes, wall_ms: int) -> Step:
        """Take the client's next bytes, at a time of the Unix epoch. After anything but a challenge there is no next step."""


class ClientMechanism(Protocol):
    """A client's side of one exchange. It is used once: a new exchange needs a new machine."""

    def step(self, challenge: bytes) -> bytes | None:
        """Take the server's bytes (none at first) and return what to send; None: nothing more, the client is satisfied.

        It may take the processor for some milliseconds. Raises `SaslFailed`.
        """


class SaslFailed(Exception):
    """The server did not prove who it is, or does not speak the mechanism: one sentence that says what to do."""
