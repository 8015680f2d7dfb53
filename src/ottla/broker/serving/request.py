"""What a handler is given, and what it can answer at once: values only, no sockets and no clocks of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, Generic, TypeVar

from ottla.broker.failures import Mistake
from ottla.broker.releases import TODAY, Release
from ottla.broker.security.authentication import Authentication
from ottla.broker.security.principals import ANONYMOUS
from ottla.broker.settings import SecurityProtocol
from ottla.ports import Now, Part
from ottla.wire.apis import Api
from ottla.wire.codec.blocks import BlockReader
from ottla.wire.schema import Message

Body = TypeVar("Body", bound=Message, covariant=True)


@dataclass(slots=True)
class Peer:
    """Who sent a request, the address at which it reached this broker, and what the listener there speaks.

    `authentication` is its login; None on listeners that ask for none.
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
    """The client id of its last request; noted only where there are quotas."""
    is_broker: bool = False
    """Whether that request was one of brokers, which have no quota; noted only there, too."""

    @property
    def owner(self) -> str:
        """On whose account it is what this peer makes the broker remember: its principal's, or its address's if it has none."""
        return self.host if self.principal == ANONYMOUS else self.principal

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(slots=True)
class Whole:
    """State shared by the parts of one large request.

    `admit` removes from a part the items that its client may not ask for, and returns the answer instead of serving it, if there is
    one. `repeated` has the names that the request has more than once though they must be unique. `made` counts the partitions that
    its parts have created so far.
    """

    reader: BlockReader
    admit: Callable[[Request[Message]], Ready | None]
    repeated: Collection[object] = frozenset()
    made: int = 0


@dataclass(slots=True)
class Request(Generic[Body]):
    """One decoded request. `version` is the one it is read and answered in, `asked_version` the one that the client named.

    `denied`, if any, answers the items that the client may not ask for; the body no longer holds them. A large request is divided:
    the body of a part has some of its items, all parts share `whole`, and `refused`, if any, is the answer instead of serving the
    part.
    `is_owned`: views of the frame, such as records, may be kept beyond the handler's return. `is_charged`: its bytes count in its
    client's quota.
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
    """Bytes of its frame."""

    def parts(self) -> Iterator[Request[Body]]:
        """Yield the request, or its parts one after the other, each admitted."""
        whole = self.whole
        if whole is None or self.is_part:
            yield self
            return
        for block in whole.reader.blocks():
            part = replace(self, body=whole.reader.part(block), is_part=True)
            part.refused = whole.admit(part)
            yield part

    def repeats(self, *name: object) -> bool:
        """Return whether several items of the request have this name, given as all parts of the name."""
        return self.whole is not None and name in self.whole.repeated


class _NoReply(Enum):
    NO_REPLY = "no reply"


NO_REPLY: Final = _NoReply.NO_REPLY
"""The answer to a request that its protocol does not answer (Produce with acks=0)."""


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection; `reason` goes into one log line. `last` is what its peer hears before, `parts` the bytes of that."""

    reason: str
    last: Message | None = None
    parts: Sequence[Part] = ()


@dataclass(frozen=True, slots=True)
class Encoded:
    """A response whose body is encoded already, in the version and as the release of its request."""

    parts: Sequence[Part]


@dataclass(frozen=True, slots=True)
class Throttled:
    """Send these parts and take no further request of the connection for so long (KIP-219); with `rests_first` send them then."""

    parts: Sequence[Part]
    throttle_ms: int
    rests_first: bool = False


Answerable = Message | Encoded | _NoReply | Close
"""What becomes an answer as it is."""

Ready = Answerable | Mistake
"""An answer that can leave now; a message is not yet encoded."""

Answer = Sequence[Part] | Throttled | Close | None
"""What the network does with a request: send these parts, perhaps with a rest, close the connection, or nothing."""
