"""The contract of a coordinator's machine: what goes in, what comes out, and what a shard asks of it. Values only."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, Never, Protocol, TypeVar

from ottla.ports import Now

Body = TypeVar("Body", covariant=True)
Record = TypeVar("Record")
Decided = TypeVar("Decided", covariant=True)

NOBODY = -1
"""The token of an input whose reply nobody waits for."""

KeyAndValue = tuple[bytes, bytes | None]
"""A record as it is stored; a tombstone's value is None."""


Shown = Callable[[frozenset[str]], frozenset[str]]
"""Leaves of topics' names those that somebody may be told of."""


def everything(names: frozenset[str]) -> frozenset[str]:
    """What those are shown from whom nothing is hidden."""
    return names


class WrittenBy(NamedTuple):
    """In whose transaction records are written."""

    producer_id: int
    producer_epoch: int


class Due(NamedTuple):
    """An input: the deadline that an earlier outcome set for `key` has passed."""

    key: Hashable


@dataclass(frozen=True, slots=True)
class Asked(Generic[Body]):
    """One input: a request, or something that no client sent; who sent it, and the `token` under which its reply is expected.

    `shown` tells which topics the sender may hear of.
    """

    body: Body
    version: int = 0
    client_id: str = ""
    client_host: str = ""
    token: int = NOBODY
    shown: Shown = everything


class Reply(NamedTuple):
    """The answer to the input that came in under `token`."""

    token: int
    message: object


class Timer(NamedTuple):
    """Set the deadline of `key`, in milliseconds of the monotonic clock, in place of an earlier one; None cancels it."""

    key: Hashable
    deadline_ms: int | None


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Decided]):
    """A decision: `records` to append and apply, in order, then `replies` to release, `timers` to set and `orders` to carry out.

    Records are stored ones and volatile events, which a restart forgets. The reply to the input at hand may be missing: it comes
    with a later outcome, under the same token. Orders are what others are to do once the records are durable; after a restart
    `recall` gives those again that may not have been carried out. Records of a `producer` are written in its transaction.
    """

    records: tuple[Decided, ...] = ()
    replies: tuple[Reply, ...] = ()
    timers: tuple[Timer, ...] = ()
    orders: tuple[object, ...] = ()
    producer: WrittenBy | None = None


NOTHING: Final[Outcome[Never]] = Outcome()


class Machine(Protocol[Record]):
    """A coordinator: a state that `apply` alone changes, and decisions that only read it."""

    @property
    def weight(self) -> int:
        """What takes memory for which there is a bound over all machines of its kind, in bytes."""
        ...

    def decide(self, asked: Asked[object], now: Now, /) -> Outcome[Record]:
        """Decide one input. Nothing changes until the outcome's records are applied."""
        ...

    def apply(self, record: Record, /) -> None:
        """Let a record take effect: one that was just decided, or one read back at start-up."""
        ...

    def recall(self, now: Now, /) -> Outcome[Record]:
        """What to do once all stored records were read back."""
        ...

    def encode(self, record: Record, /) -> KeyAndValue | None:
        """The record as it is stored; None for a volatile event. Raises `Unencodable`."""
        ...

    def is_independent(self, body: object, /) -> bool:
        """Whether no other independent input's decision can rest on what comes of this one.

        Outcomes of independent inputs may be appended together, in their order, if nothing else is decided in between.
        """
        ...

    def leaves_at_once(self, body: object, /) -> bool:
        """Whether the reply to this request shows nothing that could still be lost, and need not wait for stable storage."""
        ...

    def dissolve(self) -> Generator[None, object, None]:
        """Forget everything, with pauses: nobody asks it any more, and to free all that a large one holds takes long."""
        ...


DISSOLVED_AT_ONCE: Final = 1000
"""Entries that are forgotten between two pauses: less than a millisecond's work."""


def dissolved(entries: dict[Any, Any]) -> Generator[None, object, None]:
    """Empty a dictionary, and those within it, with pauses."""
    opened, forgotten = [entries], 0
    while opened:
        if not opened[-1]:
            opened.pop()
            continue
        _, value = opened[-1].popitem()
        if isinstance(value, dict):
            opened.append(value)
        forgotten += 1
        if forgotten % DISSOLVED_AT_ONCE == 0:
            yield None
