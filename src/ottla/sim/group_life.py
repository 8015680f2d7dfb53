"""One seed of groups: members of both protocols and a broker live through trouble, then peace; then everything is checked.

Everything comes from the seed. Knows how bad it gets and when a group must be quiet again. `group_ledger` knows what must always be
true, and members know what they do.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from ottla.client.settings import ConsumerSettings
from ottla.client.types import TopicPartition
from ottla.sim.classic_member import SimClassicMember
from ottla.sim.consumer_member import SimConsumerMember
from ottla.sim.group_ledger import GroupLedger, member_ids, restless
from ottla.sim.group_members import SimMember
from ottla.sim.host import Host
from ottla.sim.network import ClientLink, Weather
from ottla.sim.seeds import Violation
from ottla.sim.world import World
from ottla.wire.api.create_partitions import CreatePartitionsRequest
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest

FIND_COORDINATOR, CREATE_TOPICS, CREATE_PARTITIONS = 10, 19, 37
SESSION_MS, HEARTBEAT_MS, REBALANCE_MS = 6_000, 1_000, 8_000
MOST_BEATS = (SESSION_MS + 2 * REBALANCE_MS) // HEARTBEAT_MS + 20
"""Heartbeats within which a group settles: a dead member's session, the rebalance timeout of one in progress, and again."""

QUIET_BEATS = 4
"""The number of heartbeats for which nothing may change then."""

SETTINGS = {
    "group.initial.rebalance.delay.ms": "500",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "offsets.topic.num.partitions": "1",
    "log.flush.offset.checkpoint.interval.ms": "3600000",
}
STRATEGIES = (("range",), ("cooperative-sticky",), ("range", "cooperative-sticky"), ("roundrobin", "range"))
KINDS = ("classic", "consumer", "mixed")


class GroupPlan(NamedTuple):
    """What a seed is about. `trouble_ms`: how long the trouble lasts."""

    kinds: tuple[str, ...]
    members: int
    topics: int
    trouble_ms: int
    weather: Weather


class GroupLifeResult(NamedTuple):
    """The result of a seed. `beats`: heartbeats until it was quiet."""

    seed: int
    plan: GroupPlan
    happened: int
    beats: float
    commits: int
    refused: int
    taken: int
    deaths: int


class PlannedGroup(NamedTuple):
    """A group, and how its members differ."""

    group_id: str
    kind: str
    strategy: tuple[str, ...]
    topics: list[str]


