"""One seed of a group of Kafka 0.7: consumers over a simulated ZooKeeper live through trouble, then peace; then all is checked.

Everything comes from the seed. `consumer07_ledger` says what must be true, `consumer07` what a consumer does.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.client.types import TopicPartition
from ottla.kafka07.client import directory
from ottla.kafka07.client.group import Subscription
from ottla.kafka07.client.partitions import BrokerPartition
from ottla.ports import Change
from ottla.sim.ensemble import SimEnsemble
from ottla.sim.process import MOST_DRIFT, Cuts, DriftingClock, SimProcess
from ottla.sim.shared_registry import REGISTRY, RegistryFaults, SimSharedRegistry
from ottla.sim.world import World
from tests.sim.lives.consumer07 import BACKOFF_MS, SimConsumer07
from tests.sim.lives.consumer07_ledger import Ledger07
from tests.sim.seeds import Violation

SESSION_MS = 4_000
PATIENCE_MS = 3 * SESSION_MS + 30 * BACKOFF_MS
"""Within this time of peace a group is quiet."""

QUIET_MS = 2 * SESSION_MS
WRITE_MS = 250
TOPICS = ("t", "u", "other")
PATTERN = "[tu]"


class Plan07(NamedTuple):
    """What a seed is about."""

    members: int
    brokers: int
    trouble_ms: int


class Lived07(NamedTuple):
    """The result of a seed. `settled_ms`: how long it took in peace."""

    seed: int
    plan: Plan07
    happened: int
    rounds: int
    handed: int
    settled_ms: int


class GroupLife07:
    """One seed."""

    def __init__(self, seed: int, *, tell: bool = False) -> None:
        self.world = World(seed)
        self.tell = tell
        random = self.world.random
        self.plan = Plan07(random.randrange(1, 7), random.randrange(1, 4), random.randrange(8_000, 30_000))
        self.faults = RegistryFaults(
            random.choice((1, 5)), random.choice((10, 200, 1_000)), random.choice((0, 0.05, 0.3)), random.choice((0, 0.02, 0.1))
        )
        self.ensemble = SimEnsemble(self.world, timeout_ms=SESSION_MS)
        self.cuts = Cuts()
        self.members: list[SimConsumer07] = []
        self.ledger = Ledger07(lambda: self.members)
        self.ends: dict[TopicPartition, int] = {}
        self._names = 0
        self._peace = False
        self._rounds = 0
        for topic in TOPICS:
            for broker in range(self.plan.brokers):
                self._register(topic, broker, random.randrange(1, 13))

    def live(self) -> Lived07:
        """Live through trouble, then peace. Raises `Violation`."""
        for _ in range(self.plan.members):
            self.world.after(self.world.random.randrange(self.plan.trouble_ms // 2), self._join)
        self.world.after(0, self._trouble)
        self.world.after(0, self._write)
        self.world.run(self.plan.trouble_ms)
        self._make_peace()
        began_ms = self.world.now_ms
        if not self.world.run(PATIENCE_MS, self._is_quiet):
            raise Violation(f"all are owned: not within {PATIENCE_MS} ms: {self._unsettled()}")
        settled_ms = self.world.now_ms - began_ms
        before = self._shares()
        self.world.run(QUIET_MS)
        if self._shares() != before:
            raise Violation(f"all are owned: what was quiet has changed: {before} to {self._shares()}")
        self._check_places()
        rounds = self._rounds + sum(member.rounds for member in self.members)
        return Lived07(self.world.seed, self.plan, self.world.happened, rounds, self.ledger.handed, settled_ms)

    def _say(self, what: str) -> None:
        if self.tell:
            print(f"{self.world.now_ms / 1000:9.3f} s  {what}")

    # --- who is there

    def _register(self, topic: str, broker: int, count: int) -> None:
        self.ensemble.put(Change(f"{directory.TOPICS}/{topic}/{broker}", str(count).encode()))
        self.ensemble.put(Change(f"{directory.BROKERS}/{broker}", f"host-1:host:{9092 + broker}".encode()))

    def _partitions(self) -> list[TopicPartition]:
        """Those that the group is to read."""
        found = []
        for topic in TOPICS[:2]:
            for broker in self.ensemble.children(f"{directory.TOPICS}/{topic}"):
                entry = self.ensemble.get(f"{directory.TOPICS}/{topic}/{broker}")
                count = 0 if entry is None else int(entry.value)
                found += [TopicPartition(topic, BrokerPartition(int(broker), index).number) for index in range(count)]
        return found

    def _write(self) -> None:
        """Write messages, for as long as there is trouble."""
        if not self._peace:
            for where in self._partitions():
                self.ends[where] = self.ends.get(where, 0) + self.world.random.randrange(3)
            self.world.after(WRITE_MS, self._write)

    def _join(self) -> None:
        random = self.world.random
        self._names += 1
        name = f"{random.randrange(100)}-{self._names}"
        self._say(f"{name} joins")
        process = SimProcess(self.world, name, clock=DriftingClock(self.world, random.uniform(-MOST_DRIFT, MOST_DRIFT)))
        registry = SimSharedRegistry(self.ensemble, process, cuts=self.cuts, faults=self.faults)
        reads = Subscription({}, PATTERN) if random.random() < 0.4 else Subscription({"t": 1, "u": 1})
        self.members.append(SimConsumer07(process, registry, self.ledger, reads, self.ends))

    def _living(self) -> list[SimConsumer07]:
        for member in self.members:
            if member.process.has_ended:
                self._rounds += member.rounds
        self.members = [member for member in self.members if not member.process.has_ended]
        return [member for member in self.members if not member.is_leaving]

    def _shares(self) -> dict[str, list[TopicPartition]]:
        return {member.name: sorted(member.group.owned) for member in self._living()}

    # --- what happens to them

    def _trouble(self) -> None:
        if self._peace:
            return
        random = self.world.random
        living = self._living()
        if len(living) < self.plan.members and random.random() < 0.5:
            self._join()
        if living:
            acts = (
                (2, self._dies), (2, self._leaves), (3, self._stands_still), (3, self._loses_connection), (3, self._lags),
                (2, self._expires), (2, self._is_cut_off), (1, self._registry_is_down), (1, self._broker_changes),
            )  # fmt: skip
            act = random.choices([act for _, act in acts], [weight for weight, _ in acts])[0]
            act(random.choice(living))
        self.world.after(random.randrange(100, 1_500), self._trouble)

    def _dies(self, member: SimConsumer07) -> None:
        self._say(f"{member.name} dies")
        member.die()

    def _leaves(self, member: SimConsumer07) -> None:
        self._say(f"{member.name} leaves")
        member.is_leaving = True  # though it may stand still yet
        member.process.post(member.leave)

    def _stands_still(self, member: SimConsumer07) -> None:
        ms = self.world.random.randrange(100, 3 * SESSION_MS)
        self._say(f"{member.name} stands still for {ms} ms")
        member.process.pause(ms)

    def _loses_connection(self, member: SimConsumer07) -> None:
        self._say(f"{member.name} loses its connection")
        member.registry.lose_connection()

    def _lags(self, member: SimConsumer07) -> None:
        ms = self.world.random.randrange(100, 5_000)
        self._say(f"the server of {member.name} lags for {ms} ms")
        member.registry.lag(ms)

    def _expires(self, member: SimConsumer07) -> None:
        self._say(f"{member.name} stops being heard")
        ms = self.world.random.randrange(SESSION_MS, 2 * SESSION_MS)
        self._cut(member, ms)

    def _is_cut_off(self, member: SimConsumer07) -> None:
        ms = self.world.random.randrange(100, SESSION_MS)
        self._say(f"{member.name} is cut off for {ms} ms")
        self._cut(member, ms)

    def _cut(self, member: SimConsumer07, ms: int) -> None:
        both = self.world.chance(0.5)
        self.cuts.cut(member.name, REGISTRY, both=both)
        self.world.after(ms, lambda: self.cuts.heal(member.name, REGISTRY))

    def _registry_is_down(self, _: SimConsumer07) -> None:
        if not self.ensemble.is_down:
            self._say("the registry is down")
            self.ensemble.is_down = True
            self.world.after(self.world.random.randrange(100, 2 * SESSION_MS), self.ensemble.restore_quorum)

    def _broker_changes(self, _: SimConsumer07) -> None:
        """A broker goes with its partitions, or comes back with as many or more."""
        random = self.world.random
        topic, broker = random.choice(TOPICS), random.randrange(self.plan.brokers)
        path = f"{directory.TOPICS}/{topic}/{broker}"
        if self.ensemble.get(path) is None:
            self._say(f"broker {broker} comes with {topic}")
            self._register(topic, broker, random.randrange(1, 13))
        else:
            self._say(f"broker {broker} goes with {topic}")
            self.ensemble.put(Change(path, None))

    # --- peace

    def _make_peace(self) -> None:
        self._say("peace")
        self._peace = True
        self.faults.clear_up()
        self.cuts.heal_all()
        if self.ensemble.is_down:
            self.ensemble.restore_quorum()
        if not self._living():
            self._join()

    def _is_quiet(self) -> bool:
        if self.world.happened % 16:
            return False
        living = self._living()
        owned = sorted(where for member in living for where in member.group.owned)
        is_settled = len(living) == len(self.members) and all(member.is_quiet for member in living)
        return is_settled and owned == sorted(self._partitions())

    def _unsettled(self) -> str:
        owned = {where for member in self._living() for where in member.group.owned}
        free = sorted(set(self._partitions()) - owned)
        busy = [member.name for member in self.members if not member.is_quiet]
        return f"nobody owns {free[:3]} of {len(free)}; not quiet: {busy}"

    def _check_places(self) -> None:
        """What is committed was read; and all was read that there is."""
        committed = {}
        for where in self._partitions():
            partition = BrokerPartition.of(where.partition)
            entry = self.ensemble.get(f"{directory.offsets('g', where.topic)}/{partition}")
            committed[where] = 0 if entry is None else int(entry.value)
            if self.ledger.read.get(where, 0) != self.ends.get(where, 0):
                raise Violation(f"all are owned: {where} ends at {self.ends[where]}, and {self.ledger.read.get(where, 0)} was read")
        self.ledger.check_committed(committed)
