"""Volatile events of consumer groups: they are lost when the coordinator restarts. Values only."""

from __future__ import annotations

from typing import NamedTuple

from ottla.coord.consumer.topics import KnownTopics


class TopicsSeen(NamedTuple):
    """The present topics. `names` were created, changed or deleted. `new`: some of them were created."""

    topics: KnownTopics
    names: frozenset[str]
    new: bool


class MetadataRefreshed(NamedTuple):
    """A group has checked its subscribed topics for changes."""

    group_id: str


class PatternsSought(NamedTuple):
    """A group began to match its regular expressions against the present topics."""

    group_id: str


class PatternsFound(NamedTuple):
    """A group has matched all its regular expressions."""

    group_id: str


class AssignmentBegun(NamedTuple):
    """The assignment of a large group began, because of the input with this `token`."""

    group_id: str
    token: int


class AssignmentEnded(NamedTuple):
    """The assignment of a large group ended."""

    group_id: str


class RejoinAwaited(NamedTuple):
    """A member that uses the classic protocol must rejoin, and has a deadline for it."""

    group_id: str
    member_id: str


class RejoinSeen(NamedTuple):
    """A member has rejoined before its deadline."""

    group_id: str
    member_id: str


ConsumerEvent = MetadataRefreshed | PatternsSought | PatternsFound | AssignmentBegun | AssignmentEnded | RejoinAwaited | RejoinSeen
