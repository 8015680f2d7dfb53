"""The state machine of a classic group as tables: states, transitions, and the answers of each state.

Groups and messages are unknown here. A pair that is not in `NEXT` is a bug. Events are the records and volatile events of a group;
a coordinator that reads its log back has GroupStored alone.

| state | event | next state |
|---|---|---|
| Empty, CompletingRebalance, Stable | RebalanceBegun | PreparingRebalance |
| PreparingRebalance | JoinCompleted | CompletingRebalance |
| PreparingRebalance, Stable | GroupStored | Empty |
| CompletingRebalance, Empty | GroupStored | Stable |
"""

from __future__ import annotations

from enum import Enum, auto

from ottla.wire.errors import NONE, REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID


class State(Enum):
    """The states, as in ListGroups and DescribeGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Cause(Enum):
    """The causes of transitions."""

    MEMBERSHIP_CHANGED = auto()
    JOIN_COMPLETED = auto()
    ASSIGNED = auto()
    ABANDONED = auto()


NEXT: dict[tuple[State, Cause], State] = {
    (State.EMPTY, Cause.MEMBERSHIP_CHANGED): State.PREPARING_REBALANCE,
    (State.COMPLETING_REBALANCE, Cause.MEMBERSHIP_CHANGED): State.PREPARING_REBALANCE,
    (State.STABLE, Cause.MEMBERSHIP_CHANGED): State.PREPARING_REBALANCE,
    (State.PREPARING_REBALANCE, Cause.JOIN_COMPLETED): State.COMPLETING_REBALANCE,
    (State.COMPLETING_REBALANCE, Cause.ASSIGNED): State.STABLE,
    (State.PREPARING_REBALANCE, Cause.ABANDONED): State.EMPTY,
}
"""(state, cause) -> next state. DEAD is no state of a stored group: it is the state of a missing group in responses."""

REBALANCES_FROM = frozenset(state for state, cause in NEXT if cause is Cause.MEMBERSHIP_CHANGED)
"""The states in which a change of members begins a rebalance; in all others the change belongs to the present rebalance."""

HEARTBEAT: dict[State, int] = {
    State.EMPTY: UNKNOWN_MEMBER_ID,
    State.PREPARING_REBALANCE: REBALANCE_IN_PROGRESS,
    State.COMPLETING_REBALANCE: NONE,
    State.STABLE: NONE,
}
"""The error code of a member's heartbeat. In COMPLETING_REBALANCE it is NONE: clients send one as soon as they have joined."""


class Rejoin(Enum):
    """The treatment of a JoinGroup by a present member."""

    REFUSE = auto()
    JOIN_ALWAYS = auto()
    JOIN_IF_CHANGED = auto()
    JOIN_IF_CHANGED_OR_LEADER = auto()


REJOIN: dict[State, Rejoin] = {
    State.EMPTY: Rejoin.REFUSE,
    State.PREPARING_REBALANCE: Rejoin.JOIN_ALWAYS,
    State.COMPLETING_REBALANCE: Rejoin.JOIN_IF_CHANGED,
    State.STABLE: Rejoin.JOIN_IF_CHANGED_OR_LEADER,
}
"""The treatment by state. A member without changes has only lost a reply, and gets it again. A stable group's leader joins to
make a new assignment, for a reason that only the leader sees (such as more partitions)."""


class SyncGroupAnswer(Enum):
    """The treatment of a member's SyncGroup."""

    REBALANCE = auto()
    WAIT = auto()
    ANSWER = auto()


SYNC_GROUP: dict[State, SyncGroupAnswer] = {
    State.PREPARING_REBALANCE: SyncGroupAnswer.REBALANCE,
    State.COMPLETING_REBALANCE: SyncGroupAnswer.WAIT,
    State.STABLE: SyncGroupAnswer.ANSWER,
}
