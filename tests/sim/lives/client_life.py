"""One simulated run of the shipped clients and brokers: a time with faults, then a time without, then all checks.

The seed decides everything. `AsyncProducer` and `AsyncConsumer` run on simulated event loops, over simulated streams to the shipped
brokers. `client_ledger` has the checks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

from ottla.client.consumer.consumer_membership import ConsumerMembership
from ottla.client.consumer.membership import Phase
from ottla.client.types import TopicPartition
from ottla.sim.event_loop import SimEventLoop
from ottla.sim.streams import StreamFaults, StreamNetwork
from ottla.sim.world import World
from tests.sim.lives.client_brokers import Brokers, OneBroker, ThreeBrokers
from tests.sim.lives.client_ledger import OPEN, ClientLedger, Committed
from tests.sim.lives.client_lies import Lies, LyingServers
from tests.sim.lives.client_programs import ClientProgram, Member, ProgramPlace, ReadingProgram, Source, WritingProgram
from tests.sim.lives.client_runtime import in_world
from tests.sim.lives.client_transactions import CopyingProgram, TransactionProgram
from tests.sim.seeds import Violation

TOPIC, COPY = "in", "out"
READERS, COPIERS = "readers", "copiers"
LOOK_MS = 200
LATE_MS = 1_000
"""The time, in ms, that programs get to end beside the longest delay of a request that was sent during the faults."""
PATIENCE_MS = 60_000
"""The longest simulated time, in ms after the faults, without a read or a commit while something is left to do."""
CLUSTER_EACH = 12
"""Every twelfth seed has three brokers."""
TRANSACTION_MS = 10_000
MOST_OPEN_MS = TRANSACTION_MS + 2_000
"""The time, in ms, after which coordinators have ended the transactions of producers that are gone."""
MOST_CALLBACKS = 20_000
"""The maximum number of event loop callbacks of one client in a second."""
COUNT_EACH = 500
"""The maximum number of events between two looks at these numbers."""
KINDS: dict[str, dict[str, Any]] = {
    "eager": {"partition_assignment_strategy": "range"},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky"},
    "mixed": {},
    "consumer": {"group_protocol": "consumer"},
}


class ClientPlan(NamedTuple):
    """The clients, brokers and faults of one seed. `kind` is the assignment protocol of the group, a key of `KINDS`."""

    kind: str
    brokers: int
    partitions: int
    writers: int
    transactors: int
    readers: int
    copiers: int
    trouble_ms: int
    power: bool
    streams: StreamFaults
    lies: Lies


class ClientLifeResult(NamedTuple):
    """The result of a seed."""

    seed: int
    plan: ClientPlan
    happened: int
    callbacks: int
    connections: int
    lives: int
    acknowledged: int
    failed: int
    shares: int
    handed: int
    commits: int
    transactions: int
    lied: int
    done_ms: int


def plan(world: World) -> ClientPlan:
    """Return the clients, brokers and faults of the world's seed."""
    random = world.random
    bad = random.choice((0.0, 0.01, 0.03))
    has_transactions = Random(f"transactions {world.seed}").random() < 0.35
    return ClientPlan(
        kind=random.choice(list(KINDS)),
        brokers=3 if world.seed % CLUSTER_EACH == CLUSTER_EACH - 1 else 1,
        partitions=random.choice((1, 2, 3, 5)),
        writers=random.choice((1, 1, 2)),
        transactors=random.choice((0, 1)) if has_transactions else 0,
        readers=random.choice((1, 2, 2, 3)),
        copiers=random.choice((1, 2, 2)) if has_transactions else 0,
        trouble_ms=random.choice((5_000, 10_000, 20_000)),
        power=random.random() < 0.5,
        streams=StreamFaults(
            longest_ms=random.choice((50, 500, 3_000)),
            delay=random.choice((0.0, 0.05, 0.2)),
            lose=bad,
            silence=bad / 4,
            refuse=random.choice((0.0, 0.1)),
            split=random.choice((0.0, 0.2)),
            window_bytes=random.choice((64, 1_000, 65_536, 65_536)),
        ),
        lies=Lies(error=random.choice((0.0, 0.0, 0.02, 0.1)), stale=random.choice((0.0, 0.0, 0.1))),
    )


