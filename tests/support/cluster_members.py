"""A broker of a simulated cluster, asked by clients in messages: it has read settings and rights, no more."""

from __future__ import annotations

import random
from typing import Any

from ottla.broker.broker import BrokerMachine
from ottla.broker.serving.purgatory import DelayedReply
from ottla.broker.serving.request import Peer
from ottla.broker.settings import BrokerSettings
from ottla.cluster.metadata import ClusterPorts
from ottla.ports import Now
from ottla.sim.disk import SimDisk
from ottla.sim.ensemble import SimEnsemble
from ottla.sim.links import SimNetwork
from ottla.sim.process import SimProcess
from ottla.sim.shared_registry import SimSharedRegistry
from ottla.wire.framing import FrameHeader, decode_response, encode_request

PATIENCE_MS = 60_000


class PreparedBroker:
    """A broker on a process of its own; every message goes through real frames."""

    def __init__(self, ensemble: SimEnsemble, node_id: int, **settings: str) -> None:
        self.world = ensemble.world
        process = SimProcess(ensemble.world, f"broker {node_id}")
        self.registry = SimSharedRegistry(ensemble, process)
        self.broker = BrokerMachine(
            settings=BrokerSettings({name.replace("_", "."): value for name, value in settings.items()}),
            clock=self.world.clock,
            disk=SimDisk(),
            cluster=ClusterPorts(self.registry, SimNetwork(ensemble.world).links(process)),
            node_id=node_id,
            cluster_id="simulated-cluster-id-0",
            random_bytes=random.Random(node_id).randbytes,
        )
        self.world.timed.append(self)
        self.world.run(1_000)
        self.broker.start(clean=True)
        prepared: list[str] = []
        self.broker.prepare(prepared.append)
        assert self.world.run(PATIENCE_MS, lambda: bool(prepared)), "the registry is not read"
        self.refused = prepared[0]
        """Why it can't be one of its cluster."""

    def next_ms(self) -> int | None:
        return self.broker.scheduler.next_ms()

    def run_due(self, now: Now) -> None:
        self.broker.run_timers(now)

    def ask(self, key: int, version: int, body: Any) -> Any:
        """Send one request and let time pass until it is answered."""
        frame = memoryview(bytearray(b"".join(encode_request(FrameHeader(key, version, 1, "test"), body))))[4:]
        answer: Any = self.broker.receive(frame, Peer(1, "127.0.0.1", 50000, "127.0.0.1", 9092), self.world.clock.now())
        self.broker.finish_bundle(self.world.clock.now())
        if isinstance(answer, DelayedReply):
            pending = answer
            assert self.world.run(PATIENCE_MS, lambda: pending.done), "nobody answers"
            answer = pending.answer
        return decode_response(key, version, b"".join(bytes(part) for part in answer)[4:])[1]
