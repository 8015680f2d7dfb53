"""The interface between a coordinator's machine and its shard: inputs, outcomes and the machine's methods. Values only."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, NamedTuple, Never, Protocol, TypeVar

from ottla.ports import Now, Pauses
from ottla.values import dataclass

Body = TypeVar("Body", covariant=True)
Record = TypeVar("Record")
Decided = TypeVar("Decided", covariant=True)

NOBODY = -1
"""The token of an input without a reply."""

KeyAndValue = tuple[bytes, bytes | None]
"""A stored record: its key and its value. The value of a tombstone is None."""


Shown = Callable[[frozenset[str]], frozenset[str]]
"""A function that filters topic names: it returns the names that a client is allowed to see."""


def every_topic(names: frozenset[str]) -> frozenset[str]:
    """Return all names, for a sender that is allowed to see every topic."""
    return names


class WrittenBy(NamedTuple):
    """The producer whose transaction contains the records."""

    producer_id: int
    producer_epoch: int


class Due(NamedTuple):
    """An input to a coordinator: the deadline of the `Timer` with this `key` has passed."""

    key: Hashable


@dataclass(frozen=True, slots=True)
class Input(Generic[Body]):
    """One input to a coordinator: a client's request, or an input of the broker itself. `token` identifies its reply.

    `shown` filters topic names: it returns the names that the sender is allowed to see.
    """

    body: Body
    version: int = 0
    client_id: str = ""
    client_host: str = ""
    token: int = NOBODY
    shown: Shown = every_topic


class Reply(NamedTuple):
    """The answer to the input with this `token`."""

    token: int
    message: object


class Timer(NamedTuple):
    """A new deadline for `key`, in ms of the monotonic clock. It replaces the key's former deadline; None cancels the deadline."""

    key: Hashable
    deadline_ms: int | None


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Decided]):
    """A decision: `records` to append and apply in this order, then `replies` to release, `timers` to set and `orders` to execute.

    Records are stored records or volatile events, which are lost at a restart. A missing reply comes in a later outcome, with the
    same token. Orders are instructions that the shard's owner executes when the records are durable. After a restart, `recall`
    repeats orders that were perhaps not executed. With a `producer`, the records are in its transaction.
    """

    records: tuple[Decided, ...] = ()
    replies: tuple[Reply, ...] = ()
    timers: tuple[Timer, ...] = ()
    orders: tuple[object, ...] = ()
    producer: WrittenBy | None = None


NOTHING: Final[Outcome[Never]] = Outcome()


class Machine(Protocol[Record]):
    """A coordinator as a state machine: decisions only read its state, and only `apply` changes it."""

    @property
    def weight(self) -> int:
        """Return the estimated memory of this coordinator's state in bytes.

        One setting limits the memory of all group coordinators of a broker together, another one that of all transaction
        coordinators.
        """
        ...

    def decide(self, asked: Input[object], now: Now, /) -> Outcome[Record]:
        """Decide one input. Nothing changes until the outcome's records are applied."""
        ...

    def apply(self, record: Record, /) -> None:
        """Apply a record that was just decided, or that was loaded from the log."""
        ...

    def recall(self, now: Now, /) -> Outcome[Record]:
        """Return the outcome that sets the coordinator's timers and resumes its work, after all stored records were loaded."""
        ...

    def encode(self, record: Record, /) -> KeyAndValue | None:
        """Return the record as it is stored; None for a volatile event. Raises `Unencodable`."""
        ...

    def is_independent(self, body: object, /) -> bool:
        """Return whether no decision about another independent input depends on the outcome of this input.

        Outcomes of independent inputs can be appended together, in their order, if nothing else is decided between them.
        """
        ...

    def leaves_at_once(self, body: object, /) -> bool:
        """Return whether the reply to this request can precede the durability of its records, because it shows no state at risk."""
        ...

    def dissolve(self) -> Pauses[None]:
        """Release all entries of an unused machine, with pauses, because freeing a large machine takes long."""
        ...


DISSOLVED_AT_ONCE: Final = 1000
"""The number of entries released between two pauses, which takes less than a millisecond."""


def drain(entries: dict[Any, Any]) -> Pauses[None]:
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
