"""One seed of groups: members of both protocols and a broker live through trouble, then peace; then everything is checked.

Everything comes from the seed. Knows how bad it gets and when a group must be quiet again. `group_ledger` knows what must always be
true, and `group_crowd` who comes and goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from ottla.sim.host import Host
from ottla.sim.network import ClientLink, NetworkFaults
from ottla.sim.world import World
from ottla.wire.api.create_partitions import CreatePartitionsRequest
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from tests.sim.lives.group_crowd import HEARTBEAT_MS, KINDS, REBALANCE_MS, SESSION_MS, SimCrowd
from tests.sim.lives.group_ledger import GroupLedger
from tests.sim.lives.small_journals import journal_alignment, journal_settings
from tests.sim.lives.streams_checks import check_agreement, check_tasks
from tests.sim.seeds import Violation

FIND_COORDINATOR, CREATE_TOPICS, CREATE_PARTITIONS = 10, 19, 37
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
    "group.streams.min.session.timeout.ms": str(SESSION_MS),
    "group.streams.session.timeout.ms": str(SESSION_MS),
    "group.streams.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.streams.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.streams.initial.rebalance.delay.ms": "500",
    "group.streams.num.standby.replicas": "1",
    "group.streams.min.task.offset.interval.ms": str(HEARTBEAT_MS),
    "group.streams.task.offset.interval.ms": str(HEARTBEAT_MS),
    "offsets.topic.num.partitions": "1",
    "log.flush.offset.checkpoint.interval.ms": "3600000",
}


class GroupPlan(NamedTuple):
    """What a seed is about. `trouble_ms`: how long the trouble lasts."""

    kinds: tuple[str, ...]
    members: int
    topics: int
    trouble_ms: int
    link_faults: NetworkFaults


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


class GroupLife:
    """One seed."""

    def __init__(self, seed: int, *, kind: str | None = None, tell: bool = False) -> None:
        self.world = World(seed)
        self.tell = tell
        self.plan = plan(self.world, kind)
        self.host = Host(self.world, SETTINGS | journal_settings(seed), room_alignment=journal_alignment(seed))
        self.ledger = GroupLedger(self.host)
        self._links = 0
        self._peace = False
        self._counts = {f"t{number}": self.world.random.randrange(1, 9) for number in range(self.plan.topics)}
        self._admin = self._link(NetworkFaults())
        self._topics()
        connect = partial(self._link, self.plan.link_faults)
        self.crowd = SimCrowd(self.world, connect, self.ledger, self.host, self, self.plan.kinds, self._say)

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
        self.crowd.begin_all(self.plan.members, self.plan.trouble_ms // 3)
        self.world.after(0, self._trouble)
        self.world.after(HEARTBEAT_MS, self._look)
        self.world.run(self.plan.trouble_ms)
        self._make_peace()
        began_ms = self.world.now_ms
        patience_ms = MOST_BEATS * HEARTBEAT_MS
        settled = self.world.run(patience_ms, self._is_quiet)
        if not settled and self.crowd.stir():
            settled = self.world.run(patience_ms, self._is_quiet)
        if not settled:
            raise Violation(f"soon settled: not in {MOST_BEATS} heartbeats: {self.crowd.unsettled()}")
        beats = (self.world.now_ms - began_ms) / HEARTBEAT_MS
        before = self.crowd.shares()
        self.world.run(QUIET_BEATS * HEARTBEAT_MS)
        after = self.crowd.shares()
        if after != before:
            changed = [f"{name} from {before.get(name)} to {share}" for name, share in after.items() if share != before.get(name)]
            raise Violation(f"soon settled: what was quiet has changed again: {'; '.join(changed[:3])}")
        self._check_all_are_read()
        self.ledger.read_all()
        ledger = self.ledger
        return GroupLifeResult(
            self.world.seed, self.plan, self.world.happened, beats, ledger.commits, ledger.refused, ledger.taken, self.crowd.deaths
        )

    def _say(self, what: str) -> None:
        if self.tell:
            print(f"{self.world.now_ms / 1000:9.3f} s  {what}")

    def _link(self, link_faults: NetworkFaults) -> ClientLink:
        self._links += 1
        return ClientLink(self.world, self.host, link_faults, self._links)

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
        self._admin.request(key, version, body, lambda response: None, 60_000)

    def _trouble(self) -> None:
        """Make trouble, as often as there are members to suffer it."""
        if self._peace:
            return
        crowd = self.crowd
        acts = (
            (5, crowd.somebody_dies), (3, crowd.somebody_leaves), (4, crowd.somebody_stands_still), (1, self._broker_dies),
            (1, self._clock_jumps), (0.3, self._partitions_come),
        )  # fmt: skip
        weights = [weight for weight, _ in acts]
        self.world.random.choices([act for _, act in acts], weights)[0]()
        pause_ms = max(200, 12_000 // self.plan.members)
        self.world.after(self.world.random.randrange(pause_ms, 3 * pause_ms), self._trouble)

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
            if any(name in group.topics for group in self.crowd.groups if group.group_id in self.crowd.stateful):
                return
            count = self.counts()[name] + 1
            self._say(f"{name} shall have {count} partitions")
            topic = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count)
            self._change(CREATE_PARTITIONS, 3, CreatePartitionsRequest(topics=[topic], timeout_ms=10_000))

    def _look(self) -> None:
        self.ledger.check()
        check_tasks(self.host.coordinators())
        self.world.after(HEARTBEAT_MS, self._look)

    def _make_peace(self) -> None:
        """Stop all trouble; each group has a member. Whatever is in flight arrives before this returns."""
        self._say("peace")
        self._peace = True
        self.plan.link_faults.clear_up()
        self.host.start()
        self.crowd.go_on()
        self.world.run(self.plan.link_faults.longest_ms)

    def _is_quiet(self) -> bool:
        """Whether all is quiet; looked at now and then only, for it takes long with many members."""
        return not self.world.happened % max(1, len(self.crowd.members) // 4) and self.crowd.is_quiet()

    def _check_all_are_read(self) -> None:
        check_tasks(self.host.coordinators())
        check_agreement(self.host.coordinators(), self.crowd.members.values())
        unread = self.crowd.unread()
        if unread:
            raise Violation(f"all are read: {'; '.join(unread[:6])}")


def plan(world: World, kind: str | None = None) -> GroupPlan:
    """Decide what the seed is about. Most worlds are small: many small ones hold more chance than a few large ones."""
    random = world.random
    size = random.random()
    members = random.randrange(2, 8) if size < 0.9 else random.randrange(10, 30) if size < 0.99 else random.randrange(100, 250)
    kinds = (kind,) if kind else tuple(random.choice(KINDS) for _ in range(1 if random.random() < 0.7 else 2))
    link_faults = NetworkFaults(
        lose_request=random.choice((0, 0.01, 0.05)),
        lose_answer=random.choice((0, 0.01, 0.05)),
        repeat=random.choice((0, 0.02, 0.1)),
        delay=random.choice((0, 0.05, 0.2)),
        least_ms=random.choice((1, 5, 20)),
    )
    trouble_ms = random.randrange(15_000, 40_000)
    return GroupPlan(kinds, members, random.randrange(1, 4), trouble_ms, link_faults)
