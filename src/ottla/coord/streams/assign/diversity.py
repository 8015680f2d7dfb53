"""Rack awareness of standby tasks: the processes that make the copies of a task more diverse.

Processes have values for some keys: the group's rack-aware tags, in order of their priority, or else the rack. A standby task goes
to a process whose value for the first key differs from those of all copies so far. Of several such processes, those with a new
value for the second key are preferred, and so on. A key without such processes is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ottla.coord.streams.assign.draft import StreamsProcess, TaskDraft
from ottla.coord.streams.values import TaskMember

TagValues = tuple[str | None, ...]


class DiverseProcesses:
    """The processes by their values. `begin` starts with the copies of one task."""

    def __init__(self, processes: Iterable[StreamsProcess], keys: int) -> None:
        self._by_values: dict[TagValues, list[StreamsProcess]] = {}
        for process in processes:
            self._by_values.setdefault(process.values, []).append(process)
        self._keys = range(keys)
        self._used: list[set[str]] = []

    def begin(self, holders: Iterable[StreamsProcess]) -> None:
        """Start with the processes that have a copy of the task already."""
        self._used = [set() for _ in self._keys]
        for process in holders:
            self.use(process)

    def use(self, process: StreamsProcess) -> None:
        """Record that a process gets a copy."""
        for used, value in zip(self._used, process.values, strict=True):
            if value is not None:
                used.add(value)

    def pick(self, may_have: Callable[[StreamsProcess], bool]) -> list[StreamsProcess]:
        """Return the processes that make the copies most diverse, among those that `may_have` one; none if none does."""
        groups = [values for values, processes in self._by_values.items() if any(map(may_have, processes))]
        is_diverse = False
        for key in self._keys:
            fresh = [values for values in groups if values[key] is not None and values[key] not in self._used[key]]
            if fresh:
                groups, is_diverse = fresh, True
        return [process for values in groups for process in self._by_values[values] if may_have(process)] if is_diverse else []


def tag_values(members: Mapping[str, TaskMember], draft: TaskDraft, tags: Sequence[str]) -> DiverseProcesses | None:
    """Return the processes by their tag values, or by their racks if the group has no rack-aware tags.

    Return None if all processes have the same values, because then no placement is better than another.
    """
    for member_id, holder in draft.holders.items():
        member = members[member_id]
        values = tuple(member.client_tags.get(tag) for tag in tags) if tags else (member.rack_id,)
        if not holder.process.values or holder is holder.process.holders[0]:
            holder.process.values = values
    if len({process.values for process in draft.processes}) < 2:
        return None
    return DiverseProcesses(draft.processes, max(1, len(tags)))
