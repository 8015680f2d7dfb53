"""What goes into a coordinator and what comes out of it: plain values, without any behaviour of groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from ottla.coord.consumer.topics import KnownTopics
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
class SyncGroupKey:
    """The deadline by which the members of one generation must have asked for their assignment."""

    group_id: str


@dataclass(frozen=True, slots=True)
class RebalanceKey:
    """The deadline by which a member of a consumer group must have given back what it has to."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class RejoinKey:
    """The deadline by which a consumer group's member that speaks the classic protocol must have joined again."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class MemberSyncGroupKey:
    """The deadline by which such a member must have asked for its assignment."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class ExpiryKey:
    """The next look for offsets and groups that have outlived their retention.

    A look that is under way goes on with group number `at` of `groups`, without the first `kept` of the topics it has.
    """

    groups: tuple[str, ...] = field(default=(), compare=False, repr=False)
    at: int = 0
    kept: int = 0


@dataclass(frozen=True, slots=True)
class TopicsKey:
    """Going on to forget what was committed for topics that are no more, with group number `at` of `groups`."""

    names: frozenset[str]
    groups: tuple[str, ...] = field(compare=False, repr=False)
    at: int


@dataclass(frozen=True, slots=True)
class PatternsKey:
    """Going on to look up a group's regular expressions among topics: the first of `patterns`, from name number `at` on.

    `matched` are those that it was found to mean so far, `found` what each one before it means.
    """

    group_id: str
    patterns: tuple[str, ...] = field(compare=False)
    names: tuple[str, ...] = field(compare=False, repr=False)
    at: int = field(default=0, compare=False)
    matched: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    found: tuple[tuple[str, frozenset[str]], ...] = field(default=(), compare=False, repr=False)


# Keys are no tuples: those of two kinds must never be equal.
TimerKey = SessionKey | JoinKey | SyncGroupKey | RebalanceKey | RejoinKey | MemberSyncGroupKey | PatternsKey | ExpiryKey | TopicsKey


class Due(NamedTuple):
    """An input: a deadline that an earlier outcome had set has passed."""

    key: TimerKey


class TopicsDeleted(NamedTuple):
    """An input: these topics are no more, and neither are the offsets committed for them. Others may have their names by now."""

    names: frozenset[str]


class TopicsChanged(NamedTuple):
    """An input: these are the topics now; `names` came, changed or went since the last time, and `new` says whether any came."""

    topics: KnownTopics
    names: frozenset[str]
    new: bool


@dataclass(frozen=True, slots=True)
class Asked(Generic[Body]):
    """One input: a request, or what nobody sent; who sent it, and the `token` under which its reply is expected."""

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
