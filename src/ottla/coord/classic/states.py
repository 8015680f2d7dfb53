"""The state machine of a classic group as tables: its states, its transitions, and how each state answers each request.

Knows no group and no message. A pair that `NEXT` does not hold is a bug.
"""

from __future__ import annotations

from enum import Enum, auto

from ottla.wire.errors import NONE, REBALANCE_IN_PROGRESS, UNKNOWN_MEMBER_ID


class State(Enum):
    """As ListGroups and DescribeGroups spell them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class Cause(Enum):
    """Why a group leaves its state."""

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
"""Where a group goes. DEAD is no state of a group that is kept: it is what a group that is not there is called."""

REBALANCES_FROM = frozenset(state for state, cause in NEXT if cause is Cause.MEMBERSHIP_CHANGED)
"""The states in which a change of the members begins a rebalance; in the remaining ones it belongs to the one under way."""

HEARTBEAT: dict[State, int] = {
    State.EMPTY: UNKNOWN_MEMBER_ID,
    State.PREPARING_REBALANCE: REBALANCE_IN_PROGRESS,
    State.COMPLETING_REBALANCE: NONE,
    State.STABLE: NONE,
}
"""What a member's heartbeat is answered. While COMPLETING_REBALANCE it counts: clients send it as soon as they have joined."""


class Rejoin(Enum):
    """How a JoinGroup of somebody who is a member already is treated."""

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
"""Who has not changed only lost a reply, and is told again what he missed. A stable group's leader joins to be asked for a
new assignment, for a reason that he alone sees (such as more partitions)."""


class SyncGroupAnswer(Enum):
    """How a member's SyncGroup is treated."""

    REBALANCE = auto()
    WAIT = auto()
    ANSWER = auto()


SYNC_GROUP: dict[State, SyncGroupAnswer] = {
    State.PREPARING_REBALANCE: SyncGroupAnswer.REBALANCE,
    State.COMPLETING_REBALANCE: SyncGroupAnswer.WAIT,
    State.STABLE: SyncGroupAnswer.ANSWER,
}
