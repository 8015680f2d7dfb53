"""One seed of share groups: members, administrators and a broker live through trouble, then peace; then everything is checked.

Everything comes from the seed. `share_group_ledger` knows what must always be true.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from ottla.broker.broker import BrokerMachine
from ottla.sim.host import Host
from ottla.sim.network import ClientLink, NetworkFaults
from ottla.sim.world import World
from ottla.wire.api.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from ottla.wire.api.create_partitions import CreatePartitionsRequest
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.delete_groups import DeleteGroupsRequest
from ottla.wire.api.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from tests.sim.lives.share_group_ledger import ShareGroupLedger, uneven
from tests.sim.lives.share_group_member import HEARTBEAT_MS, SimShareMember
from tests.sim.lives.small_journals import journal_alignment, journal_settings
from tests.sim.seeds import Violation

FIND_COORDINATOR, CREATE_TOPICS, CREATE_PARTITIONS, DELETE_GROUPS, ALTER, DELETE_OFFSETS = 10, 19, 37, 42, 91, 92
SESSION_MS = 6_000
RETRY_MS = 5_000
"""The interval after which an initialization without a result is repeated; the broker's is as long, at least."""

MOST_BEATS = (SESSION_MS + 4 * RETRY_MS) // HEARTBEAT_MS + 20
"""Heartbeats within which a group settles: a dead member's session, and initializations that are repeated."""

QUIET_BEATS = 4
"""The number of heartbeats for which nothing may change then."""

UNSURE_MS = 20_000
"""How long messages that were sent before may still arrive."""

SETTINGS = {
    "group.share.min.session.timeout.ms": str(SESSION_MS),
    "group.share.session.timeout.ms": str(SESSION_MS),
    "group.share.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.share.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.share.initialize.retry.interval.ms": str(RETRY_MS),
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "2",
    "log.flush.offset.checkpoint.interval.ms": "3600000",
}


class ShareGroupPlan(NamedTuple):
    """What a seed is about. `trouble_ms`: how long the trouble lasts."""

    groups: int
    members: int
    topics: int
    mixed: bool
    trouble_ms: int
    link_faults: NetworkFaults


class ShareGroupLifeResult(NamedTuple):
    """The result of a seed. `beats`: heartbeats until it was quiet."""

    seed: int
    plan: ShareGroupPlan
    happened: int
    beats: float
    heartbeats: int
    deaths: int
    administered: int


