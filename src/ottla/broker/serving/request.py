"""What a handler is given, and what it can answer at once: values only, no sockets and no clocks of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, Generic, TypeVar

from ottla.broker.releases import TODAY, Release
from ottla.ports import Now, Part
from ottla.wire.apis import Api
from ottla.wire.schema import Message

Body = TypeVar("Body", bound=Message, covariant=True)


@dataclass(slots=True)
class Peer:
    """Who sent a request, the address at which it reached this broker, and the release that the listener there speaks as."""

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
class Request(Generic[Body]):
    """One decoded request. `version` is the one it is read and answered in, `asked_version` the one that the client named.

    `denied`, if any, answers the parts of it that the client may not ask for; the body no longer holds them.
    """

    api: Api
    version: int
    asked_version: int
    correlation_id: int
    client_id: str | None
    body: Body
    peer: Peer
    release: Release
    now: Now
    denied: Message | None = None


class _NoReply(Enum):
    NO_REPLY = "no reply"


NO_REPLY: Final = _NoReply.NO_REPLY
"""The answer to a request that its protocol does not answer (Produce with acks=0)."""


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection instead of answering; `reason` goes into one log line."""

    reason: str


Ready = Message | _NoReply | Close
"""An answer that can leave now; a message is not yet encoded."""

Answer = Sequence[Part] | Close | None
"""What the network does with a request: send these parts, close the connection, or nothing."""
