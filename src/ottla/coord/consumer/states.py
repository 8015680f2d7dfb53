"""The state machine of a consumer group's member as tables: its states, and the obstacles to its target (KIP-848).

Groups and messages are unknown here. A member must revoke partitions that are not in its target, then wait for those that others
still have. UNKNOWN was stored by a newer coordinator.

| state | event | next state |
|---|---|---|
| STABLE, UNRELEASED_PARTITIONS, UNKNOWN | must revoke | UNREVOKED_PARTITIONS |
| STABLE, UNREVOKED_PARTITIONS, UNKNOWN | must wait | UNRELEASED_PARTITIONS |
| UNREVOKED_PARTITIONS, UNRELEASED_PARTITIONS, UNKNOWN | nothing | STABLE |
"""

from __future__ import annotations

from enum import Enum, auto


class MemberState(Enum):
    """The state of a member's reconciliation. The values are those of Kafka's records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class GroupState(Enum):
    """The states, as in ListGroups and ConsumerGroupDescribe."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class Move(Enum):
    """The condition on which a member in a state gets its next assignment."""

    WHEN_THE_TARGET_IS_NEW = auto()
    WHEN_ALL_IS_REVOKED = auto()
    ALWAYS = auto()
    WHEN_NOTHING_IS_OWNED = auto()


MOVES: dict[MemberState, Move] = {
    MemberState.STABLE: Move.WHEN_THE_TARGET_IS_NEW,
    MemberState.UNREVOKED_PARTITIONS: Move.WHEN_ALL_IS_REVOKED,
    MemberState.UNRELEASED_PARTITIONS: Move.ALWAYS,
    MemberState.UNKNOWN: Move.WHEN_NOTHING_IS_OWNED,
}
"""The condition by state. UNKNOWN was stored by a newer coordinator: the member must revoke all its partitions and join again."""


class Hindrance(Enum):
    """The obstacle to a member's target: partitions that it must revoke first, or partitions that others still have."""

    MUST_REVOKE = auto()
    MUST_WAIT = auto()
    NOTHING = auto()


NEXT: dict[Hindrance, MemberState] = {
    Hindrance.MUST_REVOKE: MemberState.UNREVOKED_PARTITIONS,
    Hindrance.MUST_WAIT: MemberState.UNRELEASED_PARTITIONS,
    Hindrance.NOTHING: MemberState.STABLE,
}
"""The next state, from any state. With partitions to revoke a member keeps its epoch. Otherwise it gets the epoch of its target at
once, and partitions of others when they are revoked."""
