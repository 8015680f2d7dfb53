"""What a handler is given and what it may answer: values only, no sockets and no clocks of its own."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.releases import TODAY, Release
from ottla.ports import Now
from ottla.wire.schema import Message

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@dataclass(slots=True)
class Peer:
    """Who sent a request, the address at which it reached this broker, and the release that the listener there is."""

    id: int
    host: str
    port: int
    local_host: str = ""
    local_port: int = 0
    listener: str = "PLAINTEXT"
    principal: str = "User:ANONYMOUS"
    release: Release = TODAY
    client_software_name: str = ""
    client_software_version: str = ""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(slots=True)
class Request:
    """One decoded request. `body` is None only for an ApiVersions request of a version that is not known here."""

    key: int
    version: int
    correlation_id: int
    client_id: str | None
    body: Any
    peer: Peer
    now: Now

    @property
    def release(self) -> Release:
        return self.peer.release


class _NoReply(Enum):
    NO_REPLY = "no reply"


NO_REPLY: Final = _NoReply.NO_REPLY
"""The answer to a request that its protocol does not answer (Produce with acks=0)."""


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection instead of answering; `reason` goes into one log line."""

    reason: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """A reply that must wait: a value that the broker keeps.

    It is retried when one of the keys in `on` is woken (`expired` False), and once more when the monotonic clock passes
    `until_ms` (`expired` True); None sets no end. What an expired one answers may be gone through in slices, or be promised, but it
    waits for nothing that may never come: it is no `Waiting` with an end of its own, and not None. Any other retry that comes to
    nothing answers None: it waits on as it is. (It does not answer itself, for what knows itself stays until the garbage collector
    comes.)

    While a `blocking` one waits, later requests of the same connection are not begun, as in Kafka; a reply that waits for
    durability only lets them go on, so that one sync serves many.
    """

    on: tuple[Hashable, ...]
    until_ms: int | None
    retry: Callable[[Now, bool], Reply | None]
    blocking: bool = True


Ready = Message | _NoReply | Close
"""An answer that can leave now; a message is not yet encoded."""


class Promised:
    """A reply that somebody owes and hands in by himself: nobody has to ask him again, as with `Waiting`.

    Whoever promised it calls `deliver(reply)` once, but not before the handler has returned; the broker says where it goes.
    `blocking` is as for `Waiting`.
    """

    __slots__ = ("blocking", "deliver")

    def __init__(self, *, blocking: bool) -> None:
        self.blocking = blocking
        self.deliver: Callable[[Ready], None]


Reply = Ready | Waiting | Promised
Handler = Callable[["Broker", Request], Reply]
Handlers = dict[int, tuple[range, Handler]]
"""API key -> (versions served, handler): what each handler module declares about itself."""
