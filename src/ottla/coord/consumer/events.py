"""What happens to consumer groups and is not stored: a restart of the coordinator forgets it. Values only."""

from __future__ import annotations

from typing import NamedTuple

from ottla.coord.consumer.topics import KnownTopics


class TopicsSeen(NamedTuple):
    """These are the topics now; `names` are those that came, changed or went, and `new` says whether any came."""

    topics: KnownTopics
    names: frozenset[str]
    new: bool


class MetadataRefreshed(NamedTuple):
    """A group has looked at the topics that it subscribes to as they are now."""

    group_id: str


class PatternsSought(NamedTuple):
    """A group begins to look up what its regular expressions stand for among the topics as they are now."""

    group_id: str


class PatternsFound(NamedTuple):
    """It is through with them."""

    group_id: str


class RejoinAwaited(NamedTuple):
    """A member that speaks the classic protocol was told to join again, and has a deadline for it."""

    group_id: str
    member_id: str


class RejoinSeen(NamedTuple):
    """That member joined again."""

    group_id: str
    member_id: str


ConsumerEvent = MetadataRefreshed | PatternsSought | PatternsFound | RejoinAwaited | RejoinSeen
