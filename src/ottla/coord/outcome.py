"""What goes into the machine of groups and what comes out of it, beyond what every coordinator has: plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.coord.classic.events import ClassicEvent
from ottla.coord.consumer.events import ConsumerEvent, TopicsSeen
from ottla.coord.consumer.topics import KnownTopics
from ottla.coord.records import OffsetPending, Stored, TransactionEnded
from ottla.coord.runtime.machine import NOBODY, Outcome
from ottla.wire.errors import NONE

GroupRecord = Stored | ClassicEvent | ConsumerEvent | TopicsSeen | OffsetPending | TransactionEnded
"""What changes the state of groups and offsets: records of `__consumer_offsets`, and events that a restart forgets."""

GroupOutcome = Outcome[GroupRecord]


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
    """Going on to forget what was committed for topics that are no more, with group number `at` of `groups`.

    `token` is the one of the input that told of their deletion.
    """

    names: frozenset[str]
    groups: tuple[str, ...] = field(compare=False, repr=False)
    at: int
    token: int = field(default=NOBODY, compare=False)


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


class TopicsDeleted(NamedTuple):
    """An input: these topics are no more, and neither are the offsets committed for them. Others may have their names by now."""

    names: frozenset[str]


class TopicsForgotten(NamedTuple):
    """The reply to `TopicsDeleted`: no offset is left that was committed for those topics, unless there was an error."""

    names: frozenset[str]
    error_code: int = NONE


class TopicsChanged(NamedTuple):
    """An input: these are the topics now. `names` came, changed or went since the last time; `new` says whether any came."""

    topics: KnownTopics
    names: frozenset[str]
    new: bool
