"""A task assignment in progress: the members with their processes, the tasks given so far, and the shares that are left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heapify, heapreplace

from ottla.coord.streams.assign import STEPS_BETWEEN_PAUSES
from ottla.coord.streams.values import NO_TASK_IDS, Task, TaskIds, TaskMember, TaskSets
from ottla.ports import Pauses


class StreamsProcess:
    """A process of an application. Its capacity is the number of its members, because each member is a thread.

    A process has one state directory, so it has a task at most once.
    """

    __slots__ = ("_by_count", "holders", "order", "stateless", "tasks", "values")

    def __init__(self, order: int) -> None:
        self.order = order
        self.holders: list[TaskHolder] = []
        self.tasks: set[Task] = set()
        self.stateless = 0
        """The number of stateless active tasks."""
        self.values: tuple[str | None, ...] = ()
        """The values of the tags by which standby tasks are spread."""
        self._by_count: list[tuple[int, int, TaskHolder]] = []

    @property
    def load(self) -> float:
        return len(self.tasks) / len(self.holders)

    @property
    def rank(self) -> tuple[int, float, float, int]:
        """Return a key by which the process that gets the next task is the least.

        The fewest tasks of a member come first, so that members have equal shares even if processes have different capacities.
        """
        capacity = len(self.holders)
        return self.least_loaded().count, len(self.tasks) / capacity, self.stateless / capacity, self.order

    def least_loaded(self) -> TaskHolder:
        """Return the member with the fewest tasks."""
        if len(self.holders) == 1:
            return self.holders[0]
        if not self._by_count:
            self._by_count = [(holder.count, at, holder) for at, holder in enumerate(self.holders)]
            heapify(self._by_count)
        # Counts only grow, so the first entry of the heap that is up to date is the least.
        while (first := self._by_count[0])[0] != first[2].count:
            heapreplace(self._by_count, (first[2].count, first[1], first[2]))
        return first[2]


class TaskHolder:
    """A member as the draft sees it: its process, and the tasks that it was given."""

    __slots__ = ("active", "count", "process", "standby")

    def __init__(self, process: StreamsProcess) -> None:
        self.process = process
        self.count = 0
        self.active: dict[str, set[int]] = {}
        self.standby: dict[str, set[int]] = {}

    def add(self, task: Task, *, is_active: bool, is_stateful: bool = True) -> None:
        """Give the member a task."""
        self.process.tasks.add(task)
        self.process.stateless += not is_stateful
        self.count += 1
        (self.active if is_active else self.standby).setdefault(task[0], set()).add(task[1])


class TaskQuota:
    """The most tasks of a member, so that all members get equal shares. Members that have their share leave the rest to others."""

    __slots__ = ("_members", "_tasks", "share")

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks = tasks
        self._members = members
        self.share = -(-tasks // members)

    def count(self, holder: TaskHolder) -> None:
        """Record that a member got a task."""
        if holder.count == self.share:
            self._members -= 1
            self._tasks -= holder.count
            self.share = -(-self._tasks // self._members) if self._members else 0


class TaskDraft:
    """The members of a group, by id, and their processes; both in the order of their ids."""

    def __init__(self, members: Mapping[str, TaskMember]) -> None:
        self._members = members
        self.holders: dict[str, TaskHolder] = {}
        self.processes: list[StreamsProcess] = []

    def enter(self) -> Pauses[None]:
        """Enter all members into the draft."""
        by_id: dict[str, StreamsProcess] = {}
        for process_id in sorted({member.process_id for member in self._members.values()}):
            by_id[process_id] = StreamsProcess(len(by_id))
        self.processes = [*by_id.values()]
        for count, member_id in enumerate(sorted(self._members)):
            process = by_id[self._members[member_id].process_id]
            holder = self.holders[member_id] = TaskHolder(process)
            process.holders.append(holder)
            if count % STEPS_BETWEEN_PAUSES == 0:
                yield None

    def keep_standby(self) -> Pauses[None]:
        """Give all members their former standby tasks."""
        for member_id, holder in self.holders.items():
            holder.standby = {name: set(numbers) for name, numbers in self._members[member_id].target.standby.items()}
            yield None

    def result(self) -> Pauses[dict[str, TaskSets]]:
        """Return the tasks of all members. A member with unchanged tasks has the same object as in `target`."""
        assigned: dict[str, TaskSets] = {}
        for count, (member_id, member) in enumerate(self._members.items()):
            holder = self.holders[member_id]
            tasks = TaskSets(_frozen(holder.active), _frozen(holder.standby))
            assigned[member_id] = member.target if tasks == member.target else tasks
            if count % STEPS_BETWEEN_PAUSES == 0:
                yield None
        return assigned


def _frozen(tasks: Mapping[str, Iterable[int]]) -> TaskIds:
    return {subtopology_id: frozenset(tasks[subtopology_id]) for subtopology_id in sorted(tasks)} if tasks else NO_TASK_IDS
