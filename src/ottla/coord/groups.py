"""The interfaces of groups: what a coordinator asks of one group, and of each kind of groups. No kind is known here.

A new kind (such as KIP-932's share groups) is two classes, a `Group` and a `GroupKind`, and an entry in `ottla.coord.kinds`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Final, Protocol

from ottla.coord.consumer.assign import Assignor
from ottla.coord.consumer.events import TopicsSeen
from ottla.coord.consumer.topics import KnownTopics
from ottla.coord.memory import GroupMemory
from ottla.coord.offsets import FetchGroup
from ottla.coord.outcome import GroupOutcome
from ottla.coord.records import Stored
from ottla.coord.settings import GroupSettings
from ottla.ports import Now
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.txn_offset_commit import TxnOffsetCommitRequest
from ottla.wire.errors import GROUP_ID_NOT_FOUND, ILLEGAL_GENERATION, NONE

OfGroup = Callable[[str], Mapping[str, int]]
"""Group id -> the settings of this group alone, by Kafka's names ("consumer.session.timeout.ms")."""

Decision = Callable[[Any, Any, Now], GroupOutcome]
"""A method of a kind of groups: it decides the `Asked` input."""

GROUP_ID_NOT_FOUND_FROM = 9
"""The first version of OffsetCommit that reports a missing group with GROUP_ID_NOT_FOUND."""


class OffsetRules(Protocol):
    """Who may commit, fetch and delete offsets of a group. Each method returns an error code."""

    def commit_error(self, body: OffsetCommitRequest, version: int, /) -> int:
        """Return why a commit is refused."""
        ...

    def transactional_commit_error(self, body: TxnOffsetCommitRequest, /) -> int:
        """Return why a commit in a producer's transaction is refused."""
        ...

    def fetch_error(self, wanted: FetchGroup, /) -> int:
        """Return why a fetch of offsets is refused."""
        ...

    def offset_delete_error(self) -> int:
        """Return why offsets of no topic can be deleted. Topics to which the group `is_subscribed` are refused one by one."""
        ...

    def session_restarted_by_commit(self, member_id: str, /) -> int | None:
        """Return the timeout in ms of the member's session, if a commit restarts it."""
        ...


class Group(OffsetRules, Protocol):
    """One group, as its coordinator and the expiry of offsets see it."""

    group_type: ClassVar[str]
    """The name of the kind in ListGroups."""

    @property
    def group_id(self) -> str: ...

    @property
    def weight(self) -> int:
        """Return the memory of its members, in bytes."""
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
        """Return whether it may be deleted, or replaced by a group of another kind."""
        ...

    @property
    def is_deserted(self) -> bool:
        """Return whether it may be deleted with the last of its offsets."""
        ...

    def is_subscribed(self, topic: str, /) -> bool:
        """Return whether a member may be reading this topic."""
        ...

    def serves(self, request: type, /) -> bool:
        """Return whether its own kind decides such a request to the group, although the API belongs to another kind."""
        ...

    def expires_from_ms(self) -> int | None:
        """Return when the retention of offsets begins: at a time, at each offset's commit (-1), or not yet (None)."""
        ...

    def tombstones(self) -> Sequence[Stored]:
        """Return the records that delete the group."""
        ...


class MissingGroup:
    """The rules for a group that does not exist: offsets may be committed from outside, and there are none to delete."""

    def commit_error(self, body: OffsetCommitRequest, version: int) -> int:
        if body.generation_id_or_member_epoch < 0:
            return NONE
        return GROUP_ID_NOT_FOUND if version >= GROUP_ID_NOT_FOUND_FROM else ILLEGAL_GENERATION

    def transactional_commit_error(self, body: TxnOffsetCommitRequest) -> int:
        return NONE if body.generation_id_or_member_epoch < 0 else ILLEGAL_GENERATION

    def fetch_error(self, wanted: FetchGroup) -> int:
        return NONE

    def offset_delete_error(self) -> int:
        return GROUP_ID_NOT_FOUND

    def session_restarted_by_commit(self, member_id: str) -> int | None:
        return None


MISSING: Final[OffsetRules] = MissingGroup()


@dataclass(slots=True)
class Context:
    """The inputs of every decision besides its group, shared by all kinds of groups of one coordinator.

    The first of the `assignors` serves groups that name none. `tables` are the groups of each kind, by id.
    """

    settings: GroupSettings
    new_id: Callable[[], str]
    memory: GroupMemory
    assignors: Mapping[str, Assignor]
    of_group: OfGroup
    topics: KnownTopics = field(default_factory=KnownTopics)
    tables: tuple[dict[str, Group], ...] = ()

    def find(self, group_id: str) -> Group | None:
        """Return the group with this id, whatever its kind."""
        for groups in self.tables:
            if group_id in groups:
                return groups[group_id]
        return None


class GroupKind(Protocol):
    """All groups of one kind of a coordinator: the rules that decide their requests, and the records that change them."""

    group_type: ClassVar[str]
    decisions: ClassVar[Mapping[type, Decision]]
    """By type of request or of timer key; requests of another kind's API too, which only groups that serve them get."""
    records: ClassVar[frozenset[type]]
    """The types of the records and events that `apply` takes."""
    founding: ClassVar[frozenset[type]]
    """Those that create a group, in place of one of another kind."""
    refusals: ClassVar[Mapping[type, Callable[[Any, int], object]]]
    """Request type -> the function that returns the reply with an error code in every place for one."""

    def __init__(self, context: Context, /) -> None: ...

    @property
    def groups(self) -> dict[str, Any]:
        """Return the groups by id."""
        ...

    def apply(self, record: Any, /) -> int:
        """Apply one record or event, and return the growth of its group's weight in bytes."""
        ...

    def recall(self, now: Now, /) -> Iterable[GroupOutcome]:
        """Return the outcomes that set all timers and continue all rebalances after the records were read back."""
        ...

    def see(self, event: TopicsSeen, /) -> None:
        """Take note that topics changed; `Context.topics` has them already."""
        ...


def drop(groups: dict[str, Any], group_id: str) -> int:
    """Remove a group that may exist, and return the growth of weight in bytes, which is negative."""
    group = groups.pop(group_id, None)
    return 0 if group is None else -group.weight
