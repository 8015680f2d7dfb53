"""The state machine of a consumer group's member as tables: its states, and what keeps it from its target (KIP-848).

Knows no group and no message.
"""

from __future__ import annotations

from enum import Enum, auto


class MemberState(Enum):
    """Where a member is on its way to its target. The values are those of Kafka's records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class GroupState(Enum):
    """As ListGroups and ConsumerGroupDescribe spell them."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class Move(Enum):
    """When a member in a state looks for its next assignment."""

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
"""UNKNOWN is a state that a newer coordinator stored: the member must give up all it owns and begin anew."""


class Hindrance(Enum):
    """What keeps a member from its target: partitions that it has to give up first, or partitions that others still have."""

    MUST_REVOKE = auto()
    MUST_WAIT = auto()
    NOTHING = auto()


NEXT: dict[Hindrance, MemberState] = {
    Hindrance.MUST_REVOKE: MemberState.UNREVOKED_PARTITIONS,
    Hindrance.MUST_WAIT: MemberState.UNRELEASED_PARTITIONS,
    Hindrance.NOTHING: MemberState.STABLE,
}
"""Where a member goes, whatever state it is in. With something to revoke it keeps its epoch; else it has the epoch of its target at
once, and gets what others still have as they give it back."""
