"""The interfaces of groups: the methods of one group, and of each kind of groups, that a coordinator calls.

A new kind is two classes, a `Group` and a `GroupKind`, and an entry in `ottla.coord.kinds`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Final, Protocol

from ottla.coord.commit_rules import Commit
from ottla.coord.consumer.assign import Assignor
from ottla.coord.consumer.events import TopicsSeen
from ottla.coord.consumer.topics import KnownTopics
from ottla.coord.memory import GroupMemory
from ottla.coord.offsets import FetchGroup
from ottla.coord.outcome import GroupOutcome
from ottla.coord.records import Stored
from ottla.coord.settings import GroupSettings
from ottla.ports import Now
from ottla.wire.errors import GROUP_ID_NOT_FOUND, ILLEGAL_GENERATION, NONE

OfGroup = Callable[[str], Mapping[str, Any]]
"""A function that returns a group's own settings, by Kafka's names ("consumer.session.timeout.ms"), from its group id."""

Decision = Callable[[Any, Any, Now], GroupOutcome]
"""A method of a `GroupKind` that decides an `Asked` input."""

GROUP_ID_NOT_FOUND_FROM = 9
"""The first version of OffsetCommit that reports a missing group with GROUP_ID_NOT_FOUND."""


class OffsetRules(Protocol):
    """The rules for commits, fetches and deletions of a group's offsets. Most methods return an error code."""

    def commit_error(self, commit: Commit, /) -> int:
        """Return the error code of a commit; NONE if it is allowed."""
        ...

    def fetch_error(self, wanted: FetchGroup, /) -> int:
        """Return the error code of a fetch of offsets; NONE if it is allowed."""
        ...

    def offset_delete_error(self) -> int:
        """Return the error code of an OffsetDelete; NONE if it is refused only for topics with `is_subscribed`."""
        ...

    def session_restarted_by_commit(self, member_id: str, /) -> int | None:
        """Return a member's session timeout in ms if a commit restarts its session, else None."""
        ...


class Group(OffsetRules, Protocol):
    """The interface of a group of any protocol, as its coordinator and the expiry of offsets use it."""

    group_type: ClassVar[str]
    """The group's type in ListGroups."""

    @property
    def group_id(self) -> str: ...

    @property
    def weight(self) -> int:
        """Return the estimated memory of the group's members, in bytes."""
        ...

    @property
    def protocol_type(self) -> str | None: ...

    @property
    def state(self) -> Enum:
        """Return the state; its value is the name in ListGroups."""
        ...

    @property
    def members(self) -> Mapping[str, object]: ...

    @property
    def is_empty(self) -> bool:
        """Return whether the group has no members, so that it can be deleted."""
        ...

    @property
    def is_deserted(self) -> bool:
        """Return whether the group may be deleted together with its last offset."""
        ...

    def is_subscribed(self, topic: str, /) -> bool:
        """Return whether a member possibly reads this topic."""
        ...

    def yields_to(self, group_type: str, /) -> bool:
        """Return whether a new group of this type may replace the group, which must be empty for that."""
        ...

    def serves(self, request: type, /) -> bool:
        """Return whether this group decides requests of this type, even for an API of another kind of groups."""
        ...

    def expires_from_ms(self) -> int | None:
        """Return the wall time in ms at which retention of offsets began; -1 if it begins at each commit; None if none expires."""
        ...

    def tombstones(self) -> Sequence[Stored]: ...

    def without_deleted(self, topics: KnownTopics, /) -> Sequence[Stored]:
        """Return the records that remove deleted topics from the group's own state. `topics` are those that exist."""
        ...


class MissingGroup:
    """The rules for a group that does not exist. Offsets can be committed without members, but none can be deleted."""

    def commit_error(self, commit: Commit) -> int:
        if commit.epoch < 0:
            return NONE
        is_old = commit.is_transactional or commit.version < GROUP_ID_NOT_FOUND_FROM
        return ILLEGAL_GENERATION if is_old else GROUP_ID_NOT_FOUND

    def fetch_error(self, wanted: FetchGroup) -> int:
        return NONE

    def offset_delete_error(self) -> int:
        return GROUP_ID_NOT_FOUND

    def session_restarted_by_commit(self, member_id: str) -> int | None:
        return None


MISSING: Final[OffsetRules] = MissingGroup()


@dataclass(slots=True)
class Context:
    """The data that decisions about all groups of one coordinator share.

    The first assignor is the default. `tables` are the groups of each kind, by id.
    """

    settings: GroupSettings
    new_id: Callable[[], str]
    memory: GroupMemory
    assignors: Mapping[str, Assignor]
    of_group: OfGroup
    topics: KnownTopics = field(default_factory=KnownTopics)
    tables: tuple[dict[str, Group], ...] = ()

    def find(self, group_id: str) -> Group | None:
        """Return the group with this id, of any kind; None if it does not exist."""
        for groups in self.tables:
            if group_id in groups:
                return groups[group_id]
        return None


class GroupKind(Protocol):
    """All groups of one protocol (classic, consumer or share) of a coordinator, with the rules that decide their requests."""

    group_type: ClassVar[str]
    decisions: ClassVar[Mapping[type, Decision]]
    """The method that decides each type of request or timer. Requests of another kind's API come only if `serves` is true."""
    records: ClassVar[frozenset[type]]
    """The types of the records and events that `apply` takes."""
    founding: ClassVar[frozenset[type]]
    """The types of the records that create a group, which replaces a group of the same id of another kind."""
    refusals: ClassVar[Mapping[type, Callable[[Any, int], object]]]
    """For each request type, the function that returns a reply with the error code in every error field."""

    def __init__(self, context: Context, /) -> None: ...

    @property
    def groups(self) -> dict[str, Any]: ...

    def apply(self, record: Any, /) -> int:
        """Apply one record or event, and return the growth of its group's weight in bytes."""
        ...

    def recall(self, now: Now, /) -> Iterable[GroupOutcome]:
        """Return the outcomes that set all timers and continue all rebalances after the records were read back."""
        ...

    def see(self, event: TopicsSeen, /) -> None:
        """Process a change of topics for all groups of this kind. `Context.topics` already has the new topics."""
        ...


def drop(groups: dict[str, Any], group_id: str) -> int:
    """Remove a group if it exists. Return the change of the total weight in bytes, which is negative or 0."""
    group = groups.pop(group_id, None)
    return 0 if group is None else -group.weight
