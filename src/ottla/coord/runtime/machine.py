"""The contract between a coordinator's machine and its shard: inputs, outcomes and the machine's methods. Values only."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, Never, Protocol, TypeVar

from ottla.ports import Now, Pauses

Body = TypeVar("Body", covariant=True)
Record = TypeVar("Record")
Decided = TypeVar("Decided", covariant=True)

NOBODY = -1
"""The token of an input without a reply."""

KeyAndValue = tuple[bytes, bytes | None]
"""A record as it is stored; a tombstone's value is None."""


Shown = Callable[[frozenset[str]], frozenset[str]]
"""Returns those of the topics' names that a client may see."""


def everything(names: frozenset[str]) -> frozenset[str]:
    """Return all names, for a sender that may see every topic."""
    return names


class WrittenBy(NamedTuple):
    """The producer in whose transaction records are written."""

    producer_id: int
    producer_epoch: int


class Due(NamedTuple):
    """An input: the deadline that an earlier outcome set for `key` has passed."""

    key: Hashable


@dataclass(frozen=True, slots=True)
class Asked(Generic[Body]):
    """One input: a request, or an input that no client sent; its sender, and the `token` of its reply.

    `shown` keeps the topics that the sender may see.
    """

    body: Body
    version: int = 0
    client_id: str = ""
    client_host: str = ""
    token: int = NOBODY
    shown: Shown = everything


class Reply(NamedTuple):
    """The answer to the input with this `token`."""

    token: int
    message: object


class Timer(NamedTuple):
    """Set the deadline of `key`, in milliseconds of the monotonic clock, in place of an earlier one; None cancels it."""

    key: Hashable
    deadline_ms: int | None


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Decided]):
    """A decision: `records` to append and apply, in order, then `replies` to release, `timers` to set and `orders` to carry out.

    Records are stored ones, and volatile events, which a restart drops. The reply to the present input may be missing: a later
    outcome has it, under the same token. Orders are work for the shard's owner once the records are durable; after a restart
    `recall` repeats orders that may not have been carried out. Records of a `producer` are written in its transaction.
    """

    records: tuple[Decided, ...] = ()
    replies: tuple[Reply, ...] = ()
    timers: tuple[Timer, ...] = ()
    orders: tuple[object, ...] = ()
    producer: WrittenBy | None = None


NOTHING: Final[Outcome[Never]] = Outcome()


class Machine(Protocol[Record]):
    """A coordinator: a state that only `apply` changes, and decisions that only read it."""

    @property
    def weight(self) -> int:
        """Return the memory in bytes that counts for the limit over all machines of one kind."""
        ...

    def decide(self, asked: Asked[object], now: Now, /) -> Outcome[Record]:
        """Decide one input. Nothing changes until the outcome's records are applied."""
        ...

    def apply(self, record: Record, /) -> None:
        """Apply a record that was just decided, or read back at start-up."""
        ...

    def recall(self, now: Now, /) -> Outcome[Record]:
        """Return the outcome that continues the machine's work after all stored records were read back."""
        ...

    def encode(self, record: Record, /) -> KeyAndValue | None:
        """Return the record as it is stored; None for a volatile event. Raises `Unencodable`."""
        ...

    def is_independent(self, body: object, /) -> bool:
        """Return whether no other independent input's decision can depend on the outcome of this one.

        Outcomes of independent inputs may be appended together, in their order, if nothing else is decided between them.
        """
        ...

    def leaves_at_once(self, body: object, /) -> bool:
        """Return whether the reply to this request depends on nothing that could be lost, and need not wait for stable storage."""
        ...

    def dissolve(self) -> Pauses[None]:
        """Release all entries, with pauses: the machine is out of use, and freeing a large one takes long."""
        ...


DISSOLVED_AT_ONCE: Final = 1000
"""Entries released between two pauses: less than a millisecond's work."""


def dissolved(entries: dict[Any, Any]) -> Pauses[None]:
    """Empty a dictionary, and the dictionaries in it, with pauses."""
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
