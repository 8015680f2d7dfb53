"""Brokers of a cluster as machines beside each other, where a test plays the controller: it says who leads what, and all hear it.

Each partition has one replica, and a broker's links lead straight into the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ottla.broker.broker import BrokerMachine
from ottla.broker.membership.membership import NotAMember
from ottla.broker.replication.replica import Replica
from ottla.broker.security.rights import ITSELF
from ottla.broker.serving.purgatory import DelayedReply
from ottla.broker.serving.request import Close
from ottla.broker.serving.routes import Route
from ottla.broker.settings import Listener
from ottla.cluster import layout
from ottla.cluster.metadata import ClusterPorts
from ottla.cluster.registry_entries import apply_entry
from ottla.cluster.replicas.partition_state import Assigned
from ottla.log.log import LogConfig
from ottla.ports import BrokerLink, Buffer, Now
from ottla.sim.ensemble import SimEnsemble
from ottla.sim.process import SimProcess
from ottla.sim.shared_registry import SimSharedRegistry
from ottla.sim.world import World
from tests.support.broker_entry import broker_json
from tests.support.machine import Machine

CONTROLLER = 1
DELAY_MS = 1
CONTROLLERS = (4, 5, 6)
"""The APIs by which a controller tells others what they are."""
FrameAnswered = Callable[[memoryview | None], None]


class Street:
    """Brokers 1 to `count`, and what happens between them. The first is the controller; requests to those in `cut` are lost.

    They serve what `routes` makes instead of their own.
    """

    def __init__(self, count: int, *, routes: Callable[[Street], Route] | None = None, **settings: object) -> None:
        self.world = World(1)
        self.routes = () if routes is None else (routes(self),)
        self.ensemble = SimEnsemble(self.world)
        self.cut: set[int] = set()
        self.requests: list[tuple[int, int]] = []
        """(broker, API key) of every request between brokers but those of the controller."""
        self.machines = {node_id: Neighbour(self, node_id, **settings) for node_id in range(1, count + 1)}
        for node_id in self.machines:
            endpoint = f"PLAINTEXT://localhost:{node_id}"
            self.tell(layout.broker_path(node_id), broker_json("localhost", node_id, [endpoint], None, 0))
        self.tell(layout.CONTROLLER, layout.controller_json(CONTROLLER, 0))
        for node_id, machine in self.machines.items():
            self._join(node_id, machine.broker)

    def _join(self, node_id: int, broker: BrokerMachine) -> None:
        """Register a broker. The first to do so is elected controller; it knows no topics, for the registry has none."""
        joined: list[NotAMember | None] = []
        assert broker.membership is not None
        assert broker.controller is not None
        broker.membership.join([Listener("PLAINTEXT", "localhost", node_id)], joined.append)
        assert self.run(10_000, lambda: joined == [None])
        if node_id == CONTROLLER:
            assert self.run(10_000, lambda: broker.controller is not None and broker.controller.is_active)
        assert self.run(10_000, lambda: broker.metadata_waits.has_metadata)

    def tell(self, path: str, value: bytes) -> None:
        """Let all images hold an entry."""
        for machine in self.machines.values():
            apply_entry(machine.broker.image, path, value)

    def topic(self, name: str, leaders: Sequence[int]) -> None:
        """Make a topic whose partitions are led by these brokers."""
        replicas = {index: (node_id,) for index, node_id in enumerate(leaders)}
        self.tell(layout.topic_path(name), layout.topic_json(name.encode().ljust(16)[:16], replicas))
        for index, node_id in enumerate(leaders):
            broker, now = self.machines[node_id].broker, self.world.clock.now()
            broker.partitions.open(name, index, name.encode().ljust(16)[:16], LogConfig(), now)
            self.lead(name, index)
        self.run(100)

    def lead(self, name: str, index: int, followers: Sequence[int] = (), in_sync: Sequence[int] = ()) -> None:
        """Have a partition led by the broker that holds it, in a new epoch; tests play its followers, those in sync and others."""
        node_id, partition = self.found(name, index)
        epoch = partition.leader_epoch + 1
        assigned = Assigned(node_id, epoch, (node_id, *in_sync), epoch, (node_id, *followers))
        partition.lead(assigned, self.world.clock.now())
        self.tell(layout.state_path(name, index), layout.state_json(1, node_id, partition.leader_epoch, (node_id,)))
        self.machines[node_id].broker.moves.on_election(partition)

    def unlead(self, name: str, index: int) -> None:
        """Have nobody lead a partition."""
        node_id, partition = self.found(name, index)
        partition.stop()
        self.tell(layout.state_path(name, index), layout.state_json(1, -1, partition.leader_epoch + 1, (node_id,)))
        self.machines[node_id].broker.moves.on_resignation(partition)

    def found(self, name: str, index: int) -> tuple[int, Replica]:
        """The broker that holds a partition, and the partition."""
        held = ((node_id, machine.broker.partitions.get(name, index)) for node_id, machine in self.machines.items())
        return next((node_id, partition) for node_id, partition in held if isinstance(partition, Replica))

    def run(self, ms: int, until: Callable[[], bool] = lambda: False) -> bool:
        return self.world.run(ms, until)


class Neighbour(Machine):
    """One of the brokers; `ask` is what a client does."""

    def __init__(self, street: Street, node_id: int, **settings: object) -> None:
        self.street = street
        self.node_id = node_id
        super().__init__(**settings)
        street.world.timed.append(self)

    def _start(self, *, clean: bool) -> BrokerMachine:
        world = self.street.world
        self.clock = world.clock
        registry = SimSharedRegistry(self.street.ensemble, SimProcess(world, f"broker-{self.node_id}"))
        broker = BrokerMachine(
            settings=self.settings,
            clock=world.clock,
            disk=self.disk,
            cluster=ClusterPorts(registry, StraightLinks(self.street)),
            node_id=self.node_id,
            cluster_id="simulated-cluster-id-0",
            random_bytes=self._random.randbytes,
            routes=self.street.routes,
        )
        broker.start(clean=clean, was_killed=self._ran_on)
        return broker

    def pass_time(self, ms: int) -> None:
        self.street.run(ms)

    def next_ms(self) -> int | None:
        return self.broker.scheduler.next_ms()

    def run_due(self, now: Now) -> None:
        self.broker.run_timers(now)
        self.settle()


class StraightLinks:
    """Implements `ottla.ports.Links`: a port is the number of a broker."""

    def __init__(self, street: Street) -> None:
        self._street = street

    def open(self, host: str, port: int, receive_buffer_bytes: int) -> BrokerLink:
        return StraightLink(self._street, port)


class StraightLink:
    """Implements `ottla.ports.BrokerLink`."""

    def __init__(self, street: Street, node_id: int) -> None:
        self._street = street
        self._node_id = node_id

    def send(self, frame: Sequence[Buffer], timeout_ms: int, answered: FrameAnswered) -> None:
        whole = memoryview(bytearray(b"".join(frame)))[4:]
        self._street.world.after(DELAY_MS, lambda: self._arrived(whole, answered))

    def close(self) -> None: ...

    def _arrived(self, frame: memoryview, answered: FrameAnswered) -> None:
        street = self._street
        if self._node_id in street.cut:
            answered(None)
            return
        key = int.from_bytes(frame[:2], "big")
        if key not in CONTROLLERS:
            street.requests.append((self._node_id, key))
        machine = street.machines[self._node_id]
        received = machine.broker.receive(frame, ITSELF, street.world.clock.now())
        machine.settle()
        if isinstance(received, DelayedReply) and not received.done:
            delayed = received
            delayed.ready = lambda: self._answer(delayed.answer, answered) if delayed.done else None
        else:
            self._answer(received.answer if isinstance(received, DelayedReply) else received, answered)

    def _answer(self, answer: Any, answered: FrameAnswered) -> None:
        if answer is None or isinstance(answer, Close):
            answered(None)
            return
        frame = b"".join(part if isinstance(part, bytes | bytearray | memoryview) else part.read() for part in answer)
        self._street.world.after(DELAY_MS, lambda: answered(memoryview(frame)[4:]))
