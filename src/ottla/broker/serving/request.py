"""The request that a handler gets, and its immediate results: values only, without sockets and clocks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from ottla.broker.failures import Mistake
from ottla.broker.releases import TODAY, Release
from ottla.broker.security.principals import ANONYMOUS
from ottla.broker.settings import SecurityProtocol
from ottla.ports import Now, Part
from ottla.values import dataclass
from ottla.wire.apis import Api
from ottla.wire.schema import Message

if TYPE_CHECKING:
    from ottla.broker.security.authentication import Authentication

Body = TypeVar("Body", bound=Message, covariant=True)


@dataclass(slots=True)
class Peer:
    """The client of a request, its addresses, and the properties of its listener.

    `authentication` is None on listeners without SASL.
    """

    id: int
    host: str
    port: int
    local_host: str = ""
    local_port: int = 0
    listener: str = "PLAINTEXT"
    principal: str = ANONYMOUS
    release: Release = TODAY
    client_software_name: str = ""
    client_software_version: str = ""
    authentication: Authentication | None = None
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    client_id: str = ""
    """The client id of the last request; set only if there are quotas."""
    is_broker: bool = False
    """Whether the last request was from a broker, to which no quota applies; set only if there are quotas."""

    @property
    def owner(self) -> str:
        """Return the owner of state that this peer creates: its principal, or its address if it is anonymous."""
        return self.host if self.principal == ANONYMOUS else self.principal

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class PartsReader(Protocol):
    """The parts of one large request: `part(block)` is a message with some of its items."""

    def blocks(self) -> Iterator[Any]: ...

    def part(self, block: Any) -> Any: ...


@dataclass(slots=True)
class Whole:
    """State shared by the parts of one large request.

    `admit` removes items of a part that the client may not access, and returns a response if the part must not be served.
    `repeated` are names that occur several times although they must be unique. `made` counts the partitions created so far.
    """

    reader: PartsReader
    admit: Callable[[Request[Message]], Ready | None]
    repeated: Collection[object] = frozenset()
    made: int = 0
    count: int = 0
    """The number of items in all arrays."""


@dataclass(slots=True)
class Request(Generic[Body]):
    """One decoded request. It is decoded and answered in `version`; the client sent `asked_version`.

    `denied` is the response for items that the client may not access; the body no longer contains them. A large request is
    divided: the body of a part has some of its items, all parts share `whole`, and `refused` is the response if the part must not
    be served.

    `is_owned`: views of the frame, such as records, may be kept beyond the handler's return. `is_charged`: its bytes are already
    counted toward its client's quota.
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
    whole: Whole | None = None
    is_part: bool = False
    refused: Ready | None = None
    is_owned: bool = False
    is_charged: bool = False
    size: int = 0
    """Size of its frame, in bytes."""

    def parts(self) -> Iterator[Request[Body]]:
        """Yield the request, or its parts one after the other. Each part contains only items that the client may access."""
        whole = self.whole
        if whole is None or self.is_part:
            yield self
            return
        for block in whole.reader.blocks():
            part = replace(self, body=whole.reader.part(block), is_part=True)
            part.refused = whole.admit(part)
            yield part

    def repeats(self, *name: object) -> bool:
        """Return whether several items of the request have this name, which can have parts such as (topic, partition)."""
        return self.whole is not None and name in self.whole.repeated


class _NoReply(Enum):
    NO_REPLY = "no reply"


NO_REPLY: Final = _NoReply.NO_REPLY
"""The result for a request without a response (Produce with acks=0)."""


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection; `reason` is logged. `last` is a message sent before the close, and `parts` its bytes."""

    reason: str
    last: Message | None = None
    parts: Sequence[Part] = ()


@dataclass(frozen=True, slots=True)
class Encoded:
    """A response whose body is already encoded, in the version and for the release of its request."""

    parts: Sequence[Part]


@dataclass(frozen=True, slots=True)
class Throttled:
    """Send these parts and mute the connection for `throttle_ms` (KIP-219). With `rests_first`, send them after this time."""

    parts: Sequence[Part]
    throttle_ms: int
    rests_first: bool = False


Answerable = Message | Encoded | _NoReply | Close
"""A result that is encoded without further steps."""

ANSWERABLE: Final = (Message, Encoded, _NoReply, Close)
"""The types of these results, the most frequent first, because a check against a union takes longer."""

Ready = Answerable | Mistake
"""A result that can be sent now; a message is not yet encoded."""

READY: Final = (*ANSWERABLE, Mistake)

Answer = Sequence[Part] | Throttled | Close | None
"""The network's instruction after a request: send these parts, send and mute the connection, close it, or do nothing (None)."""
