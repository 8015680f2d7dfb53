"""Task assignors, which assign the tasks of a streams application to its members (KIP-1071). They are pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from ottla.coord.streams.values import AssignmentConfigs, ConfiguredSubtopology, TaskMember, TaskSets
from ottla.ports import Pauses

STEPS_BETWEEN_PAUSES: Final = 200
"""The number of tasks or members that are processed between two pauses. Each takes about five microseconds."""


class TaskAssignor(Protocol):
    """The interface of a task assignor."""

    @property
    def name(self) -> str:
        """Return the name of the assignor."""
        ...

    def assign_slowly(
        self, members: Mapping[str, TaskMember], topology: Mapping[str, ConfiguredSubtopology], configs: AssignmentConfigs
    ) -> Pauses[Mapping[str, TaskSets]]:
        """Return the target assignment of every member, by its id, and pause between parts of the work.

        Every task is active on one member. Processes have it as a standby task at most once, and not beside the active task. Equal
        arguments give equal results. A member with unchanged tasks has the same object as in `target`.
        """
        ...
