"""The members of some groups in a simulated world: who comes, who goes, and whether all have settled.

Each has a name that outlasts its processes: another takes the place of one that died. Knows members and their ledger; knows no
broker.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from ottla.client.settings.clients import ConsumerSettings
from ottla.client.types import TopicPartition
from ottla.sim.network import RequestLink
from ottla.sim.world import World
from tests.sim.lives.classic_member import SimClassicMember
from tests.sim.lives.consumer_member import SimConsumerMember
from tests.sim.lives.group_ledger import CoordinatorView, GroupLedger, member_ids, restless
from tests.sim.lives.group_members import SimMember, TopicView
from tests.sim.lives.streams_member import SimStreamsMember, SimTopology

SESSION_MS, HEARTBEAT_MS, REBALANCE_MS = 6_000, 1_000, 8_000
STRATEGIES = (("range",), ("cooperative-sticky",), ("range", "cooperative-sticky"), ("roundrobin", "range"))
KINDS = ("classic", "consumer", "mixed")
STREAMS = "streams"
"""The kind of groups whose members are threads of an application; two threads to a process. Only lived when it is asked for."""


class PlannedGroup(NamedTuple):
    """A group, and how its members differ."""

    group_id: str
    kind: str
    strategy: tuple[str, ...]
    topics: list[str]


class SimCrowd:
    """All members. `members` are the live ones, by name; `deaths` counts those that died without a word."""

    def __init__(
        self,
        world: World,
        connect: Callable[[], RequestLink],
        ledger: GroupLedger,
        brokers: CoordinatorView,
        view: TopicView,
        kinds: tuple[str, ...],
        say: Callable[[str], None],
        *,
        pattern: str = "t.*",
    ) -> None:
        """There is a group for each of the `kinds`. `pattern` matches all topics of `view`."""
        self.world = world
        self.members: dict[str, SimMember] = {}
        self.deaths = 0
        self._connect = connect
        self._ledger = ledger
        self._brokers = brokers
        self._view = view
        self._say = say
        self._pattern = pattern
        self._peace = False
        self._subscriptions: dict[str, list[str]] = {}
        self.groups = [self._group(number, kind) for number, kind in enumerate(kinds)]
        self.stateful = {group.group_id for group in self.groups if group.kind == STREAMS and world.chance(0.6)}
        """Groups whose tasks have changelogs, so that their topics cannot grow."""
        self._mine = {group.group_id for group in self.groups}

    def _group(self, number: int, kind: str) -> PlannedGroup:
        random = self.world.random
        names = sorted(self._view.counts())
        topics = sorted(random.sample(names, random.randrange(1, len(names) + 1)))
        return PlannedGroup(f"g{number}-{kind}", kind, random.choice(STRATEGIES), topics)

    def begin_all(self, count: int, within_ms: int) -> None:
        """Let so many members come, some time within so long."""
        for number in range(count):
            self.world.after(self.world.random.randrange(within_ms), partial(self._comes, f"c{number}"))

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
        link = self._connect()
        shared = (self.world, link, self._ledger, self._view)
        topics = self._subscription(name, group)
        member: SimMember
        if group.kind == STREAMS:
            topology = SimTopology(group.group_id, tuple(group.topics), group.group_id in self.stateful)
            process_id = f"p{number // (2 * len(self.groups))}"
            member = SimStreamsMember(
                *shared, topology, name, process_id, instance_id=instance_id, rebalance_timeout_ms=REBALANCE_MS
            )
        elif group.kind == "classic" or (group.kind == "mixed" and chance.random() < 0.5):
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
            wanted = self._pattern if topics == sorted(self._view.counts()) and chance.random() < 0.5 else topics
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

    # Trouble

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

    def somebody_dies(self) -> None:
        """Let a member end without a word."""
        member = self._somebody()
        if member is not None:
            self._say(f"{member.name} dies")
            self.deaths += 1
            member.die()
            self._bury()

    def somebody_leaves(self) -> None:
        """Let a member leave in order."""
        member = self._somebody()
        if member is not None:
            self._say(f"{member.name} leaves")
            member.leave()

    def somebody_stands_still(self) -> None:
        """Let a member do nothing for a while."""
        member = self._somebody()
        if member is not None:
            ms = self.world.random.randrange(500, 3 * SESSION_MS)
            self._say(f"{member.name} stands still for {ms} ms")
            member.stand_still(ms)

    # Peace

    def go_on(self) -> None:
        """Let nobody stand still or stay away any more; each group has a member."""
        self._peace = True
        self._bury()
        for member in self.members.values():
            member.stand_still(0)
        for number in range(len(self.groups)):
            self._begin(f"c{number}")

    def is_quiet(self) -> bool:
        """Whether everybody is settled and everything is read."""
        self._bury()
        settled = bool(self.members) and all(member.is_settled for member in self.members.values())
        return settled and not self.unread() and not self._strangers() and not self._restless()

    def stir(self) -> bool:
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
        known = {member_id for machine in self._brokers.coordinators() for member_id in member_ids(machine, self._mine)}
        return sorted(known ^ {member.member_id for member in self.members.values()})

    def _restless(self) -> list[str]:
        return [group_id for machine in self._brokers.coordinators() for group_id in restless(machine) if group_id in self._mine]

    def _wanted(self) -> dict[str, set[TopicPartition]]:
        """By group, the topics its members subscribe to."""
        wanted: dict[str, set[TopicPartition]] = {group.group_id: set() for group in self.groups}
        counts = self._view.counts()
        for member in self.members.values():
            topics = member.topics()
            wanted[member.group_id] |= {TopicPartition(topic, index) for topic in topics for index in range(counts[topic])}
        return wanted

    def unread(self) -> list[str]:
        """Partitions that nobody reads, or more than one member."""
        return [
            f"{where.topic}-{where.partition} of {group_id} is read by {len(holders)} members"
            for group_id, places in self._wanted().items()
            for where in sorted(places)
            if len(holders := self._ledger.holders(group_id, where)) != 1
        ]

    def unsettled(self) -> str:
        """What keeps the groups from being quiet."""
        waiting = [f"group {group_id} is not stable" for group_id in self._restless()]
        waiting += [f"{name} is not settled" for name, member in self.members.items() if not member.is_settled]
        strangers = [f"{member_id} is known to one side only" for member_id in self._strangers()]
        return "; ".join((waiting + strangers + self.unread())[:6])

    def shares(self) -> dict[str, tuple[str, list[TopicPartition]]]:
        """Who reads what, by name."""
        return {name: (member.member_id, sorted(member.positions)) for name, member in self.members.items()}
