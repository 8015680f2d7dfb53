"""A broker as a machine on simulated ports: no socket, no thread, no time of its own."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from ottla.broker.broker import BrokerMachine
from ottla.broker.coordination.coordinators import Coordinators
from ottla.broker.security.rights import Authorizer
from ottla.broker.serving.dialects import FirstDialect
from ottla.broker.serving.purgatory import DelayedReply
from ottla.broker.serving.request import Close, Peer, Throttled
from ottla.broker.serving.routes import Route
from ottla.broker.settings import BrokerSettings
from ottla.cluster.decision import Decision
from ottla.ports import Workers
from ottla.sim.clock import SimClock
from ottla.sim.disk import SimDisk
from ottla.sim.loggers import SimLoggers
from ottla.sim.registry import MemoryRegistry
from ottla.wire.framing import FrameHeader, decode_response, encode_request
from tests.support.watched import kept

Outcome = Any
"""A decoded response, a `Close`, None where nothing is answered, or a `DelayedReply` that is not done."""


class Machine:
    """One broker that tests talk to in messages; every message goes through real frames."""

    _routes: Sequence[Route] = ()
    _first_dialect: FirstDialect | None = None
    _authorizer: Authorizer | None = None
    _workers: Workers | None = None
    _ran_on = False
    _log_dirs: Sequence[str] = ()

    def __init__(self, **settings: object) -> None:
        self.clock = SimClock()
        self.disk = SimDisk()
        for path in self._log_dirs:
            self.disk.make_dir(path)
            self.disk.sync_dir(path)
        self.registry = MemoryRegistry()
        self.loggers = SimLoggers("ottla", "ottla.broker", "ottla.broker.deep", "ottla.log")
        given = {name.replace("_", "."): str(value) for name, value in settings.items()}
        wanted = {"group.initial.rebalance.delay.ms": "0", "ottla.journal.bytes": "65536"} | {
            name: str(value) for name, value in kept(given).items()
        }
        self.settings = BrokerSettings.parse(wanted)
        self._random = random.Random(1)
        self.client_id = "test"
        self._correlation_id = 0
        self.rest_ms = 0
        """How long the last answer has its connection rest."""
        self.peer = Peer(1, "127.0.0.1", 50000, "127.0.0.1", 9092)
        self.broker = self._start(clean=True)

    def _start(self, *, clean: bool) -> BrokerMachine:
        if isinstance(self.registry, MemoryRegistry):
            self.registry.close()  # the session of an earlier life is over
        broker = BrokerMachine(
            settings=self.settings,
            clock=self.clock,
            disk=self.disk,
            cluster=self.registry,
            node_id=1,
            cluster_id="simulated-cluster-id-0",
            random_bytes=self._random.randbytes,
            workers=self._workers,
            routes=self._routes,
            authorizer=self._authorizer,
            first_dialect=self._first_dialect,
            loggers=self.loggers,
            log_dirs=self._log_dirs,
        )
        broker.start(clean=clean, was_killed=self._ran_on)
        return broker

    def set_topic(self, name: str, configs: dict[str, str | None]) -> None:
        """Let these be all the settings of a topic."""
        configured, made = self.broker.configs, list[list[Decision]]()
        steps = configured.commit([lambda: configured.of_topic(name, configs)], self.clock.now())
        self.broker.scheduler.begin("set topic", steps, made.append, urgent=True)
        while not made:
            self.pass_time(0)
        assert not made[0][0].error_code, made[0][0].message

    def create_internal(self, name: str) -> Decision:
        """Create a topic as a broker creates its internal ones, and let time pass until that has ended."""
        created = list[Decision]()
        self.broker.scheduler.begin("create internal", self.broker.by_name.create_internal(name), created.append, urgent=True)
        while not created:
            self.settle()
            self.pass_time(1)
        return created[0]

    def restart(self) -> None:
        """Stop in order and start again on the same disk."""
        assert self.broker.close()
        self.disk.run_syncs()  # a process waits for those under way before it ends
        self.disk.kill()
        self.broker = self._start(clean=True)

    def kill(self) -> None:
        """End it as SIGKILL does, and start again: what it wrote is there, what it held in memory is not."""
        self.disk.kill()
        self._ran_on = True
        self.broker = self._start(clean=False)
        self._ran_on = False
        self.settle()

    def cut_power(self, seed: int) -> None:
        """End the machine that it runs on, and start again: what was not synced is there in part."""
        self.disk.crash(random.Random(seed))
        self.disk.kill()
        self.broker = self._start(clean=False)
        self.settle()

    def begin(self, key: int, version: int, body: Any) -> Outcome:
        """Send one request and settle; a reply that waits comes back as a `DelayedReply`, to be given to `finish`."""
        answer = self.broker.receive(self.frame_of(key, version, body), self.peer, self.clock.now())
        self.settle()
        if isinstance(answer, DelayedReply):
            return self.finish(key, version, answer) if answer.done else answer
        return self._decoded(key, version, answer)

    def frame_of(self, key: int, version: int, body: Any) -> memoryview:
        """A request as it comes."""
        self._correlation_id += 1
        parts = encode_request(FrameHeader(key, version, self._correlation_id, self.client_id), body)
        return memoryview(bytearray(b"".join(parts)))[4:]

    def finish(self, key: int, version: int, pending: DelayedReply) -> Outcome:
        """What a reply that waited became."""
        assert pending.done
        return self._decoded(key, version, pending.answer)

    def ask(self, key: int, version: int, body: Any, *, patience_ms: int = 60_000) -> Outcome:
        """Send one request and let time pass until it is answered."""
        answer = self.begin(key, version, body)
        for _ in range(patience_ms // 100):
            if not isinstance(answer, DelayedReply):
                return answer
            self.pass_time(100)
            if answer.done:
                return self.finish(key, version, answer)
        raise AssertionError(f"API {key} version {version} was not answered in {patience_ms} ms")

    def pass_time(self, ms: int) -> None:
        """Advance the clock and run what is due."""
        self.broker.run_timers(self.clock.advance(ms))
        self.settle()

    def settle(self) -> None:
        """Finish syncs and retries until nothing moves."""
        self.broker.finish_bundle(self.clock.now())
        while self.disk.run_syncs():
            self.broker.finish_bundle(self.clock.now())

    def _decoded(self, key: int, version: int, answer: Any) -> Outcome:
        self.rest_ms = answer.throttle_ms if isinstance(answer, Throttled) else 0
        if isinstance(answer, Throttled):
            answer = answer.parts or None
        if answer is None or isinstance(answer, Close):
            return answer
        frame = b"".join(part if isinstance(part, bytes | bytearray | memoryview) else part.read() for part in answer)
        return decode_response(key, version, frame[4:])[1]


class OpenMachine(Machine):
    """A machine that serves `routes` besides Ottla's own or instead of them, and asks an `authorizer`."""

    def __init__(self, *, routes: Sequence[Route] = (), authorizer: Authorizer | None = None, **settings: object) -> None:
        self._routes = routes
        self._authorizer = authorizer
        super().__init__(**settings)


def create_topic_of(coordinators: Coordinators[Any], machine: Machine) -> list[int]:
    """Create the topic of coordinators, as the first request for one does. Return its error code once it is done."""
    created = list[int]()
    machine.broker.scheduler.begin("create", coordinators.ensure(), created.append, urgent=True)
    for _ in range(10):
        machine.pass_time(1)
    return created
