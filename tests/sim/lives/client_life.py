"""One seed of the shipped clients: programs and a broker live through trouble, then peace; then everything is checked.

Everything comes from the seed. The clients are `AsyncProducer` and `AsyncConsumer` on simulated event loops, over streams of bytes
to brokers that are the shipped ones. `client_ledger` knows what must be true.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from ottla.broker.serving.request import Peer
from ottla.client.consumer.consumer_membership import ConsumerMembership
from ottla.client.consumer.membership import Phase
from ottla.client.types import TopicPartition
from ottla.records.batches.columns import Record
from ottla.sim.event_loop import SimEventLoop
from ottla.sim.host import Host
from ottla.sim.invariants import stored_records
from ottla.sim.streams import StreamFaults, StreamNetwork
from ottla.sim.world import World
from ottla.wire.api.create_topics import CreateTopicsRequest
from tests.sim.lives.client_ledger import ClientLedger, Committed
from tests.sim.lives.client_lies import Lies, LyingServers
from tests.sim.lives.client_programs import ClientProgram, ReadingProgram, WritingProgram
from tests.sim.lives.client_runtime import in_world
from tests.sim.seeds import Violation

TOPIC, GROUP = "in", "readers"
CREATE_TOPICS = 19
LOOK_MS = 200
LATE_MS = 4_000
"""So late may a request arrive that was sent in trouble."""
PATIENCE_MS = 120_000
"""So long, in simulated time and in peace, may it take until everything is written, read and closed."""
MOST_CALLBACKS = 20_000
"""The most callbacks of one client in a second."""
SETTINGS = {
    "group.initial.rebalance.delay.ms": "200",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "3000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "auto.create.topics.enable": "false",
}
KINDS: dict[str, dict[str, Any]] = {
    "eager": {"partition_assignment_strategy": "range"},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky"},
    "mixed": {},
    "consumer": {"group_protocol": "consumer"},
}


class ClientPlan(NamedTuple):
    """What a seed is about. `kind` is how members share out partitions."""

    kind: str
    partitions: int
    writers: int
    readers: int
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
    lied: int
    done_ms: int


def plan(world: World) -> ClientPlan:
    """What a seed is about: each has its own share of bad luck."""
    random = world.random
    bad = random.choice((0.0, 0.01, 0.03))
    return ClientPlan(
        kind=random.choice(list(KINDS)),
        partitions=random.choice((1, 2, 3, 5)),
        writers=random.choice((1, 1, 2)),
        readers=random.choice((1, 2, 2, 3)),
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
        self.host = Host(self.world, SETTINGS)
        self.servers = LyingServers(self.world, self._lies)
        self.network = StreamNetwork(self.world, self._streams, self.servers.accept)
        self.network.listen("broker-1", 9092, self.host)
        self.places = [TopicPartition(TOPIC, index) for index in range(self.plan.partitions)]
        self.writers: list[WritingProgram] = []
        self.readers: list[ReadingProgram] = []
        self.programs: list[ClientProgram] = []
        self._loops: list[SimEventLoop] = []
        self._counted: dict[SimEventLoop, int] = {}
        self._second_ms = 0
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
        self._make_topics()
        for _ in range(self.plan.writers):
            self._begin_writer()
        for _ in range(self.plan.readers):
            self._begin_reader()
        self.world.after(0, self._trouble)
        self.world.after(LOOK_MS, self._look)
        self._run(self.plan.trouble_ms)
        self._make_peace()
        began_ms = self.world.now_ms
        self._await("writers end", lambda: all(each.is_done for each in self.writers))
        self._run(LATE_MS)
        unread = {(where, record.offset) for where, records in self._logs().items() for record in records}
        self._await("all are read", lambda: self._are_all_read(unread))
        for reader in self.readers:
            reader.should_end = True
        self._await("readers end", lambda: all(each.is_done for each in self.readers))
        done_ms = self.world.now_ms - began_ms
        self._run(LOOK_MS * 2)
        logs = self._logs()
        self.ledger.check_producers(logs)
        self.ledger.check_consumers(logs)
        self._raise_violation()
        ledger = self.ledger
        return ClientLifeResult(
            self.world.seed,
            self.plan,
            self.world.happened,
            sum(loop.callbacks for loop in self._loops),
            self.network.connections,
            self.host.lives,
            ledger.acknowledged,
            ledger.failed,
            len(ledger.shares),
            sum(len(share.handed) for share in ledger.shares),
            len(ledger.commits),
            self.servers.told,
            done_ms,
        )

    def _say(self, what: str) -> None:
        if self.tell:
            print(f"{self.world.now_ms / 1000:9.3f} s  {what}")

    # Running

    def _run(self, ms: int, until: Callable[[], bool] = lambda: False) -> bool:
        result = self.world.run(ms, lambda: self._is_violated() or until())
        self._raise_violation()
        return result

    def _await(self, what: str, until: Callable[[], bool]) -> None:
        if not self._run(PATIENCE_MS, until):
            raise Violation(f"progress once quiet: {what}: not in {PATIENCE_MS} ms of peace; {self._undone()}")

    def _undone(self) -> str:
        left = [each.name for each in self.programs if not each.is_done]
        return f"at work are {', '.join(left)}"

    def _raise_violation(self) -> None:
        if self.ledger.violation:
            raise Violation(self.ledger.violation)

    def _is_violated(self) -> bool:
        if self.world.now_ms >= self._second_ms + 1_000:
            self._second_ms = self.world.now_ms
            self._counted = {loop: loop.callbacks for loop in self._loops}
        for loop in self._loops:
            if loop.callbacks - self._counted.get(loop, 0) > MOST_CALLBACKS:
                self.ledger.violate("no busy loop", f"a client took more than {MOST_CALLBACKS} steps in a second")
        return bool(self.ledger.violation)

    def _logs(self) -> dict[TopicPartition, list[Record]]:
        partitions = self.host.partitions()
        return {where: stored_records(partitions[where].log) for where in self.places}

    # Programs

    def _make_topics(self) -> None:
        topic = CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=self.plan.partitions, replication_factor=1)
        peer = Peer(1, "10.0.0.1", 40_000, "broker-1", 9092)
        self.host.receive(CREATE_TOPICS, 7, CreateTopicsRequest(topics=[topic]), peer, lambda answer: None)
        self.world.run(1_000)
        assert self.host.partitions().keys() >= set(self.places)

    def _loop(self) -> SimEventLoop:
        loop = SimEventLoop(self.world, self.network, self._on_error)
        self._loops.append(loop)
        return loop

    def _on_error(self, context: dict[str, Any]) -> None:
        self.ledger.violate("nothing unexpected", f"{context.get('message')}: {context.get('exception')!r}")

    def _begin_writer(self) -> None:
        random = self.world.random
        acks = "1" if not self.plan.power and random.random() < 0.2 else "all"
        settings = {
            "acks": acks,
            "enable_idempotence": acks == "all" and random.random() < 0.8,
            "linger_ms": random.choice((0, 5, 100)),
            "batch_size": random.choice((100, 1_000, 262_144)),
            "buffer_memory": random.choice((500, 10_000, 67_108_864)),
            "max_block_ms": random.choice((200, 5_000)),
            "compression_type": random.choice(("none", "none", "gzip")),
            "delivery_timeout_ms": random.choice((3_000, 10_000, 60_000)),
            "max_in_flight_requests_per_connection": random.choice((1, 5)),
        }
        name = f"writer-{len(self.writers)}"
        rest_ms = random.choice((10, 100, 1_000))
        writer = WritingProgram(self.world, self._loop(), self.ledger, name, TOPIC, settings, rest_ms)
        self.writers.append(writer)
        self._start(writer)

    def _begin_reader(self) -> None:
        random = self.world.random
        settings = {
            "enable_auto_commit": random.random() < 0.5,
            "auto_commit_interval_ms": random.choice((100, 1_000, 5_000)),
            "max_poll_records": random.choice((1, 10, 500)),
            "max_poll_interval_ms": random.choice((2_000, 10_000)),
            "fetch_max_wait_ms": random.choice((50, 500)),
            "max_partition_fetch_bytes": random.choice((200, 1_048_576)),
            **KINDS[self.plan.kind],
        }
        if self.plan.kind != "consumer":
            settings |= {"session_timeout_ms": 3_000, "heartbeat_interval_ms": 500}
        name = f"reader-{len(self.readers)}"
        slow_ms = random.choice((10, 300, 3_000))
        reader = ReadingProgram(self.world, self._loop(), self.ledger, name, TOPIC, GROUP, settings, self._check_owners, slow_ms)
        self.readers.append(reader)
        self._start(reader)

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
            (2, self._broker_dies), (1, self._broker_stops), (2, self._reader_dies), (2, self._client_stands_still),
            (2, self._network_is_silent), (1, self._reader_comes),
        ]  # fmt: skip
        random.choices([act for _, act in acts], [weight for weight, _ in acts])[0]()

    def _broker_dies(self) -> None:
        if self.host.broker is not None:
            power_cut = self.plan.power and self.world.chance(0.6)
            self._say(f"the broker dies{' of a power cut' if power_cut else ''}")
            self.host.die(power_cut=power_cut)
            self._start_broker_later()

    def _broker_stops(self) -> None:
        if self.host.broker is not None:
            self._say("the broker stops")
            self.host.stop()
            self._start_broker_later()

    def _start_broker_later(self) -> None:
        self.world.after(self.world.random.choice((50, 500, 3_000)), self._start_broker)

    def _start_broker(self) -> None:
        if self.host.broker is None:
            self._say("the broker starts")
            self.host.start()

    def _reader_dies(self) -> None:
        alive = [reader for reader in self.readers if reader.alive]
        if alive:
            reader = self.world.random.choice(alive)
            self._say(f"{reader.name} dies")
            reader.kill()
            self.world.after(self.world.random.choice((0, 1_000)), self._begin_reader)

    def _reader_comes(self) -> None:
        if not self._is_over and len([reader for reader in self.readers if reader.alive]) < 4:
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
        self._start_broker()
        if not any(reader.alive for reader in self.readers):
            self._begin_reader()
        for reader in self.readers:
            reader.slow_ms = 10
        for writer in self.writers:
            writer.should_end = True

    def _are_all_read(self, unread: set[tuple[TopicPartition, int]]) -> bool:
        if self.world.happened % 50 == 0:
            unread.difference_update((share.where, handed.offset) for share in self.ledger.shares for handed in share.handed)
        return not unread

    # What is looked at

    def _look(self) -> None:
        self.world.after(LOOK_MS, self._look)
        for machine in self.host.coordinators():
            for topic, partitions in machine.offsets.of(GROUP).items():
                for partition, found in partitions.items():
                    self.ledger.committed(Committed(GROUP, TopicPartition(topic, partition), found.offset, self.world.happened))

    def _check_owners(self, reader: ReadingProgram, partitions: list[TopicPartition]) -> None:
        """Check that no other member that the coordinator knows reads partitions that a member begins to read."""
        for other in self.readers:
            both = other.held.keys() & set(partitions)
            if other is not reader and other.alive and both and self._is_known(other) and self._is_known(reader):
                self.ledger.violate("one owner", f"{sorted(both)} are read by {other.name} and {reader.name}")

    def _is_known(self, reader: ReadingProgram) -> bool:
        machine = reader.machine
        for coordinator in self.host.coordinators():
            group = coordinator.context.find(GROUP)
            if group is None or machine.member_id not in group.members:
                continue
            if isinstance(machine, ConsumerMembership):
                return machine.is_stable
            return machine.phase is Phase.STABLE and machine.generation_id == coordinator.classic.groups[GROUP].generation
        return False
