"""Volatile events of a classic group: they are lost when the coordinator restarts, and then clients join again.

Values only; `ottla.coord.classic.group` applies them. The first field of each event is the group id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

Protocols = tuple[tuple[str, bytes], ...]
"""A member's protocols as (name, metadata), in the member's order of preference."""


@dataclass(frozen=True, slots=True)
class ClassicMember:
    """One member of a classic group, with the values from its last JoinGroup."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata for this protocol; empty if the member does not support the protocol."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")


class InitialDelay(NamedTuple):
    """The delay of an empty group's first rebalance. Joins extend the delay by at most `remaining_ms` in total."""

    delay_ms: int
    remaining_ms: int


class MemberIdGiven(NamedTuple):
    """A client without a member id received one in an error response. It must join again with this id (KIP-394)."""

    group_id: str
    member_id: str


class MemberJoined(NamedTuple):
    """A new member joined; its reply, under `token`, waits for the end of the join phase."""

    group_id: str
    member: ClassicMember
    protocol_type: str
    token: int


class MemberRejoined(NamedTuple):
    """A member joined again; its reply, under `token`, waits for the end of the join phase."""

    group_id: str
    member_id: str
    protocols: Protocols
    rebalance_timeout_ms: int
    session_timeout_ms: int
    token: int


class MemberReplaced(NamedTuple):
    """A static member joined again under a new member id (KIP-345), which fences the old one."""

    group_id: str
    member_id: str
    new_member_id: str


class MemberRemoved(NamedTuple):
    """A member left, or a client did not join in time with the member id that it got."""

    group_id: str
    member_id: str


class LeaderElected(NamedTuple):
    group_id: str
    member_id: str


class RebalanceBegun(NamedTuple):
    """A rebalance began: all members must join again."""

    group_id: str
    wall_ms: int


class InitialDelaySet(NamedTuple):
    group_id: str
    delay: InitialDelay


class JoinCompleted(NamedTuple):
    """A new generation began: all waiting joins were answered, and members must send SyncGroup."""

    group_id: str
    protocol: str
    wall_ms: int


class SyncGroupAwaited(NamedTuple):
    """A member's SyncGroup waits for the assignment."""

    group_id: str
    member_id: str
    token: int


class SyncGroupSeen(NamedTuple):
    """A member's SyncGroup was answered at once, without waiting for the assignment."""

    group_id: str
    member_id: str


ClassicEvent = (
    MemberIdGiven
    | MemberJoined
    | MemberRejoined
    | MemberReplaced
    | MemberRemoved
    | LeaderElected
    | RebalanceBegun
    | InitialDelaySet
    | JoinCompleted
    | SyncGroupAwaited
    | SyncGroupSeen
)