class ClientLife:
    """One seed."""

    def __init__(self, seed: int, *, tell: bool = False) -> None:
        self.world = World(seed)
        self.tell = tell
        self.plan = plan(self.world)
        self._streams, self._lies = replace(self.plan.streams), replace(self.plan.lies)
        self.ledger = ClientLedger()
        self.servers = LyingServers(self.world, self._lies)
        self.network = StreamNetwork(self.world, self._streams, self.servers.accept)
        self.brokers: Brokers
        if self.plan.brokers == 1:
            self.brokers = OneBroker(self.world, self.network, power=self.plan.power, say=self._say, on_lost=self.ledger.lose)
        else:
            self.brokers = ThreeBrokers(self.world, self.network, say=self._say)
        self.topics = [TOPIC, COPY] if self.plan.copiers else [TOPIC]
        self.programs: list[ClientProgram] = []
        self.members: list[Member] = []
        self._names = 0
        self._loops: list[SimEventLoop] = []
        self._counted: dict[SimEventLoop, int] = {}
        self._second_ms = 0
        self._count_at = 0
        self._asks_ms = 0
        self._is_over = False

    def live(self) -> ClientLifeResult:
        """Live through trouble, then peace. Raises `Violation`."""
        with in_world(self.world):
            try:
                return self._live()
            finally:
                for loop in self._loops:
                    loop.clear()

    def _live(self) -> ClientLifeResult:
        plan = self.plan
        self.brokers.make_topics(dict.fromkeys(self.topics, plan.partitions))
        for begin, count in (
            (self._begin_writer, plan.writers),
            (self._begin_transactor, plan.transactors),
            (self._begin_reader, plan.readers),
            (self._begin_copier, plan.copiers),
        ):
            for _ in range(count):
                begin()
        self.world.after(0, self._trouble)
        self.world.after(LOOK_MS, self._look)
        self._run(plan.trouble_ms)
        self._make_peace()
        began_ms = self.world.now_ms
        self._await("brokers are well", self.brokers.is_well)
        self._end((WritingProgram, TransactionProgram))
        self._run(plan.streams.longest_ms + LATE_MS)
        self._await("brokers are well", self.brokers.is_well)
        self._await("all are read", self._are_all_read)
        self._end((ReadingProgram, CopyingProgram))
        self._run(plan.streams.longest_ms + LATE_MS)
        done_ms = self.world.now_ms - began_ms
        self._await("brokers are well", self.brokers.is_well)
        self._run(MOST_OPEN_MS, self._have_transactions_ended)
        self._check()
        ledger = self.ledger
        return ClientLifeResult(
            self.world.seed,
            plan,
            self.world.happened,
            sum(loop.callbacks for loop in self._loops),
            self.network.connections,
            self.brokers.lives,
            ledger.acknowledged,
            ledger.failed,
            len(ledger.shares),
            sum(len(share.handed) for share in ledger.shares),
            len(ledger.commits),
            len(ledger.transactions),
            self.servers.told,
            done_ms,
        )

    def _check(self) -> None:
        logs = self.brokers.logs(self._places(*self.topics))
        self.ledger.check_producers(logs)
        self.ledger.check_transactions(logs)
        self.ledger.check_consumers(logs)
        if self.plan.copiers:
            for source, copy in zip(self._places(TOPIC), self._places(COPY), strict=True):
                self.ledger.check_copies(logs[source], logs[copy], self.ledger.lost_reads(COPIERS, source))
        self._raise_violation()

    def _places(self, *topics: str) -> list[TopicPartition]:
        return [TopicPartition(topic, index) for topic in topics for index in range(self.plan.partitions)]

    def _end(self, kinds: tuple[type[ClientProgram], ...]) -> None:
        ending = [program for program in self.programs if isinstance(program, kinds)]
        for program in ending:
            program.should_end = True
        self._await(f"{kinds[0].__name__} end", lambda: all(each.is_done for each in ending))

    def _say(self, what: str) -> None:
        if self.tell:
            print(f"{self.world.now_ms / 1000:9.3f} s  {what}")

    # Running

    def _run(self, ms: int, until: Callable[[], bool] = lambda: False) -> bool:
        result = self.world.run(ms, lambda: self._is_violated() or until())
        self._raise_violation()
        return result

    def _await(self, what: str, until: Callable[[], bool]) -> None:
        """Wait as long as records are read and offsets are committed in each `PATIENCE_MS`."""
        so_far = None
        while so_far != (so_far := self._read_so_far()):
            if self._run(PATIENCE_MS, until):
                return
        if self.brokers.is_well():  # perhaps something else is the reason
            logs = self.brokers.logs(self._places(*self.topics))
            self.ledger.check_transactions(logs, is_over=False)
            self.ledger.check_consumers(logs, is_over=False)
            self._raise_violation()
        raise Violation(f"progress once quiet: {what}: not in {PATIENCE_MS} ms of peace; {self._undone()}")

    def _read_so_far(self) -> tuple[int, int]:
        return sum(map(len, self.ledger.seen.values())), len(self.ledger.commits)

    def _undone(self) -> str:
        left = [each.name for each in self.programs if not each.is_done]
        return f"at work are {', '.join(left)}"

    def _raise_violation(self) -> None:
        if self.ledger.violation:
            raise Violation(self.ledger.violation)

    def _is_violated(self) -> bool:
        if self.world.happened >= self._count_at or self.world.now_ms >= self._second_ms + 1_000:
            self._count_callbacks()
        return bool(self.ledger.violation)

    def _count_callbacks(self) -> None:
        """Look for busy loops, at least once in a second and once in `COUNT_EACH` events."""
        self._count_at = self.world.happened + COUNT_EACH
        for loop in self._loops:
            if loop.callbacks - self._counted.get(loop, 0) > MOST_CALLBACKS:
                self.ledger.violate("no busy loop", f"a client took more than {MOST_CALLBACKS} steps in a second")
        if self.world.now_ms >= self._second_ms + 1_000:
            self._second_ms = self.world.now_ms
            self._counted = {loop: loop.callbacks for loop in self._loops}

    # Programs

    def _loop(self) -> SimEventLoop:
        loop = SimEventLoop(self.world, self.network, self._on_error)
        self._loops.append(loop)
        return loop

    def _on_error(self, context: dict[str, Any]) -> None:
        self.ledger.violate("nothing unexpected", f"{context.get('message')}: {context.get('exception')!r}")

    def _place(self) -> ProgramPlace:
        return ProgramPlace(self.world, self._loop(), self.ledger, self.brokers.BOOTSTRAP)

    def _name(self, what: str) -> str:
        self._names += 1
        return f"{what}-{self._names}"

    def _writer_settings(self) -> dict[str, Any]:
        random = self.world.random
        return {
            "linger_ms": random.choice((0, 5, 100)),
            "batch_size": random.choice((100, 1_000, 262_144)),
            "buffer_memory": random.choice((500, 10_000, 67_108_864)),
            "max_block_ms": random.choice((200, 5_000)),
            "compression_type": random.choice(("none", "none", "gzip")),
            "delivery_timeout_ms": random.choice((3_000, 10_000, 60_000)),
            "max_in_flight_requests_per_connection": random.choice((1, 5)),
        }

    def _begin_writer(self) -> None:
        random = self.world.random
        acks = "1" if self.plan.brokers == 1 and not self.plan.power and random.random() < 0.2 else "all"
        settings = self._writer_settings() | {"acks": acks, "enable_idempotence": acks == "all" and random.random() < 0.8}
        rest_ms = random.choice((10, 100, 1_000))
        self._start(WritingProgram(self._place(), self._name("writer"), settings, TOPIC, rest_ms))

    def _begin_transactor(self, transactional_id: str | None = None) -> None:
        name = self._name("transactor")
        settings = self._transaction_settings(transactional_id or name)
        self._start(TransactionProgram(self._place(), name, settings, TOPIC, self.plan.partitions))

    def _transaction_settings(self, transactional_id: str) -> dict[str, Any]:
        return self._writer_settings() | {
            "transactional_id": transactional_id,
            "transaction_timeout_ms": TRANSACTION_MS,
            "max_block_ms": 5_000,
        }

    def _reader_settings(self) -> dict[str, Any]:
        random = self.world.random
        settings = {
            "max_poll_records": random.choice((1, 10, 500)),
            "max_poll_interval_ms": random.choice((2_000, 10_000)),
            "fetch_max_wait_ms": random.choice((50, 500)),
            "max_partition_fetch_bytes": random.choice((200, 1_048_576)),
            **KINDS[self.plan.kind],
        }
        if self.plan.kind != "consumer":
            settings |= {"session_timeout_ms": 3_000, "heartbeat_interval_ms": 500}
        return settings

    def _begin_reader(self) -> None:
        random = self.world.random
        isolation = "read_committed" if self.plan.transactors else "read_uncommitted"
        settings = self._reader_settings() | {
            "enable_auto_commit": random.random() < 0.5,
            "auto_commit_interval_ms": random.choice((100, 1_000, 5_000)),
            "isolation_level": isolation,
        }
        slow_ms = random.choice((10, 300, 3_000))
        reader = ReadingProgram(self._place(), self._name("reader"), settings, Source(TOPIC, READERS), slow_ms)
        self._join(reader.member)
        self._start(reader)

    def _begin_copier(self, transactional_id: str | None = None) -> None:
        name = self._name("copier")
        own = {"max_poll_records": self.world.random.choice((1, 10)), "enable_auto_commit": False}
        reads = self._reader_settings() | own | {"isolation_level": "read_committed"}
        settings = self._transaction_settings(transactional_id or name)
        copier = CopyingProgram(self._place(), name, settings, reads, Source(TOPIC, COPIERS), COPY)
        self._join(copier.member)
        self._start(copier)

    def _join(self, member: Member) -> None:
        self.members.append(member)
        member.on_taken = self._check_owners

    def _start(self, program: ClientProgram) -> None:
        self._say(f"{program.name} begins")
        self.programs.append(program)
        program.begin()

    # Trouble

    def _trouble(self) -> None:
        if self._is_over:
            return
        random = self.world.random
        self.world.after(random.randrange(200, 4_000), self._trouble)
        acts: list[tuple[float, Callable[[], None]]] = [
            *self.brokers.acts(), (2, self._client_dies), (2, self._client_stands_still), (2, self._network_is_silent),
            (1, self._reader_comes),
        ]  # fmt: skip
        random.choices([act for _, act in acts], [weight for weight, _ in acts])[0]()

    def _client_dies(self) -> None:
        """Kill a client, and start another one in its place. Writers without transactions may still be writing then."""
        begins = {
            ReadingProgram: self._begin_reader,
            CopyingProgram: self._begin_copier,
            TransactionProgram: self._begin_transactor,
        }
        alive = [program for program in self.programs if program.alive and type(program) in begins]
        if not alive:
            return
        program = self.world.random.choice(alive)
        self._say(f"{program.name} dies")
        program.kill()
        begin = begins[type(program)]
        self.world.after(self.world.random.choice((0, 1_000)), lambda: None if self._is_over else begin())

    def _reader_comes(self) -> None:
        if len([program for program in self.programs if isinstance(program, ReadingProgram) and program.alive]) < 4:
            self._begin_reader()

    def _client_stands_still(self) -> None:
        alive = [program for program in self.programs if program.alive]
        if alive:
            program, ms = self.world.random.choice(alive), self.world.random.choice((100, 1_000, 5_000))
            self._say(f"{program.name} stands still for {ms} ms")
            program.loop.pause(ms)

    def _network_is_silent(self) -> None:
        self._say("all connections are silent")
        self.network.silence_all()

    # Peace

    def _make_peace(self) -> None:
        self._is_over = True
        self._say("peace")
        self._streams.clear_up()
        self._lies.clear_up()
        self.brokers.make_peace()
        alive = [type(program) for program in self.programs if program.alive]
        if ReadingProgram not in alive:
            self._begin_reader()
        if self.plan.copiers and CopyingProgram not in alive:
            self._begin_copier()
        for program in self.programs:
            if isinstance(program, ReadingProgram):
                program.slow_ms = 10

    def _are_all_read(self) -> bool:
        """Return whether the offsets of all groups are at the ends of their partitions, or all records were handed out."""
        if self.world.now_ms < self._asks_ms or not self.brokers.is_well():
            return False
        self._asks_ms = self.world.now_ms + 5 * LOOK_MS
        wanted = self._readable(TOPIC)
        if any(wanted - self.ledger.seen.get(group_id, set()) for group_id in self._groups()):
            return False
        return not self.plan.copiers or len(self._readable(COPY)) >= len(wanted)

    def _have_transactions_ended(self) -> bool:
        if self.world.now_ms < self._asks_ms or not self.brokers.is_well():
            return False
        self._asks_ms = self.world.now_ms + LOOK_MS
        logs = self.brokers.logs(self._places(*self.topics))
        return not any(record.fate == OPEN for records in logs.values() for record in records)

    def _groups(self) -> tuple[str, ...]:
        return (READERS, COPIERS) if self.plan.copiers else (READERS,)

    def _readable(self, topic: str) -> set[tuple[TopicPartition, int]]:
        logs = self.brokers.logs(self._places(topic))
        return {(where, record.offset) for where, records in logs.items() for record in records if record.is_readable}

    # What is looked at

    def _look(self) -> None:
        self.world.after(LOOK_MS, self._look)
        for machine in self.brokers.coordinators():
            for group_id in self._groups():
                for topic, partitions in machine.offsets.of(group_id).items():
                    for partition, found in partitions.items():
                        where = TopicPartition(topic, partition)
                        self.ledger.committed(Committed(group_id, where, found.offset, self.world.happened))

    def _check_owners(self, member: Member, partitions: list[TopicPartition]) -> None:
        """Check that no other member that the coordinator knows reads partitions that a member begins to read."""
        for other in self.members:
            both = other.held.keys() & set(partitions) if other.group_id == member.group_id else set()
            if other is not member and other.alive and both and self._is_known(other) and self._is_known(member):
                self.ledger.violate("one owner", f"{sorted(both)} are read by {other.name} and {member.name}")

    def _is_known(self, member: Member) -> bool:
        machine = member.machine
        for coordinator in self.brokers.coordinators():
            group = coordinator.context.find(member.group_id)
            if group is None or machine.member_id not in group.members:
                continue
            if isinstance(machine, ConsumerMembership):
                return machine.is_stable
            classic = coordinator.classic.groups.get(member.group_id)
            if self.plan.kind == "eager":  # who has joined again reads nothing
                return True
            return machine.phase is Phase.STABLE and classic is not None and machine.generation_id == classic.generation
        return False
