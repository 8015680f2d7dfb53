"""What happens in a classic group and is not stored: a restart of the coordinator forgets it, and clients join anew.

Values only; `ottla.coord.classic.group` says what they change. Each begins with the group it happens in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

Protocols = tuple[tuple[str, bytes], ...]
"""(name, metadata) in the member's order of preference."""


@dataclass(frozen=True, slots=True)
class ClassicMember:
    """One member of a classic group, as it last joined."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""

    def metadata(self, protocol: str | None) -> bytes:
        """What it sent along with this protocol; nothing if it does not know it."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")


class InitialDelay(NamedTuple):
    """An empty group's first rebalance waits, and goes on waiting while members come, until nothing remains."""

    delay_ms: int
    remaining_ms: int


class MemberIdGiven(NamedTuple):
    """Somebody was given a member id and asked to join again under it (KIP-394)."""

    group_id: str
    member_id: str


class MemberJoined(NamedTuple):
    """A new member; its reply, wanted under `token`, waits until the join phase is over."""

    group_id: str
    member: ClassicMember
    protocol_type: str
    token: int


class MemberRejoined(NamedTuple):
    """A member joined again; its reply waits."""

    group_id: str
    member_id: str
    protocols: Protocols
    rebalance_timeout_ms: int
    session_timeout_ms: int
    token: int


class MemberReplaced(NamedTuple):
    """A static member came back under a new member id (KIP-345): whoever has the old one is fenced."""

    group_id: str
    member_id: str
    new_member_id: str


class MemberGone(NamedTuple):
    """A member, or somebody with a member id who never joined under it, is no longer reckoned with."""

    group_id: str
    member_id: str


class LeaderElected(NamedTuple):
    group_id: str
    member_id: str


class RebalanceBegun(NamedTuple):
    """Everybody has to join again."""

    group_id: str
    wall_ms: int


class InitialDelaySet(NamedTuple):
    group_id: str
    delay: InitialDelay


class JoinCompleted(NamedTuple):
    """A new generation: all who wait for their join reply have it, and have to ask for their assignment."""

    group_id: str
    protocol: str
    wall_ms: int


class JoinAnswered(NamedTuple):
    """One member's waiting join was answered without a rebalance."""

    group_id: str
    member_id: str


class SyncGroupAwaited(NamedTuple):
    """A member asked for its assignment, which is not known yet."""

    group_id: str
    member_id: str
    token: int


class SyncGroupSeen(NamedTuple):
    """A member asked for its assignment, and had it at once."""

    group_id: str
    member_id: str


ClassicEvent = (
    MemberIdGiven
    | MemberJoined
    | MemberRejoined
    | MemberReplaced
    | MemberGone
    | LeaderElected
    | RebalanceBegun
    | InitialDelaySet
    | JoinCompleted
    | JoinAnswered
    | SyncGroupAwaited
    | SyncGroupSeen
)
