"""The brokers of simulated clients: one alone, or three whose leaders and coordinators move."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from ottla.broker.serving.request import Peer
from ottla.client.types import TopicPartition
from ottla.coord.group_machine import GroupMachine
from ottla.log.log import Log
from ottla.log.segments.transaction_index import COMMIT, read_marker
from ottla.ports import Change
from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import read_header
from ottla.sim.cluster_host import ClusterHost
from ottla.sim.ensemble import SimEnsemble
from ottla.sim.host import Host
from ottla.sim.invariants import stored_batches
from ottla.sim.links import SimNetwork
from ottla.sim.streams import StreamNetwork
from ottla.sim.world import World
from ottla.wire.api.create_topics import CreateTopicsRequest
from tests.sim.lives.client_ledger import ABORTED, COMMITTED, OPEN, PLAIN, Stored
from tests.sim.lives.cluster_view import ClusterView

CREATE_TOPICS, PORT = 19, 9092
START_MS = 30_000
SETTINGS = {
    "group.initial.rebalance.delay.ms": "200",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "3000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "auto.create.topics.enable": "false",
}
SESSION_MS = 3_000
CLUSTER_SETTINGS = {
    **SETTINGS,
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "min.insync.replicas": "2",
    "transaction.state.log.min.isr": "2",
    "unclean.leader.election.enable": "false",
    "replica.lag.time.max.ms": "3000",
    "replica.fetch.wait.max.ms": "300",
    "replica.socket.timeout.ms": "3000",
    "controller.socket.timeout.ms": "3000",
}


OnLost = Callable[[TopicPartition, list[Stored], list[Stored]], None]
"""A callback that gets a partition's records before and after a power cut."""


class OneBroker:
    """A broker alone, which loses power and processes at any time."""

    BOOTSTRAP = f"broker-1:{PORT}"

    def __init__(self, world: World, network: StreamNetwork, *, power: bool, say: Callable[[str], None], on_lost: OnLost) -> None:
        self.world = world
        self._power, self._say, self._on_lost = power, say, on_lost
        self._stored = StoredLogs()
        self._places: list[TopicPartition] = []
        self._before: dict[TopicPartition, list[Stored]] = {}
        """The records that were there before a power cut, while the broker is down."""
        self.host = Host(world, SETTINGS)
        network.listen("broker-1", PORT, self.host)

    @property
    def lives(self) -> int:
        return self.host.lives

    def make_topics(self, topics: Mapping[str, int]) -> None:
        """Create topics with these numbers of partitions."""
        wanted = [
            CreateTopicsRequest.CreatableTopic(name=name, num_partitions=count, replication_factor=1)
            for name, count in topics.items()
        ]
        self._places = [TopicPartition(name, index) for name, count in topics.items() for index in range(count)]
        peer = Peer(1, "10.0.0.1", 40_000, "broker-1", PORT)
        self.host.receive(CREATE_TOPICS, 7, CreateTopicsRequest(topics=wanted), peer, lambda answer: None)
        self.world.run(1_000)

    def coordinators(self) -> list[GroupMachine]:
        return self.host.coordinators()

    def logs(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, list[Stored]]:
        """Return the records of partitions."""
        partitions = self.host.partitions()
        return {where: self._stored.records(where, partitions[where].log) for where in places}

    def acts(self) -> list[tuple[float, Callable[[], None]]]:
        """Return the kinds of trouble that brokers can have, each with its weight."""
        return [(2, self._die), (1, self._stop)]

    def _die(self) -> None:
        if self.host.broker is not None:
            power_cut = self._power and self.world.chance(0.6)
            self._say(f"the broker dies{' of a power cut' if power_cut else ''}")
            self._before = self.logs(self._places) if power_cut else {}
            self.host.die(power_cut=power_cut)
            self._start_later()

    def _stop(self) -> None:
        if self.host.broker is not None:
            self._say("the broker stops")
            self.host.stop()
            self._start_later()

    def _start_later(self) -> None:
        self.world.after(self.world.random.choice((50, 500, 3_000)), self.make_peace)

    def make_peace(self) -> None:
        """Start the broker unless it runs."""
        if self.host.broker is None:
            self._say("the broker starts")
            self.host.start()
            for where, after in self.logs(self._before).items():
                self._on_lost(where, self._before[where], after)
            self._before = {}

    def is_well(self) -> bool:
        return self.host.broker is not None


