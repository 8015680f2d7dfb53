"""The members that have each task of a streams group, or must still revoke it. A task has one active holder at most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.coord.streams.member import AssignedTasks, StreamsMember
from ottla.coord.streams.values import TaskIds

Several = dict[str, dict[int, tuple[str, ...]]]
"""Member ids by subtopology id and partition."""


@dataclass(slots=True, eq=False, repr=False)
class TaskHolders:
    """The holders of all tasks of one group, as member ids."""

    active: dict[str, dict[int, str]] = field(default_factory=dict)
    standby: Several = field(default_factory=dict)
    warmup: Several = field(default_factory=dict)

    def add(self, member_id: str, tasks: AssignedTasks) -> None:
        for subtopology_id, partitions in tasks.active.items():
            self.active.setdefault(subtopology_id, {}).update(dict.fromkeys(partitions, member_id))
        _add(self.standby, member_id, tasks.standby)
        _add(self.warmup, member_id, tasks.warmup)

    def remove(self, member_id: str, tasks: AssignedTasks) -> None:
        """Remove a member's tasks. An active task that another member already holds stays unchanged."""
        for subtopology_id, partitions in tasks.active.items():
            holders = self.active.get(subtopology_id, {})
            for partition in partitions:
                if holders.get(partition) == member_id:
                    del holders[partition]
            if not holders:
                self.active.pop(subtopology_id, None)
        _remove(self.standby, member_id, tasks.standby)
        _remove(self.warmup, member_id, tasks.warmup)

    def active_holder(self, subtopology_id: str, partition: int) -> str | None:
        return self.active.get(subtopology_id, {}).get(partition)

    def copies_in(self, members: Mapping[str, StreamsMember], process_id: str, subtopology_id: str, partition: int) -> bool:
        """Return whether a member of a process has a standby or warm-up task, or must still revoke it."""
        holders = (kind.get(subtopology_id, {}).get(partition, ()) for kind in (self.standby, self.warmup))
        return any(members[member_id].process_id == process_id for several in holders for member_id in several)


def _add(kind: Several, member_id: str, tasks: TaskIds) -> None:
    for subtopology_id, partitions in tasks.items():
        holders = kind.setdefault(subtopology_id, {})
        for partition in partitions:
            others = holders.get(partition, ())
            if member_id not in others:
                holders[partition] = (*others, member_id)


def _remove(kind: Several, member_id: str, tasks: TaskIds) -> None:
    for subtopology_id, partitions in tasks.items():
        holders = kind.get(subtopology_id, {})
        for partition in partitions:
            others = tuple(other for other in holders.pop(partition, ()) if other != member_id)
            if others:
                holders[partition] = others
        if not holders:
            kind.pop(subtopology_id, None)
