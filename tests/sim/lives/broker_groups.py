"""Groups that visit a simulated broker, of both protocols and of none: somebody comes, commits, and leaves or dies without a word.

commits stay      what was acknowledged is what is read, or something younger; also after a power cut
offsets expire    not before offsets.retention.minutes have passed since the commit, and soon after in a group without members
no inheritance    a topic of the same name as one that was deleted has no committed offsets
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.wire import errors as codes
from ottla.wire.api.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest as Heartbeat
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.join_group import JoinGroupRequest
from ottla.wire.api.leave_group import LeaveGroupRequest
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.api.sync_group import SyncGroupRequest
from tests.sim.lives.broker_clients import SimClients
from tests.sim.lives.broker_ledger import WEEK_MS
from tests.sim.lives.broker_topics import SimTopic
from tests.sim.seeds import Violation

FIND_COORDINATOR, JOIN, SYNC, LEAVE, COMMIT, FETCH, HEARTBEAT = 10, 11, 14, 13, 8, 9, 68
GROUPS = ("simple", "classic", "consumer")
SESSION_MS = 45_000
RETENTION_MS = WEEK_MS
LATE_MS = 30 * 60_000
"""Expired offsets are looked for every ten minutes: what expired this long ago must be gone."""

OUT = (codes.REBALANCE_IN_PROGRESS, codes.UNKNOWN_MEMBER_ID, codes.ILLEGAL_GENERATION, codes.UNRELEASED_INSTANCE_ID)
NOTHING = -1

Place = tuple[str, SimTopic, int]


class KnownCommit:
    """What is committed at one place: `acknowledged` at `wall_ms`; later commits in `open` were not answered."""

    __slots__ = ("acknowledged", "open", "ticket", "wall_ms")

    def __init__(self) -> None:
        self.acknowledged = NOTHING
        self.wall_ms = 0
        self.ticket = 0
        self.open: dict[int, int] = {}


class SimGroups:
    """All groups, and what they have committed."""

    def __init__(self, clients: SimClients) -> None:
        self._clients = clients
        self._world = clients.world
        self._kept: dict[Place, KnownCommit] = {}
        self._tickets = 0
        self._active_ms = dict.fromkeys(GROUPS, 0)
        """The latest time shown by the clock while somebody was in a group."""
        self.commits = 0

    def visit(self, group_id: str, topic: SimTopic) -> None:
        """Let a member come and commit for a topic."""

        def found(response: Any) -> None:
            if response is not None and self._clients.check(response.error_code, "FindCoordinator"):
                self._later(lambda: join(group_id, topic))

        join = {"simple": self._commit_simply, "classic": self._join, "consumer": self._heartbeat}[group_id]
        self._touch(group_id)
        self._clients.ask(FIND_COORDINATOR, 3, FindCoordinatorRequest(key=group_id), found)

    def clock_jumped(self) -> None:
        """Count nothing as committed later than now: nobody can tell any more."""
        wall_ms = self._world.clock.now().wall_ms
        for kept in self._kept.values():
            kept.wall_ms = min(kept.wall_ms, wall_ms)

    def broker_started(self) -> None:
        """Note that members the broker finds in groups have new sessions."""
        for group_id in GROUPS:
            self._touch(group_id)

    def forget(self, topic: SimTopic) -> None:
        """Forget a deleted topic."""
        for place in [place for place in self._kept if place[1] is topic]:
            del self._kept[place]

    def read(self, topics: list[SimTopic], highest_wall_ms: int, *, is_calm: bool) -> None:
        """Ask what all groups have committed. `is_calm`: nobody restarted anything or changed the clock for a while."""
        for group_id in GROUPS:
            by_name = self._world.chance(0.5)
            names = [
                OffsetFetchRequest.OffsetFetchRequestTopics(name=topic.name, partition_indexes=list(range(len(topic.pasts))))
                for topic in topics
            ]
            group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, topics=names if by_name else None)

            def answered(response: Any, group_id: str = group_id) -> None:
                if response is None:
                    return
                found = response.groups[0]
                expected = codes.NOT_COORDINATOR, codes.GROUP_ID_NOT_FOUND, codes.COORDINATOR_NOT_AVAILABLE
                if found.error_code not in expected and self._clients.check(found.error_code, f"OffsetFetch of {group_id}"):
                    offsets = {
                        (each.name, part.partition_index): part.committed_offset
                        for each in found.topics
                        for part in each.partitions
                    }
                    self._compare(group_id, topics, offsets, highest_wall_ms, is_calm=is_calm)

            self._clients.ask(FETCH, 8, OffsetFetchRequest(groups=[group]), answered)

    def _compare(
        self, group_id: str, topics: list[SimTopic], offsets: dict[tuple[str, int], int], highest_wall_ms: int, *, is_calm: bool
    ) -> None:
        wall_ms = self._world.clock.now().wall_ms
        for topic in [topic for topic in topics if not topic.is_leaving]:  # some may have been deleted since the request
            for index in range(len(topic.pasts)):
                offset = offsets.get((topic.name, index), NOTHING)
                kept = self._kept.setdefault((group_id, topic, index), KnownCommit())
                if offset in (kept.acknowledged, *kept.open.values()):
                    late_ms = wall_ms - max(self._active_ms[group_id], kept.wall_ms) - RETENTION_MS
                    if offset != NOTHING and is_calm and late_ms > LATE_MS + SESSION_MS:
                        raise Violation(
                            f"offsets expire: {group_id} still has {offset} for {topic.name}-{index}, {late_ms} ms too long"
                        )
                elif offset == NOTHING and highest_wall_ms - kept.wall_ms >= RETENTION_MS:
                    kept.acknowledged = NOTHING
                else:
                    name = "no inheritance" if kept.acknowledged == NOTHING and not kept.open else "commits stay"
                    raise Violation(
                        f"{name}: {topic.name}-{index} of {group_id} is said to have {offset}; acknowledged was "
                        f"{kept.acknowledged}, "
                        f"and after it came {sorted(kept.open.values())}"
                    )

    def _touch(self, group_id: str) -> None:
        self._active_ms[group_id] = max(self._active_ms[group_id], self._world.clock.now().wall_ms)

    def _later(self, call: Callable[[], None]) -> None:
        self._world.after(self._world.random.randrange(1, 50), call)

    def _commit_simply(self, group_id: str, topic: SimTopic) -> None:
        self._commit(group_id, topic, "", NOTHING, lambda: None)

    def _join(self, group_id: str, topic: SimTopic) -> None:
        def joined(response: Any) -> None:
            if response is not None and self._clients.check(response.error_code, f"JoinGroup of {group_id}", *OUT):
                self._later(lambda: self._sync(group_id, topic, response.member_id, response.generation_id))

        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0")
        body = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=[protocol],
        )
        self._clients.ask(JOIN, 3, body, joined)

    def _sync(self, group_id: str, topic: SimTopic, member_id: str, generation: int) -> None:
        def synced(response: Any) -> None:
            if response is not None and self._clients.check(response.error_code, f"SyncGroup of {group_id}", *OUT):
                self._later(lambda: self._commit(group_id, topic, member_id, generation, leave))

        def leave() -> None:
            self._clients.ask(LEAVE, 2, LeaveGroupRequest(group_id=group_id, member_id=member_id), lambda response: None)

        assignment = SyncGroupRequest.SyncGroupRequestAssignment(member_id=member_id, assignment=b"")
        body = SyncGroupRequest(group_id=group_id, generation_id=generation, member_id=member_id, assignments=[assignment])
        self._clients.ask(SYNC, 2, body, synced)

    def _heartbeat(self, group_id: str, topic: SimTopic) -> None:
        member_id = f"member-{self._world.random.getrandbits(32):08x}"

        def answered(response: Any) -> None:
            if response is not None and self._clients.check(response.error_code, f"ConsumerGroupHeartbeat of {group_id}"):
                self._later(lambda: self._commit(group_id, topic, member_id, response.member_epoch, leave))

        def leave() -> None:
            body = Heartbeat(group_id=group_id, member_id=member_id, member_epoch=-1)
            self._clients.ask(HEARTBEAT, 1, body, lambda response: None)

        body = Heartbeat(
            group_id=group_id,
            member_id=member_id,
            member_epoch=0,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=[topic.name],
            topic_partitions=[],
        )
        self._clients.ask(HEARTBEAT, 1, body, answered)

    def _commit(self, group_id: str, topic: SimTopic, member_id: str, generation: int, leave: Callable[[], None]) -> None:
        """Commit for all partitions of a topic, then usually leave the group."""
        if topic.is_leaving:
            return
        random, wall_ms = self._world.random, self._world.clock.now().wall_ms
        self._touch(group_id)
        self._tickets += 1
        ticket = self._tickets
        offered = {index: random.randrange(1, 1_000_000) for index in range(len(topic.pasts))}
        for index, offset in offered.items():
            self._kept.setdefault((group_id, topic, index), KnownCommit()).open[ticket] = offset
        Part = OffsetCommitRequest.OffsetCommitRequestPartition
        parts = [Part(partition_index=index, committed_offset=offset) for index, offset in offered.items()]
        body = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name=topic.name, partitions=parts)],
        )

        def answered(response: Any) -> None:
            if response is None:
                return
            for part in response.topics[0].partitions:
                expected = (*OUT, codes.UNKNOWN_TOPIC_OR_PARTITION, codes.STALE_MEMBER_EPOCH) if topic.is_leaving else OUT
                went_well = self._clients.check(part.error_code, f"a commit of {group_id} for {topic.name}", *expected)
                self._answered((group_id, topic, part.partition_index), ticket, wall_ms, went_well=went_well)
            if random.random() < 0.7:
                self._later(leave)

        self._clients.ask(COMMIT, 9 if group_id == "consumer" else 7, body, answered)

    def _answered(self, place: Place, ticket: int, wall_ms: int, *, went_well: bool) -> None:
        kept = self._kept.get(place)
        if kept is None:
            return
        offset = kept.open.pop(ticket, NOTHING)
        if went_well and ticket > kept.ticket:
            self.commits += 1
            kept.acknowledged, kept.ticket, kept.wall_ms = offset, ticket, wall_ms
            kept.open = {later: value for later, value in kept.open.items() if later > ticket}
        elif not went_well and self._clients.host.disk.faults:
            kept.open[ticket] = offset  # a failed sync takes nothing back
