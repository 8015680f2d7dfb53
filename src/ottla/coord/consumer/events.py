"""Volatile events of consumer groups: a restart of the coordinator forgets them. Values only."""

from __future__ import annotations

from typing import NamedTuple

from ottla.coord.consumer.topics import KnownTopics


class TopicsSeen(NamedTuple):
    """These are the topics now; `names` are those that came, changed or went, and `new` says whether any came."""

    topics: KnownTopics
    names: frozenset[str]
    new: bool


class MetadataRefreshed(NamedTuple):
    """A group has seen the current state of the topics it subscribes to."""

    group_id: str


class PatternsSought(NamedTuple):
    """A group began to match its regular expressions against the current topics."""

    group_id: str


class PatternsFound(NamedTuple):
    """It has matched all of them."""

    group_id: str


class AssignmentBegun(NamedTuple):
    """A large group is being assigned anew, because of the input that came in under `token`."""

    group_id: str
    token: int


class AssignmentEnded(NamedTuple):
    """It has been."""

    group_id: str


class RejoinAwaited(NamedTuple):
    """A member that uses the classic protocol was told to rejoin, and has a deadline for it."""

    group_id: str
    member_id: str


class RejoinSeen(NamedTuple):
    """That member rejoined."""

    group_id: str
    member_id: str


ConsumerEvent = MetadataRefreshed | PatternsSought | PatternsFound | AssignmentBegun | AssignmentEnded | RejoinAwaited | RejoinSeen