class ShareGroupLife:
    """One seed."""

    def __init__(self, seed: int, *, tell: bool = False) -> None:
        self.world = World(seed)
        self.tell = tell
        self.plan = plan(self.world)
        self.host = Host(self.world, SETTINGS | journal_settings(seed), room_alignment=journal_alignment(seed))
        self.ledger = ShareGroupLedger(lambda: self.host.broker, lambda: self.world.now_ms, SESSION_MS)
        self.members: dict[str, SimShareMember] = {}
        self.deaths = self.administered = 0
        self._links = 0
        self._peace = False
        self._counts = {f"t{number}": self.world.random.randrange(1, 9) for number in range(self.plan.topics)}
        self._groups = [f"s{number}" for number in range(self.plan.groups)]
        self._admin = self._link(NetworkFaults())
        self._create_topics()

    def live(self) -> ShareGroupLifeResult:
        """Live through trouble, then peace. Raises `Violation`."""
        for number in range(self.plan.members):
            self.world.after(self.world.random.randrange(self.plan.trouble_ms // 3), partial(self._begin, f"c{number}"))
        self.world.after(0, self._trouble)
        self.world.after(HEARTBEAT_MS, self._look)
        self.world.run(self.plan.trouble_ms)
        self._make_peace()
        began_ms = self.world.now_ms
        if not self.world.run(MOST_BEATS * HEARTBEAT_MS, self._is_quiet):
            raise Violation(f"soon settled: not in {MOST_BEATS} heartbeats: {self._unsettled()}")
        beats = (self.world.now_ms - began_ms) / HEARTBEAT_MS
        before = self._shares()
        self.world.run(QUIET_BEATS * HEARTBEAT_MS)
        if self._shares() != before:
            raise Violation("soon settled: what was quiet has changed again")
        self._check_all_are_read()
        self.ledger.check()
        done = self.ledger.heartbeats
        return ShareGroupLifeResult(self.world.seed, self.plan, self.world.happened, beats, done, self.deaths, self.administered)

    def _say(self, what: str) -> None:
        if self.tell:
            print(f"{self.world.now_ms / 1000:9.3f} s  {what}")

    def _link(self, link_faults: NetworkFaults) -> ClientLink:
        self._links += 1
        return ClientLink(self.world, self.host, link_faults, self._links)

    def _create_topics(self) -> None:
        of = CreateTopicsRequest.CreatableTopic
        wanted = [of(name=name, num_partitions=count, replication_factor=1) for name, count in self._counts.items()]
        self._change(CREATE_TOPICS, 7, CreateTopicsRequest(topics=wanted))
        self._change(FIND_COORDINATOR, 0, FindCoordinatorRequest(key="any"))
        self.world.run(1_000)
        self._ids = {name: self._running.image.topics[name].topic_id for name in self._counts}

    @property
    def _running(self) -> BrokerMachine:
        assert self.host.broker is not None
        return self.host.broker

    def _change(self, key: int, version: int, body: Any, answered: Callable[[Any], None] = lambda answer: None) -> None:
        self._admin.request(key, version, body, answered, 10_000)

    # Members

    def _begin(self, name: str) -> None:
        if name not in self.members:
            number = int(name[1:])
            group_id, names = self._groups[number % len(self._groups)], sorted(self._counts)
            topics = names[number % 2 :] or names if self.plan.mixed else names
            self._say(f"{name} begins in {group_id}")
            self.members[name] = SimShareMember(self.world, self._link(self.plan.link_faults), self.ledger, group_id, name, topics)

    def _somebody(self) -> SimShareMember | None:
        return self.world.random.choice(list(self.members.values())) if self.members else None

    def _end(self, member: SimShareMember) -> None:
        del self.members[member.name]
        if not self._peace and self.world.chance(0.8):
            self.world.after(self.world.random.randrange(100, 12_000), partial(self._comes, member.name))

    def _comes(self, name: str) -> None:
        if not self._peace:
            self._begin(name)

    def _somebody_dies(self) -> None:
        member = self._somebody()
        if member is not None:
            self._say(f"{member.name} dies")
            self.deaths += 1
            member.die()
            self._end(member)

    def _somebody_leaves(self) -> None:
        member = self._somebody()
        if member is not None:
            self._say(f"{member.name} leaves")
            member.leave()
            self._end(member)

    def _somebody_stands_still(self) -> None:
        member = self._somebody()
        if member is not None:
            member.stand_still(self.world.random.randrange(500, 3 * SESSION_MS))

    def _all_leave(self) -> None:
        """Let a group become empty, so that an administrator can change it, and change it then."""
        group_id = self.world.random.choice(self._groups)
        for member in [each for each in self.members.values() if each.group_id == group_id]:
            member.leave()
            self._end(member)
        act = self.world.random.choice((self._alter, self._alter, self._delete_group, self._delete_offsets))
        self.world.after(self.world.random.randrange(3_000), partial(act, group_id))

    # The broker, and administrators

    def _broker_dies(self) -> None:
        if self.host.broker is not None:
            power_cut = self.world.chance(0.7)
            self._say(f"the broker dies{' of a power cut' if power_cut else ''}")
            self.host.die(power_cut=power_cut)
            self.world.after(self.world.random.randrange(100, 4_000), self._broker_starts)

    def _broker_starts(self) -> None:
        self._say("the broker starts")
        self.host.start()
        self.ledger.check()

    def _clock_jumps(self) -> None:
        self.world.clock.jump(self.world.random.randrange(-86_400_000, 86_400_000))

    def _partitions_come(self) -> None:
        if self.host.broker is not None:
            name = self.world.random.choice(sorted(self._counts))
            count = len(self._running.image.topics[name].partitions) + 1
            topic = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None)
            self._say(f"{name} shall have {count} partitions")
            self._change(CREATE_PARTITIONS, 3, CreatePartitionsRequest(topics=[topic], timeout_ms=10_000))

    def _administer(self, group_id: str, key: int, version: int, body: Any, then: Callable[[Any], None]) -> None:
        """Send an administrator's request about a group. The ledger expects nothing of it until the answer is there."""
        if group_id in self.ledger.uncertain:
            return
        self.administered += 1
        self.ledger.uncertain.add(group_id)

        def answered(answer: Any) -> None:
            if answer is None:
                self.ledger.forget(group_id)
            else:
                then(answer)
            wait_ms = UNSURE_MS if answer is None else 0
            self.world.after(wait_ms, lambda: self.ledger.uncertain.discard(group_id))

        self._change(key, version, body, answered)

    def _alter(self, group_id: str) -> None:
        of = AlterShareGroupOffsetsRequest
        name = self.world.random.choice(sorted(self._counts))
        offsets = {index: self.world.random.randrange(100) for index in range(self._counts[name])}
        parts = [
            of.AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=start) for index, start in offsets.items()
        ]
        topic = of.AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=parts)

        def altered(answer: Any) -> None:
            parts = [part for topic in answer.responses for part in topic.partitions]
            made = {part.partition_index for part in parts if not part.error_code} if not answer.error_code else set()
            if not answer.error_code:
                self.ledger.forget_offsets(group_id, self._ids[name])
            self.ledger.altered(group_id, {(self._ids[name], index): offsets[index] for index in made})

        self._say(f"{name} of {group_id} shall begin at {offsets}")
        self._administer(group_id, ALTER, 0, of(group_id=group_id, topics=[topic]), altered)

    def _delete_group(self, group_id: str) -> None:
        def deleted(answer: Any) -> None:
            if not answer.results[0].error_code:
                self._say(f"{group_id} is deleted")
                self.ledger.forget(group_id)
                self.ledger.deleted(group_id)
            else:
                self.ledger.forget_offsets(group_id)

        self._administer(group_id, DELETE_GROUPS, 2, DeleteGroupsRequest(groups_names=[group_id]), deleted)

    def _delete_offsets(self, group_id: str) -> None:
        of = DeleteShareGroupOffsetsRequest
        name = self.world.random.choice(sorted(self._counts))
        body = of(group_id=group_id, topics=[of.DeleteShareGroupOffsetsRequestTopic(topic_name=name)])
        self._administer(group_id, DELETE_OFFSETS, 0, body, lambda answer: self.ledger.forget_offsets(group_id, self._ids[name]))

    def _trouble(self) -> None:
        """Make trouble, as often as there are members to suffer it."""
        if self._peace:
            return
        acts = (
            (5, self._somebody_dies), (3, self._somebody_leaves), (4, self._somebody_stands_still), (1, self._broker_dies),
            (1, self._clock_jumps), (0.5, self._partitions_come), (1, self._all_leave),
        )  # fmt: skip
        weights = [weight for weight, _ in acts]
        self.world.random.choices([act for _, act in acts], weights)[0]()
        pause_ms = max(200, 12_000 // self.plan.members)
        self.world.after(self.world.random.randrange(pause_ms, 3 * pause_ms), self._trouble)

    def _look(self) -> None:
        self.ledger.check()
        self.world.after(HEARTBEAT_MS, self._look)

    # Peace

    def _make_peace(self) -> None:
        """Stop all trouble; each group has a member. Whatever is in flight arrives before this returns."""
        self._say("peace")
        self._peace = True
        self.plan.link_faults.clear_up()
        self.host.start()
        for member in self.members.values():
            member.stand_still(0)
        for number in range(len(self._groups)):
            self._begin(f"c{number}")
        self.world.run(self.plan.link_faults.longest_ms)

    def _is_quiet(self) -> bool:
        """Whether all is quiet; looked at now and then only, for it takes long with many members."""
        return not self.world.happened % max(1, len(self.members) // 4) and not self._unsettled()

    def _unsettled(self) -> str:
        """What keeps the groups from being quiet; empty if nothing does."""
        groups = self.ledger.groups()
        if self.host.broker is None:
            return "there is no broker"
        for group_id in self._groups:
            mine = {member.member_id: member for member in self.members.values() if member.group_id == group_id}
            group = groups.get(group_id)
            if group is None or set(group.members) != set(mine):
                return f"{group_id} has {sorted(() if group is None else group.members)} instead of {sorted(mine)}"
            if group.initializing or group.epoch != group.assignment_epoch:
                return f"{group_id} is about to change"
            for member_id, known in group.members.items():
                if mine[member_id].epoch != group.epoch or dict(mine[member_id].assigned) != dict(known.assigned):
                    return f"{mine[member_id].name} does not know its partitions yet"
        return "; ".join(self._unread())

    def _unread(self) -> list[str]:
        """What is wrong with the assignments of each group."""
        topics = {self._ids[name]: len(self._running.image.topics[name].partitions) for name in self._counts}
        wrong: list[str] = []
        for group_id in self._groups:
            group = self.ledger.groups()[group_id]
            names = {name for member in group.members.values() for name in member.topics}
            wanted = {self._ids[name]: topics[self._ids[name]] for name in names}
            if len({member.topics for member in group.members.values()}) == 1:
                fault = uneven(group, wanted)
            else:
                held = {
                    (topic, number) for each in group.members.values() for topic, some in each.assigned.items() for number in some
                }
                lacking = [
                    place for place in ((topic, at) for topic, count in wanted.items() for at in range(count)) if place not in held
                ]
                fault = f"{len(lacking)} partitions have no member" if lacking else ""
            wrong += [f"{group_id}: {fault}"] if fault else []
        return wrong

    def _check_all_are_read(self) -> None:
        unread = self._unread()
        if unread:
            raise Violation(f"all are read: {'; '.join(unread)}")

    def _shares(self) -> dict[str, object]:
        return {name: dict(member.assigned) for name, member in self.members.items()}


def plan(world: World) -> ShareGroupPlan:
    """Decide what the seed is about. Most worlds are small: many small ones hold more chance than a few large ones."""
    random = world.random
    size = random.random()
    members = random.randrange(2, 8) if size < 0.9 else random.randrange(10, 30) if size < 0.99 else random.randrange(100, 180)
    link_faults = NetworkFaults(
        lose_request=random.choice((0, 0.01, 0.05)),
        lose_answer=random.choice((0, 0.01, 0.05)),
        repeat=random.choice((0, 0.02, 0.1)),
        delay=random.choice((0, 0.05, 0.2)),
        least_ms=random.choice((1, 5, 20)),
    )
    groups = 1 if random.random() < 0.7 else 2
    return ShareGroupPlan(
        groups, members, random.randrange(1, 4), random.random() < 0.4, random.randrange(15_000, 40_000), link_faults
    )
