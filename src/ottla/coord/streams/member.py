"""One member of a streams group, as an immutable value (KIP-1071)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from sys import getsizeof
from types import MappingProxyType
from typing import ClassVar, Final, NamedTuple

from ottla.coord.streams.states import StreamsMemberState
from ottla.coord.streams.values import NO_TASK_IDS, TaskIds, TaskSets

TaskEpochs = Mapping[str, Mapping[int, int]]
"""The epoch at which each active task was assigned, by subtopology id and partition. Older commits are refused."""

NO_EPOCHS: Final[TaskEpochs] = MappingProxyType({})

MEMBER_BYTES: Final = 3_000
"""The memory in bytes of a member without texts and tasks: values, tables and deadlines."""
SUBTOPOLOGY_BYTES: Final = 350
TASK_BYTES: Final = 60
"""The memory in bytes of each subtopology and of each task in a member's assignment or target."""


class AssignedTasks(NamedTuple):
    """The tasks that a member has, or must still revoke. Active tasks have the epoch of their assignment."""

    active: TaskEpochs = NO_EPOCHS
    standby: TaskIds = NO_TASK_IDS
    warmup: TaskIds = NO_TASK_IDS

    @property
    def weight(self) -> int:
        """Return the memory of the tasks in bytes."""
        return weight_of(self.active, self.standby, self.warmup)

    def without_epochs(self) -> TaskSets:
        """Return the tasks as an assignor uses them."""
        active = {subtopology_id: frozenset(held) for subtopology_id, held in self.active.items()}
        return TaskSets(active, self.standby, self.warmup)


NOTHING_HELD: Final = AssignedTasks()


def weight_of(*kinds: Mapping[str, Mapping[int, int] | frozenset[int]]) -> int:
    weight = 0
    for held in kinds:
        if held:
            weight += SUBTOPOLOGY_BYTES * len(held) + TASK_BYTES * sum(map(len, held.values()))
    return weight


@dataclass(frozen=True, slots=True)
class StreamsMember:
    """One member. It runs the tasks `assigned` and must revoke `revoking`, which other members cannot get until then.

    `process_id` identifies the process of the application that contains the member. `user_endpoint` is the address at which the
    process answers interactive queries. `client_tags` are ordered by key.
    """

    is_classic: ClassVar[bool] = False

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: tuple[str, int] | None = None
    client_tags: tuple[tuple[str, str], ...] = ()
    epoch: int = 0
    previous_epoch: int = 0
    state: StreamsMemberState = StreamsMemberState.STABLE
    assigned: AssignedTasks = NOTHING_HELD
    revoking: AssignedTasks = NOTHING_HELD

    @property
    def weight(self) -> int:
        """Return the member's memory in bytes, without its tasks."""
        texts = self.member_id, self.instance_id, self.rack_id, self.client_id, self.client_host, self.process_id
        tags = sum(getsizeof(key) + getsizeof(value) for key, value in self.client_tags)
        return MEMBER_BYTES + sum(map(getsizeof, texts)) + tags + getsizeof(self.user_endpoint)

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is StreamsMemberState.STABLE and self.epoch == assignment_epoch

    def given_at(self, subtopology_id: str, partition: int) -> int | None:
        """Return the epoch at which the member got an active task; None if it does not have the task."""
        for held in (self.assigned, self.revoking):
            epoch = held.active.get(subtopology_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None
