"""The state machine of a consumer group's member as tables: its states, and the obstacles to its target (KIP-848).

A member must first revoke partitions that are not in its target, then wait for partitions that other members still have. UNKNOWN is
a state that a newer coordinator has stored.

| state | event | next state |
|---|---|---|
| STABLE, UNRELEASED_PARTITIONS, UNKNOWN | must revoke | UNREVOKED_PARTITIONS |
| STABLE, UNREVOKED_PARTITIONS, UNKNOWN | must wait | UNRELEASED_PARTITIONS |
| UNREVOKED_PARTITIONS, UNRELEASED_PARTITIONS, UNKNOWN | nothing | STABLE |
"""

from __future__ import annotations

from enum import Enum, auto


class MemberState(Enum):
    """The state of a member's reconciliation. The values are the numbers in Kafka's records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class GroupState(Enum):
    """The states of a consumer group, named as in ListGroups and ConsumerGroupDescribe."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class NextAssignment(Enum):
    """The possible conditions under which a member that reconciles gets its next assignment."""

    WHEN_THE_TARGET_IS_NEW = auto()
    WHEN_ALL_IS_REVOKED = auto()
    ALWAYS = auto()
    WHEN_NOTHING_IS_OWNED = auto()


MOVES: dict[MemberState, NextAssignment] = {
    MemberState.STABLE: NextAssignment.WHEN_THE_TARGET_IS_NEW,
    MemberState.UNREVOKED_PARTITIONS: NextAssignment.WHEN_ALL_IS_REVOKED,
    MemberState.UNRELEASED_PARTITIONS: NextAssignment.ALWAYS,
    MemberState.UNKNOWN: NextAssignment.WHEN_NOTHING_IS_OWNED,
}
"""The condition for each state. A member in the state UNKNOWN must revoke all its partitions and join again."""


class Hindrance(Enum):
    """The reasons why a member does not have its target assignment yet: it must revoke partitions, or others still have some."""

    MUST_REVOKE = auto()
    MUST_WAIT = auto()
    NOTHING = auto()


NEXT: dict[Hindrance, MemberState] = {
    Hindrance.MUST_REVOKE: MemberState.UNREVOKED_PARTITIONS,
    Hindrance.MUST_WAIT: MemberState.UNRELEASED_PARTITIONS,
    Hindrance.NOTHING: MemberState.STABLE,
}
"""The next state for each obstacle, from any state.

A member with partitions to revoke keeps its epoch. Any other member gets its target's epoch at once, and the partitions of other
members once these have revoked them.
"""
