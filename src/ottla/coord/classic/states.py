"""The state machine of a classic group as tables: states, transitions, and the answers of each state.

A pair of state and cause that is not in `NEXT` is a bug. The events below are the records and volatile events of a group. Only
GroupStored is a record, so only this event occurs when a coordinator loads its log.

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
    """The states of a classic group, named as in ListGroups and DescribeGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Cause(Enum):
    """The events that change the state of a classic group."""

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
"""The next state for each (state, cause). DEAD is missing: responses use this state for groups that do not exist."""

REBALANCES_FROM = frozenset(state for state, cause in NEXT if cause is Cause.MEMBERSHIP_CHANGED)
"""The states in which a change of members starts a rebalance. In PREPARING_REBALANCE the change joins the present rebalance."""

HEARTBEAT: dict[State, int] = {
    State.EMPTY: UNKNOWN_MEMBER_ID,
    State.PREPARING_REBALANCE: REBALANCE_IN_PROGRESS,
    State.COMPLETING_REBALANCE: NONE,
    State.STABLE: NONE,
}
"""The error code of a member's heartbeat. In COMPLETING_REBALANCE it is NONE: clients send heartbeats as soon as they joined."""


class Rejoin(Enum):
    """The ways in which the coordinator reacts to the JoinGroup of a present member."""

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
"""The effect of a JoinGroup by a present member, by the group's state.

A member that has not changed repeats a request whose reply was lost, and gets the reply again. The leader of a stable group joins
to make a new assignment, for example for new partitions.
"""


class SyncGroupAnswer(Enum):
    """The ways in which the coordinator answers a member's SyncGroup."""

    REBALANCE = auto()
    WAIT = auto()
    ANSWER = auto()


SYNC_GROUP: dict[State, SyncGroupAnswer] = {
    State.PREPARING_REBALANCE: SyncGroupAnswer.REBALANCE,
    State.COMPLETING_REBALANCE: SyncGroupAnswer.WAIT,
    State.STABLE: SyncGroupAnswer.ANSWER,
}
