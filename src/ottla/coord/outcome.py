"""What goes into a coordinator and what comes out of it: plain values, without any behaviour of groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from ottla.coord.records import Stored, is_stored

Body = TypeVar("Body")

NOBODY = -1
"""The token of an input that nobody waits for."""


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The deadline by which a member must be heard of again."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class JoinKey:
    """The deadline by which a group's members must have joined again."""

    group_id: str


@dataclass(frozen=True, slots=True)
class SyncKey:
    """The deadline by which the members of one generation must have asked for their assignment."""

    group_id: str


@dataclass(frozen=True, slots=True)
class ExpiryKey:
    """The next look for offsets and groups that have outlived their retention."""


# Keys are no tuples: those of two kinds must never be equal.
TimerKey = SessionKey | JoinKey | SyncKey | ExpiryKey


class Due(NamedTuple):
    """An input: a deadline that an earlier outcome had set has passed."""

    key: TimerKey


class TopicsDeleted(NamedTuple):
    """An input: these topics are no more, and neither are the offsets committed for them."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Asked(Generic[Body]):
    """One input: a request (or `Due`, `TopicsDeleted`), who sent it, and the `token` under which its reply is expected."""

    body: Body
    version: int = 0
    client_id: str = ""
    client_host: str = ""
    token: int = NOBODY


class Reply(NamedTuple):
    """A response message of `ottla.wire.api` for the request that came in under `token`."""

    token: int
    message: Any


class Timer(NamedTuple):
    """Set the deadline of `key` anew, in milliseconds of the monotonic clock; None cancels it."""

    key: TimerKey
    deadline_ms: int | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """A decision: `records` to append and apply, in order; then the `replies` it owes, and `timers` to set.

    Records are stored ones (`ottla.coord.records`) and volatile events (`ottla.coord.classic.events`). A reply to the input at
    hand may be missing: it comes with a later outcome, under the same token.
    """

    records: tuple[Any, ...] = ()
    replies: tuple[Reply, ...] = ()
    timers: tuple[Timer, ...] = ()

    @property
    def stored(self) -> list[Stored]:
        """The records that must be on stable storage before the replies leave."""
        return [record for record in self.records if is_stored(record)]


NOTHING = Outcome()