class ThreeBrokers:
    """A cluster of three, whose brokers die, stop and stand still, one or two at a time."""

    BOOTSTRAP = f"broker-1:{PORT},broker-2:{PORT},broker-3:{PORT}"

    def __init__(self, world: World, network: StreamNetwork, *, say: Callable[[str], None]) -> None:
        self.world = world
        self._say = say
        self._stored = StoredLogs()
        self.ensemble = SimEnsemble(world, timeout_ms=SESSION_MS)
        links = SimNetwork(world)
        self.hosts = {number: ClusterHost(world, CLUSTER_SETTINGS, number, self.ensemble, links) for number in (1, 2, 3)}
        for host in self.hosts.values():
            network.listen(host.name, PORT, host)
        self.view = ClusterView(world, self.hosts, self.ensemble)
        self._places: list[TopicPartition] = []

    @property
    def lives(self) -> int:
        return sum(host.lives for host in self.hosts.values())

    def make_topics(self, topics: Mapping[str, int]) -> None:
        """Create topics, as older tools do in the registry, and wait for their leaders."""
        self.world.run(3_000)
        for name, count in topics.items():
            replicas = {str(at): [(at + number) % 3 + 1 for number in range(3)] for at in range(count)}
            self.ensemble.put(Change(f"/brokers/topics/{name}", json.dumps({"version": 1, "partitions": replicas}).encode()))
            self._places += [TopicPartition(name, index) for index in range(count)]
        assert self.world.run(START_MS, self.is_well), "partitions get leaders"

    def coordinators(self) -> list[GroupMachine]:
        return self.view.coordinators()

    def logs(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, list[Stored]]:
        """Return the records of partitions, as their leaders have them."""
        partitions = self.view.partitions()
        return {where: self._stored.records(where, partitions[where].log) for where in places}

    def acts(self) -> list[tuple[float, Callable[[], None]]]:
        """Return the kinds of trouble that brokers can have, each with its weight."""
        return [(2, self._die), (2, self._stop), (1, self._stand_still), (1, self._expire)]

    def _any(self) -> ClusterHost | None:
        up = [host for host in self.hosts.values() if host.broker is not None]
        return self.world.random.choice(up) if up else None

    def _die(self) -> None:
        if (host := self._any()) is not None:
            self._say(f"{host.name} dies")
            host.die(power_cut=False)
            self.world.after(self.world.random.choice((100, 1_000, 5_000)), partial(self._start, host))

    def _stop(self) -> None:
        if (host := self._any()) is not None:
            self._say(f"{host.name} stops")
            host.leave(lambda: self.world.after(self.world.random.choice((100, 1_000)), partial(self._start, host)))

    def _stand_still(self) -> None:
        if (host := self._any()) is not None:
            ms = self.world.random.choice((200, 2_000, 6_000))
            self._say(f"{host.name} stands still for {ms} ms")
            host.pause(ms)

    def _expire(self) -> None:
        if (host := self._any()) is not None:
            self._say(f"the session of {host.name} expires")
            host.session.expire()

    def _start(self, host: ClusterHost) -> None:
        if host.broker is None:
            self._say(f"{host.name} starts")
            host.start()

    def make_peace(self) -> None:
        """Start all brokers."""
        for host in self.hosts.values():
            self._start(host)

    def is_well(self) -> bool:
        """Return whether all brokers are registered and all partitions have leaders, and all of their records are replicated."""
        if not all(host.is_member for host in self.hosts.values()):
            return False
        led = self.view.partitions()
        return all(where in led and led[where].high_watermark == led[where].log.log_end_offset for where in self._places)


Brokers = OneBroker | ThreeBrokers


class StoredLogs:
    """The records of logs, which are read again only when a log has got another end."""

    def __init__(self) -> None:
        self._known: dict[TopicPartition, tuple[Log, int, list[Stored]]] = {}

    def records(self, where: TopicPartition, log: Log) -> list[Stored]:
        known = self._known.get(where)
        if known is None or known[0] is not log or known[1] != log.log_end_offset:
            known = self._known[where] = (log, log.log_end_offset, stored(log))
        return known[2]


def stored(log: Log) -> list[Stored]:
    """Return the records of a log, and what became of their transactions."""
    found: list[Stored] = []
    pending: dict[int, list[int]] = {}
    for batch in stored_batches(log):
        header = read_header(batch)
        if header.is_control:
            marker = read_marker(batch)
            fate = COMMITTED if marker is not None and marker.type == COMMIT else ABORTED
            for at in pending.pop(header.producer_id, ()):
                found[at] = found[at]._replace(fate=fate)
            continue
        for record in open_batches(batch, check_crcs=True).records():
            if header.is_transactional:
                pending.setdefault(header.producer_id, []).append(len(found))
            found.append(Stored(record.offset, bytes(record.value or b""), OPEN if header.is_transactional else PLAIN))
    return found