class GroupLife:
    """One seed. `members` are the live ones, by a name that outlasts their processes."""

    def __init__(self, seed: int, *, kind: str | None = None, tell: bool = False) -> None:
        self.world = World(seed)
        self.tell = tell
        self.plan = plan(self.world, kind)
        self.host = Host(self.world, SETTINGS)
        self.ledger = GroupLedger(self.host)
        self.members: dict[str, SimMember] = {}
        self.deaths = 0
        self._links = 0
        self._subscriptions: dict[str, list[str]] = {}
        self._peace = False
        self._counts = {f"t{number}": self.world.random.randrange(1, 9) for number in range(self.plan.topics)}
        self._admin = self._link(Weather())
        self._topics()
        self.groups = [self._group(number, kind) for number, kind in enumerate(self.plan.kinds)]

    def counts(self) -> Mapping[str, int]:
        """Return the topics with their partitions, for members; as last seen while there is no broker to ask."""
        if self.host.broker is not None:
            topics = self.host.broker.image.topics
            self._counts = {name: len(topics[name].partitions) for name in self._counts}
        return self._counts

    def names(self) -> Mapping[bytes, str]:
        """Return the topics by id, for members."""
        return self._ids

    def live(self) -> GroupLifeResult:
        """Live through trouble, then peace. Raises `Violation`."""
        random = self.world.random
        for number in range(self.plan.members):
            self.world.after(random.randrange(self.plan.trouble_ms // 3), partial(self._comes, f"c{number}"))
        self.world.after(0, self._trouble)
        self.world.after(HEARTBEAT_MS, self._look)
        self.world.run(self.plan.trouble_ms)
        self._make_peace()
        began_ms = self.world.now_ms
        patience_ms = MOST_BEATS * HEARTBEAT_MS
        settled = self.world.run(patience_ms, self._is_quiet)
        if not settled and self._stir():
            settled = self.world.run(patience_ms, self._is_quiet)
        if not settled:
            raise Violation(f"soon settled: not in {MOST_BEATS} heartbeats: {self._unsettled()}")
        beats = (self.world.now_ms - began_ms) / HEARTBEAT_MS
        before = self._shares()
        self.world.run(QUIET_BEATS * HEARTBEAT_MS)
        after = self._shares()
        if after != before:
            changed = [f"{name} from {before.get(name)} to {share}" for name, share in after.items() if share != before.get(name)]
            raise Violation(f"soon settled: what was quiet has changed again: {'; '.join(changed[:3])}")
        self._check_all_are_read()
        self.ledger.read_all()
        ledger = self.ledger
        return GroupLifeResult(
            self.world.seed, self.plan, self.world.happened, beats, ledger.commits, ledger.refused, ledger.taken, self.deaths
        )

    def _say(self, what: str) -> None:
        if self.tell:
            print(f"{self.world.now_ms / 1000:9.3f} s  {what}")

    def _link(self, weather: Weather) -> ClientLink:
        self._links += 1
        return ClientLink(self.world, self.host, weather, self._links)

    def _topics(self) -> None:
        wanted = [
            CreateTopicsRequest.CreatableTopic(name=name, num_partitions=count, replication_factor=1)
            for name, count in self._counts.items()
        ]
        self._change(CREATE_TOPICS, 7, CreateTopicsRequest(topics=wanted))
        self._change(FIND_COORDINATOR, 0, FindCoordinatorRequest(key="any"))
        self.world.run(1_000)
        assert self.host.broker is not None
        self._ids = {topic.topic_id: name for name, topic in self.host.broker.image.topics.items()}

    def _change(self, key: int, version: int, body: Any) -> None:
        self._admin.ask(key, version, body, lambda response: None, 60_000)

    def _group(self, number: int, kind: str) -> PlannedGroup:
        random = self.world.random
        names = sorted(self._counts)
        topics = sorted(random.sample(names, random.randrange(1, len(names) + 1)))
        return PlannedGroup(f"g{number}-{kind}", kind, random.choice(STRATEGIES), topics)

    def _comes(self, name: str) -> None:
        """Start a process in the place of the dead one of that name, while the trouble lasts."""
        if not self._peace:
            self._begin(name)

    def _begin(self, name: str) -> None:
        if name in self.members:
            return
        chance = self.world.random
        number = int(name[1:])
        group = self.groups[number % len(self.groups)]
        instance_id = name if number % 3 == 0 else None
        link = self._link(self.plan.weather)
        shared = (self.world, link, self.ledger, self)
        topics = self._subscription(name, group)
        member: SimMember
        if group.kind == "classic" or (group.kind == "mixed" and chance.random() < 0.5):
            settings = ConsumerSettings(
                group_id=group.group_id,
                group_instance_id=instance_id,
                session_timeout_ms=SESSION_MS,
                heartbeat_interval_ms=HEARTBEAT_MS,
                max_poll_interval_ms=REBALANCE_MS,
                request_timeout_ms=2_000,
                partition_assignment_strategy=group.strategy,
            )
            member = SimClassicMember(*shared, settings, name, topics)
        else:
            wanted = "t.*" if topics == sorted(self._counts) and chance.random() < 0.5 else topics
            assignor = chance.choice((None, "uniform", "range"))
            member = SimConsumerMember(
                *shared, group.group_id, name, wanted, instance_id=instance_id, rebalance_timeout_ms=REBALANCE_MS, assignor=assignor
            )
        self.members[name] = member
        self._say(f"{name} begins in {group.group_id} as {type(member).__name__}")

    def _subscription(self, name: str, group: PlannedGroup) -> list[str]:
        """Choose the same topics for a name every time: a static member's place is kept, and a new subscription ignored."""
        if name not in self._subscriptions:
            chance = self.world.random
            some = chance.sample(group.topics, chance.randrange(1, len(group.topics) + 1))
            self._subscriptions[name] = group.topics if chance.random() < 0.7 else sorted(some)
        return self._subscriptions[name]

    def _trouble(self) -> None:
        """Make trouble, as often as there are members to suffer it."""
        if self._peace:
            return
        acts = (
            (5, self._somebody_dies), (3, self._somebody_leaves), (4, self._somebody_stands_still), (1, self._broker_dies),
            (1, self._clock_jumps), (0.3, self._partitions_come),
        )  # fmt: skip
        weights = [weight for weight, _ in acts]
        self.world.random.choices([act for _, act in acts], weights)[0]()
        pause_ms = max(200, 12_000 // self.plan.members)
        self.world.after(self.world.random.randrange(pause_ms, 3 * pause_ms), self._trouble)

    def _somebody(self) -> SimMember | None:
        self._bury()
        return self.world.random.choice(list(self.members.values())) if self.members else None

    def _bury(self) -> None:
        """Note members that ended by themselves: somebody took their place, or their group refused them."""
        for name in [name for name, member in self.members.items() if not member.alive]:
            del self.members[name]
            self._come_back(name)

    def _come_back(self, name: str) -> None:
        if self._peace:
            self._begin(name)
        elif self.world.chance(0.8):
            self.world.after(self.world.random.randrange(100, 12_000), partial(self._comes, name))

    def _somebody_dies(self) -> None:
        member = self._somebody()
        if member is not None:
            self._say(f"{member.name} dies")
            self.deaths += 1
            member.die()
            self._bury()

    def _somebody_leaves(self) -> None:
        member = self._somebody()
        if member is not None:
            self._say(f"{member.name} leaves")
            member.leave()

    def _somebody_stands_still(self) -> None:
        member = self._somebody()
        if member is not None:
            ms = self.world.random.randrange(500, 3 * SESSION_MS)
            self._say(f"{member.name} stands still for {ms} ms")
            member.stand_still(ms)

    def _broker_dies(self) -> None:
        if self.host.broker is not None:
            power_cut = self.world.chance(0.7)
            self._say(f"the broker dies{' of a power cut' if power_cut else ''}")
            self.host.die(power_cut=power_cut)
            self.ledger.broker_died()
            self.world.after(self.world.random.randrange(100, 4_000), self._broker_starts)

    def _broker_starts(self) -> None:
        self._say("the broker starts")
        self.host.start()
        self.ledger.read_all()

    def _clock_jumps(self) -> None:
        ms = self.world.random.randrange(-86_400_000, 86_400_000)
        self._say(f"the clock jumps by {ms} ms")
        self.world.clock.jump(ms)

    def _partitions_come(self) -> None:
        if self.host.broker is not None:
            name = self.world.random.choice(sorted(self._counts))
            count = self.counts()[name] + 1
            self._say(f"{name} shall have {count} partitions")
            topic = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count)
            self._change(CREATE_PARTITIONS, 3, CreatePartitionsRequest(topics=[topic], timeout_ms=10_000))

    def _look(self) -> None:
        self.ledger.check()
        self.world.after(HEARTBEAT_MS, self._look)

    def _make_peace(self) -> None:
        """Stop all trouble; each group has a member. Whatever is in flight arrives before this returns."""
        self._say("peace")
        self._peace = True
        self.plan.weather.clear_up()
        self.host.start()
        self._bury()
        for member in self.members.values():
            member.stand_still(0)
        for number in range(len(self.groups)):
            self._begin(f"c{number}")
        self.world.run(self.plan.weather.longest_ms)

    def _is_quiet(self) -> bool:
        """Whether everybody is settled and everything is read; checked now and then only, for it takes long with many members."""
        if self.world.happened % max(1, len(self.members) // 4):
            return False
        self._bury()
        settled = bool(self.members) and all(member.is_settled for member in self.members.values())
        return settled and not self._unread() and not self._strangers() and not self._restless()

    def _stir(self) -> bool:
        """Let members join again where the classic protocol itself leaves partitions unread; returns whether there is such a group.

        A static member that dies while giving partitions up cooperatively comes back without a rebalance (KIP-345) and never
        reports having given them up (KIP-429): in Kafka, too, they wait for the group's next change.
        """
        if self._restless() or self._strangers() or not all(member.is_settled for member in self.members.values()):
            return False
        readers = [
            member for member in self.members.values() if isinstance(member, SimClassicMember) and member.machine.cooperative
        ]
        static = {member.group_id for member in readers if member.instance_id is not None}
        stirred = [member for member in readers if member.group_id in static]
        for member in stirred:
            self._say(f"{member.name} joins again, for partitions that nobody has said to have given up")
            member.join_again()
        return bool(stirred)

    def _strangers(self) -> list[str]:
        """List members that the coordinator knows and that are dead, or the other way round."""
        known = {member_id for machine in self.host.coordinators() for member_id in member_ids(machine)}
        return sorted(known ^ {member.member_id for member in self.members.values()})

    def _restless(self) -> list[str]:
        return [group_id for machine in self.host.coordinators() for group_id in restless(machine)]

    def _wanted(self) -> dict[str, set[TopicPartition]]:
        """By group, the topics its members subscribe to."""
        wanted: dict[str, set[TopicPartition]] = {group.group_id: set() for group in self.groups}
        counts = self.counts()
        for member in self.members.values():
            topics = member.topics()
            wanted[member.group_id] |= {TopicPartition(topic, index) for topic in topics for index in range(counts[topic])}
        return wanted

    def _unread(self) -> list[str]:
        return [
            f"{where.topic}-{where.partition} of {group_id} is read by {len(holders)} members"
            for group_id, places in self._wanted().items()
            for where in sorted(places)
            if len(holders := self.ledger.holders(group_id, where)) != 1
        ]

    def _unsettled(self) -> str:
        waiting = [f"group {group_id} is not stable" for group_id in self._restless()]
        waiting += [f"{name} is not settled" for name, member in self.members.items() if not member.is_settled]
        strangers = [f"{member_id} is known to one side only" for member_id in self._strangers()]
        return "; ".join((waiting + strangers + self._unread())[:6])

    def _shares(self) -> dict[str, tuple[str, list[TopicPartition]]]:
        return {name: (member.member_id, sorted(member.positions)) for name, member in self.members.items()}

    def _check_all_are_read(self) -> None:
        unread = self._unread()
        if unread:
            raise Violation(f"all are read: {'; '.join(unread[:6])}")


def plan(world: World, kind: str | None = None) -> GroupPlan:
    """Decide what the seed is about. Most worlds are small: many small ones hold more chance than a few large ones."""
    random = world.random
    size = random.random()
    members = random.randrange(2, 8) if size < 0.9 else random.randrange(10, 30) if size < 0.99 else random.randrange(100, 250)
    kinds = (kind,) if kind else tuple(random.choice(KINDS) for _ in range(1 if random.random() < 0.7 else 2))
    weather = Weather(
        lose_request=random.choice((0, 0.01, 0.05)),
        lose_answer=random.choice((0, 0.01, 0.05)),
        repeat=random.choice((0, 0.02, 0.1)),
        delay=random.choice((0, 0.05, 0.2)),
        least_ms=random.choice((1, 5, 20)),
    )
    trouble_ms = random.randrange(15_000, 40_000)
    return GroupPlan(kinds, members, random.randrange(1, 4), trouble_ms, weather)
