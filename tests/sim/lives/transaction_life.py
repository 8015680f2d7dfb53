"""One seed of transactions: producers, their zombies and a broker live through trouble, then peace; then everything is checked.

Everything comes from the seed. Knows how bad it gets and when all must be done; `transaction_ledger` knows what must always be
true, and `transaction_programs` who writes and who reads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, NamedTuple

from ottla.client.types import TopicPartition
from ottla.sim.disk import IO_ERROR, NO_SPACE
from ottla.sim.host import Host
from ottla.sim.network import ClientLink, NetworkFaults
from ottla.sim.world import World
from ottla.wire.api.create_topics import CreateTopicsRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from tests.sim.lives.small_journals import journal_alignment, journal_settings
from tests.sim.lives.transaction_ledger import TransactionLedger
from tests.sim.lives.transaction_operator import SimOperator
from tests.sim.lives.transaction_programs import PRODUCE, PRODUCE_VERSION, TIMEOUTS_MS, TOPICS, SimPrograms, source_batches
from tests.sim.seeds import Violation

FIND_COORDINATOR, CREATE_TOPICS = 10, 19
GROUP_KEY, TRANSACTION_KEY = 0, 1
PROTOCOLS = ("older", "newer", "both")
LOOK_MS = 250
INTERVAL_MS = 1_000
SESSION_MS = 3_000
PATIENCE_MS = 240_000
"""So long, in simulated time and in peace, may it take until all is copied: the longest timeouts pass several times."""
SETTINGS = {
    "transaction.state.log.num.partitions": "3",
    "transaction.two.phase.commit.enable": "true",
    "group.min.session.timeout.ms": str(SESSION_MS),
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(INTERVAL_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
}
EXPIRY = {"transactional.id.expiration.ms": "8000", "transaction.remove.expired.transaction.cleanup.interval.ms": "2000"}
COMPACTION = {
    "log.cleaner.backoff.ms": "300",
    "log.cleaner.max.compaction.lag.ms": "1000",
    "log.cleaner.delete.retention.ms": "2000",
    "log.cleaner.min.cleanable.ratio": "0.01",
}
JUMPS_MS = (-20_000, -5_000, 5_000, 60_000, 3_600_000)
"""What time servers and operators do. Back only a little: what is open by the wall clock stays open for longer."""
BRIEF = TopicPartition("brief", 0)
"""Of a topic from which things are deleted."""


class TransactionPlan(NamedTuple):
    """What a seed is about.

    `forgets`: transactional ids expire soon. `by_group`: those who copy are members of a group, of the protocols that `members`
    names. `prepares`: writers have outside coordinators. `compacts`: internal topics are compacted all the time. `faults`: the
    disk fails. `jumps`: the clock does. `levels`: transaction.version changes. `deletes`: writers also write where an operator
    deletes.
    """

    copiers: int
    writers: int
    partitions: int
    records: int
    trouble_ms: int
    protocol: str
    forgets: bool
    by_group: bool
    link_faults: NetworkFaults
    members: str
    prepares: bool
    compacts: bool
    faults: bool
    jumps: bool
    levels: bool
    deletes: bool


class TransactionLifeResult(NamedTuple):
    """The result of a seed."""

    seed: int
    plan: TransactionPlan
    happened: int
    processes: int
    transactions: int
    commits: int
    lives: int
    done_ms: int
    faults: int
    compacted: int


class TransactionLife:
    """One seed."""

    def __init__(self, seed: int, *, protocol: str | None = None, tell: bool = False) -> None:
        self.world = World(seed)
        self.tell = tell
        self.plan = plan(self.world, protocol)
        settings = SETTINGS | (EXPIRY if self.plan.forgets else {}) | (COMPACTION if self.plan.compacts else {})
        self.host = Host(self.world, settings | journal_settings(seed), room_alignment=journal_alignment(seed))
        self.host.slow_syncs = self.world.random.choice((0.1, 0.5, 0.9))
        self.ledger = TransactionLedger(self.host, INTERVAL_MS)
        self._links = 0
        self._peace = False
        self._faults_before = 0
        self.operator = SimOperator(self.world, self.host, partial(self._link, self.plan.link_faults), BRIEF, self._say)
        self._make_topics()
        self.programs = SimPrograms(
            self.world,
            partial(self._link, self.plan.link_faults),
            self.ledger,
            self.plan,
            self._ids,
            self._say,
            brief=BRIEF if self.plan.deletes else None,
            has_read=self._somebody_has_read,
        )

    def live(self) -> TransactionLifeResult:
        """Live through trouble, then peace. Raises `Violation`."""
        self.programs.begin_all()
        self.world.after(0, self._trouble)
        self.world.after(LOOK_MS, self._look)
        self.world.run(self.plan.trouble_ms)
        self._make_peace()
        began_ms = self.world.now_ms
        if not self.world.run(PATIENCE_MS, self._is_done):
            raise Violation(f"soon done: not in {PATIENCE_MS} ms of peace: {', '.join(self.programs.undone(self.host))}")
        done_ms = self.world.now_ms - began_ms
        self.world.run(max(TIMEOUTS_MS) + 2 * INTERVAL_MS)
        if self.world.chance(0.5):
            self._say("the power fails once more")
            self.host.die(power_cut=True)
            self._broker_starts()
            self.world.run(5_000)
        self._check_all()
        ledger = self.ledger
        return TransactionLifeResult(
            self.world.seed,
            self.plan,
            self.world.happened,
            self.programs.began,
            len(ledger.transactions),
            ledger.commits,
            self.host.lives,
            done_ms,
            self.host.disk.faults,
            self._compacted(),
        )

    def _say(self, what: str) -> None:
        if self.tell:
            print(f"{self.world.now_ms / 1000:9.3f} s  {what}")

    def _link(self, link_faults: NetworkFaults) -> ClientLink:
        self._links += 1
        return ClientLink(self.world, self.host, link_faults, self._links)

    # Before it begins

    def _make_topics(self) -> None:
        """Make the topics, those of the coordinators, and what there is to copy."""
        admin = self._link(NetworkFaults())

        def ask(key: int, version: int, body: Any) -> None:
            admin.request(key, version, body, lambda response: None, 60_000)

        topic = CreateTopicsRequest.CreatableTopic
        topics = [topic(name=name, num_partitions=self.plan.partitions, replication_factor=1) for name in TOPICS]
        topics.append(topic(name=BRIEF.topic, num_partitions=1, replication_factor=1))
        ask(CREATE_TOPICS, 7, CreateTopicsRequest(topics=topics))
        self.world.run(100)
        for kind in (GROUP_KEY, TRANSACTION_KEY):
            ask(FIND_COORDINATOR, 1, FindCoordinatorRequest(key="any", key_type=kind))
        for body in source_batches(self.plan, self.world.clock.now().wall_ms):
            ask(PRODUCE, PRODUCE_VERSION, body)
        self.world.run(2_000)
        assert self.host.broker is not None, "there is no trouble yet"
        self._ids = {name: topic.topic_id for name, topic in self.host.broker.image.topics.items()}

    # Processes

    def _trouble(self) -> None:
        """Make trouble."""
        if self._peace:
            return
        programs = self.programs
        acts: list[tuple[float, Callable[[], None]]] = [
            (3, programs.somebody_dies), (4, programs.somebody_stands_still), (4, programs.somebody_is_replaced),
            (2, self._broker_dies), (2, self._power_fails_soon),
        ]  # fmt: skip
        if self.plan.faults:
            acts.append((4, self._disk_fails))
        if self.plan.jumps:
            acts.append((2, self._clock_jumps))
        if self.plan.levels:
            acts.append((3, self.operator.change_level))
        if self.plan.deletes:
            acts += [(3, self.operator.delete_topic), (6, self.operator.delete_records)]
        self.world.random.choices([act for _, act in acts], [weight for weight, _ in acts])[0]()
        self.world.after(self.world.random.randrange(200, 2_500), self._trouble)

    def _broker_dies(self) -> None:
        if self.host.broker is not None:
            power_cut = self.world.chance(0.7)
            self._say(f"the broker dies{' of a power cut' if power_cut else ''}")
            self.host.die(power_cut=power_cut)

    def _power_fails_soon(self) -> None:
        """Let the broker die in the middle of something: before one of the next operations of its disk."""
        self.host.cuts_power = self.world.chance(0.7)
        self.host.disk.cut_soon(40, self.world.random)

    def _disk_fails(self) -> None:
        """Let the disk fail once or for a while. The broker is started again then, as its log asks for."""
        random, disk = self.world.random, self.host.disk
        reason = random.choice((IO_ERROR, NO_SPACE))
        self._say(f"the disk fails: {reason}")
        disk.fail(random.randrange(30), reason, count=random.choice((1, 1, 3, 50)))
        self.world.after(random.choice((300, 1_000, 3_000)), self._disk_is_well)

    def _disk_is_well(self) -> None:
        self.host.disk.heal()
        if self._is_ill and self.host.broker is not None:
            self._say("the disk is well again")
            self.host.die(power_cut=self.world.chance(0.5))

    @property
    def _is_ill(self) -> bool:
        """Whether the disk failed in this life of the broker: partitions may be offline."""
        return self.host.disk.faults > self._faults_before

    def _clock_jumps(self) -> None:
        ms = self.world.random.choice(JUMPS_MS)
        self._say(f"the clock jumps by {ms} ms")
        self.world.clock.jump(ms)
        self.ledger.clock_jumped()

    def _somebody_has_read(self) -> None:
        """Let the power fail now and then when somebody has read what may not be on stable storage yet."""
        if not self._peace and self.host.broker is not None and self.world.chance(0.02):
            self._say("somebody has read, and the power fails")
            self.host.die(power_cut=True)

    def _broker_starts(self) -> None:
        self._say("the broker starts")
        self.host.disk.heal()
        self._faults_before = self.host.disk.faults
        self.host.start()
        self.ledger.broker_started()

    def _look(self) -> None:
        if self.host.broker is None and self.world.chance(0.3 if not self._peace else 1):
            self._broker_starts()
        self.programs.mind()
        if not self._is_ill:
            self._look_at_partitions()
            self.ledger.look()
        self.world.after(LOOK_MS, self._look)

    def _look_at_partitions(self) -> None:
        broker = self.host.broker
        offline = [] if broker is None else [f"{each} ({each.offline})" for each in broker.partitions if each.offline is not None]
        if offline:
            raise Violation(f"partitions stay online: {', '.join(offline)}")

    def _make_peace(self) -> None:
        """Stop all trouble. Zombies go on until they are told; whatever is in flight arrives some time."""
        self._say("peace")
        self._peace = True
        self.plan.link_faults.clear_up()
        self.host.slow_syncs = 0.1
        self.host.disk.cut_at = -1
        self._disk_is_well()
        if self.host.broker is None:
            self._broker_starts()
        self.programs.go_on()
        self.world.run(self.plan.link_faults.longest_ms)

    # In the end

    def _is_done(self) -> bool:
        return self.world.happened % 20 == 0 and not self.programs.undone(self.host)

    def _compacted(self) -> int:
        """How many offsets of internal topics were compacted."""
        broker = self.host.broker
        internal = [] if broker is None else [each for each in broker.partitions if each.topic.startswith("__")]
        return 0 if broker is None else sum(broker.cleaner.cleaned_offset(each) for each in internal)

    def _check_all(self) -> None:
        self._look_at_partitions()
        self.ledger.look()
        self.programs.check(lambda: self._link(NetworkFaults()))


def plan(world: World, protocol: str | None = None) -> TransactionPlan:
    """Decide what the seed is about."""
    random = world.random
    link_faults = NetworkFaults(
        lose_request=random.choice((0, 0.01, 0.05)),
        lose_answer=random.choice((0, 0.01, 0.05)),
        repeat=random.choice((0, 0.03, 0.15)),
        delay=random.choice((0, 0.05, 0.2)),
        least_ms=random.choice((1, 5, 20)),
    )
    more = Random(world.seed)
    by_group = random.random() < 0.4
    copiers, writers, partitions = random.randrange(1, 3), random.randrange(1, 4), random.randrange(1, 4)
    return TransactionPlan(
        copiers=copiers + 1 if by_group else min(copiers, partitions),
        writers=writers,
        partitions=partitions + by_group,
        records=random.randrange(4, 20),
        trouble_ms=random.randrange(10_000, 30_000),
        protocol=protocol or random.choice(PROTOCOLS),
        forgets=random.random() < 0.2,
        by_group=by_group,
        link_faults=link_faults,
        members=more.choice(("consumer", "classic", "both")),
        prepares=more.random() < 0.3,
        compacts=more.random() < 0.5,
        faults=more.random() < 0.25,
        jumps=more.random() < 0.25,
        levels=more.random() < 0.25,
        deletes=more.random() < 0.3,
    )
