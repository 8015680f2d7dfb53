"""What must be true of share groups whatever happens, written down as it happens: a violation raises `Violation` with its name.

epochs grow          neither a member's epoch nor its group's goes back, also after a power cut
members stay         whom the coordinator acknowledged is a member until its session ends, also after a power cut
state agrees         who reads a partition reads one that is initialized, and the share coordinator has a state of it
offsets stay         an acknowledged start offset is there until it is altered or deleted
nothing is left      a group that was deleted has no state of any partition
all are read         when things are quiet, each partition has its members, as evenly as possible, and they know it
soon settled         a group is quiet within a bounded number of heartbeats once nothing disturbs it any more
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from ottla.broker.broker import BrokerMachine
from ottla.coord.share.group import ShareGroup
from tests.sim.seeds import Violation

Assigned = Mapping[bytes, frozenset[int]]
Place = tuple[str, bytes, int]
"""A share partition: group id, topic id, partition."""


class HeardMember(Protocol):
    """A member process, as the ledger sees it."""

    group_id: str
    name: str
    member_id: str
    alive: bool
    epoch: int


class ShareGroupLedger:
    """Everything that was observed. `broker` returns the running broker, `now_ms` the time that only grows."""

    def __init__(self, broker: Callable[[], BrokerMachine | None], now_ms: Callable[[], int], session_ms: int) -> None:
        self._broker = broker
        self._now_ms = now_ms
        self._session_ms = session_ms
        self._members: dict[str, tuple[HeardMember, int]] = {}
        self._epochs: dict[str, int] = {}
        self._member_epochs: dict[str, int] = {}
        self._offsets: dict[Place, int] = {}
        self.uncertain: set[str] = set()
        """The groups of which an administrator's request is under way, or has had no answer."""
        self.heartbeats = 0

    # What members and administrators were told

    def heard(self, member: HeardMember, sent_ms: int) -> None:
        """Note an answer to a heartbeat: the member's session lasts from the time at which it was sent, or longer."""
        self.heartbeats += 1
        if member.group_id in self.uncertain:
            return
        before = self._member_epochs.get(member.member_id, 0)
        if member.epoch < before:
            raise Violation(f"epochs grow: {member.name} of {member.group_id} was told epoch {before}, and then {member.epoch}")
        self._member_epochs[member.member_id] = member.epoch
        self._epochs[member.group_id] = max(self._epochs.get(member.group_id, 0), member.epoch)
        self._members[member.member_id] = member, sent_ms

    def fenced(self, member: HeardMember) -> None:
        """Note that a member was told to join again."""
        self._members.pop(member.member_id, None)

    def left(self, member: HeardMember) -> None:
        """Note that a member leaves; the broker may get the message or not."""
        self._members.pop(member.member_id, None)

    def altered(self, group_id: str, offsets: Mapping[tuple[bytes, int], int]) -> None:
        """Note start offsets that an administrator was acknowledged."""
        self._offsets |= {(group_id, *place): offset for place, offset in offsets.items()}

    def forget_offsets(self, group_id: str, topic_id: bytes | None = None) -> None:
        """Note that start offsets of a group, or of one topic in it, may be gone."""
        self._offsets = {
            place: offset for place, offset in self._offsets.items() if place[0] != group_id or topic_id not in (None, place[1])
        }

    def forget(self, group_id: str) -> None:
        """Note that a group may be gone: everything of it may begin anew."""
        self._epochs.pop(group_id, None)
        self._offsets = {place: offset for place, offset in self._offsets.items() if place[0] != group_id}
        for member_id, (member, _) in list(self._members.items()):
            if member.group_id == group_id:
                del self._members[member_id]
        self._member_epochs.clear()

    def deleted(self, group_id: str) -> None:
        """Check a group whose deletion was just acknowledged."""
        left = [place for place in self._states() if place[0] == group_id]
        if left and group_id not in self._groups():
            raise Violation(f"nothing is left: group {group_id} was deleted, and {len(left)} of its partitions have a state")

    # What coordinators have

    def check(self) -> None:
        """Compare groups, states and what was told, if the broker runs."""
        if self._broker() is None:
            return
        groups, states = self._groups(), self._states()
        for group_id, group in groups.items():
            self._check_state(group_id, group, states)
        for group_id, epoch in self._epochs.items():
            found = groups.get(group_id)
            if group_id not in self.uncertain and (found is None or found.epoch < epoch):
                raise Violation(f"epochs grow: {group_id} had epoch {epoch}, and has {found and found.epoch}")
        for member, sent_ms in self._members.values():
            known = groups.get(member.group_id)
            is_due = self._now_ms() - sent_ms >= self._session_ms
            if not is_due and member.group_id not in self.uncertain and (known is None or member.member_id not in known.members):
                raise Violation(f"members stay: {member.name} of {member.group_id} is no member any more")
        for place, offset in self._offsets.items():
            if place[0] not in self.uncertain and states.get(place) != offset:
                raise Violation(f"offsets stay: {place[2]} of {place[0]} was set to {offset}, and is {states.get(place)}")

    def _check_state(self, group_id: str, group: ShareGroup, states: Mapping[Place, int]) -> None:
        made = {(topic_id, number) for topic_id, held in group.initialized.items() for number in held.partitions}
        if group_id not in self.uncertain:
            lacking = [place for place in made if (group_id, *place) not in states]
            if lacking:
                raise Violation(f"state agrees: {len(lacking)} initialized partitions of {group_id} have no state")
        for member in group.members.values():
            read = {(topic_id, number) for topic_id, numbers in member.assigned.items() for number in numbers}
            if not read <= made:
                raise Violation(f"state agrees: {member.member_id} of {group_id} reads what is not initialized")

    def _groups(self) -> dict[str, ShareGroup]:
        broker = self._broker()
        machines = () if broker is None else broker.groups.machines
        return {group_id: group for machine in machines for group_id, group in machine.shares.groups.items()}

    def groups(self) -> Mapping[str, ShareGroup]:
        """Return the groups that coordinators have now."""
        return self._groups()

    def _states(self) -> dict[Place, int]:
        broker = self._broker()
        shards = () if broker is None else broker.share_states.coordinators.shards
        return {
            (key.group_id, bytes(key.topic_id), key.partition): state.start_offset
            for shard in shards
            for key, state in shard.machine.states.items()
        }


def uneven(group: ShareGroup, topics: Mapping[bytes, int]) -> str:
    """Return what is wrong with the assignments of members with one subscription; empty if nothing is."""
    places = {(topic_id, number) for topic_id, count in topics.items() for number in range(count)}
    held = {
        member.member_id: {(topic_id, number) for topic_id, numbers in member.assigned.items() for number in numbers}
        for member in group.members.values()
    }
    sizes = sorted(map(len, held.values()))
    readers = [sum(place in own for own in held.values()) for place in places]
    most = -(-len(held) // len(places)) if places else 0
    if any(own - places for own in held.values()):
        return "somebody reads what nobody subscribes to"
    if places and (min(readers, default=0) < 1 or max(readers) > most):
        return f"{len(places)} partitions have {min(readers)} to {max(readers)} of {len(held)} members"
    return f"members read {sizes[0]} to {sizes[-1]} partitions" if sizes and sizes[-1] - sizes[0] > 1 else ""
