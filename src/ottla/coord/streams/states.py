"""The state machine of a streams group's member as tables: its states, and the obstacles to its target (KIP-1071).

A member must first revoke tasks that are not in its target, then wait for tasks that other members or its own process still have.
UNKNOWN is a state that a newer coordinator has stored.

| state | event | next state |
|---|---|---|
| STABLE, UNRELEASED_TASKS, UNKNOWN | must revoke | UNREVOKED_TASKS |
| STABLE, UNREVOKED_TASKS, UNKNOWN | must wait | UNRELEASED_TASKS |
| UNREVOKED_TASKS, UNRELEASED_TASKS, UNKNOWN | nothing | STABLE |
"""

from __future__ import annotations

from enum import Enum

from ottla.coord.consumer.states import Hindrance, NextAssignment


class StreamsMemberState(Enum):
    """The state of a member's reconciliation. The values are the numbers in Kafka's records."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


class StreamsGroupState(Enum):
    """The states of a streams group, named as in ListGroups and StreamsGroupDescribe."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


MOVES: dict[StreamsMemberState, NextAssignment] = {
    StreamsMemberState.STABLE: NextAssignment.WHEN_THE_TARGET_IS_NEW,
    StreamsMemberState.UNREVOKED_TASKS: NextAssignment.WHEN_ALL_IS_REVOKED,
    StreamsMemberState.UNRELEASED_TASKS: NextAssignment.ALWAYS,
    StreamsMemberState.UNKNOWN: NextAssignment.WHEN_NOTHING_IS_OWNED,
}
"""The condition of the next assignment for each state. A member in the state UNKNOWN must give up all its tasks and join again."""

NEXT: dict[Hindrance, StreamsMemberState] = {
    Hindrance.MUST_REVOKE: StreamsMemberState.UNREVOKED_TASKS,
    Hindrance.MUST_WAIT: StreamsMemberState.UNRELEASED_TASKS,
    Hindrance.NOTHING: StreamsMemberState.STABLE,
}
"""The next state for each obstacle, from any state.

A member with tasks to revoke keeps its epoch. Any other member gets its target's epoch at once, and the tasks of other members once
these have revoked them.
"""
