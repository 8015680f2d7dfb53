"""Several brokers as processes over one registry: they can be killed, paused, cut off from each other, and started again.

The module uses the command line of `ottla serve` and the protocol of clients. A cluster may have members that are not Ottla's
brokers: a function that creates one returns a `ClusterMember`.
"""

from __future__ import annotations

import random
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, Self, TypeVar

from ottla.testing.port_forwarding import LOCALHOST, REGISTRY, Ways, Wiring
from ottla.testing.process import BrokerProcess

if TYPE_CHECKING:
    from ottla import Admin
    from ottla.client.connection.metadata import PartitionInfo

T = TypeVar("T")

INTERNAL: Final = "INTERNAL"
"""The name of the listener for connections between brokers."""
NOBODY: Final = -1
_SCHEME: Final = "zookeeper://"
_ON_HOST: Final = "sqlite:"
_LOOK_AGAIN_S: Final = 0.05
_PORTS: Final = range(12_000, 32_000)
"""The ports to choose from, below those that operating systems give to connections."""


class NotYet(Exception):
    """A condition did not become true in time; the message has the condition and the state of the cluster."""


class ClusterMember(Protocol):
    """A broker of a cluster, as a process. `address` is for clients and stays the same over restarts."""

    @property
    def address(self) -> str: ...
    @property
    def pid(self) -> int: ...
    @property
    def is_running(self) -> bool: ...
    @property
    def log(self) -> str: ...
    def start(self) -> Self: ...
    def stop(self, timeout_s: float = ...) -> int: ...
    def kill(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


class ClusterSeat(NamedTuple):
    """The settings with which a broker of a cluster must be started.

    Clients connect to `host`:`port`; brokers connect to `internal_port` through `told_port`, which the broker must advertise.
    `registry` is the address of ZooKeeper, HOST:PORT or HOST:PORT/CHROOT, or sqlite:DIR. The process must call `prepare` before
    it begins.
    """

    node_id: int
    home: Path
    registry: str
    port: int
    internal_port: int
    told_port: int
    settings: Mapping[str, object]
    host: str = LOCALHOST
    prepare: Callable[[], None] | None = None

    def listeners(self) -> dict[str, object]:
        """Return the settings of its listeners, by Kafka's names."""
        return {
            "advertised.listeners": f"PLAINTEXT://{self.host}:{self.port},{INTERNAL}://{self.host}:{self.told_port}",
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{INTERNAL}:PLAINTEXT",
            "inter.broker.listener.name": INTERNAL,
        }


def ottla_member(seat: ClusterSeat) -> ClusterMember:
    """Create one of Ottla's own brokers."""
    internal = f"{seat.host}:{seat.internal_port},name={INTERNAL}"
    registry = seat.registry if seat.registry.startswith(_ON_HOST) else _SCHEME + seat.registry
    return BrokerProcess(
        seat.home,
        {**seat.listeners(), **seat.settings},
        host=seat.host,
        port=seat.port,
        prepare=seat.prepare,
        arguments=["--listen", internal, "--registry", registry, "--node-id", str(seat.node_id)],
    )


class Cluster:
    """Brokers 1, 2, 3 … over the ZooKeeper at `registry` (zookeeper://HOST:PORT/CHROOT), or over a file that they share.

    Entering starts them, leaving stops them.

        with Cluster(brokers=3) as cluster:
            producer = ottla.Producer(cluster.address)
            cluster.kill(cluster.leader("flights", 0))

    All files are below `home` (a temporary directory unless given). `settings` are Kafka's, for every broker. `members` has
    functions that create the brokers of some ids, which may be others than Ottla's: these need ZooKeeper. The connections
    between brokers, and to ZooKeeper, can be cut. `wiring` carries them (unless given, through forwarding ports of this host).
    """

    def __init__(
        self,
        registry: str = "",
        brokers: int = 3,
        settings: Mapping[str, object] | None = None,
        *,
        home: Path | str | None = None,
        members: Mapping[int, Callable[[ClusterSeat], ClusterMember]] | None = None,
        wiring: Ways | None = None,
    ) -> None:
        self.members: dict[int, ClusterMember] = {}
        self.registry = registry.removeprefix(_SCHEME)
        """HOST:PORT/CHROOT of the ZooKeeper, for its own clients, which cuts do not affect. Or sqlite:DIR."""
        self._count = brokers
        self._settings = {"default.replication.factor": brokers, "offsets.topic.replication.factor": brokers, **(settings or {})}
        self._given_home = Path(home) if home else None
        self._home = Path()
        self._made_by = dict(members or {})
        self._wiring = wiring or Wiring()
        self._stack = ExitStack()
        self._cuts: set[tuple[int, int]] = set()
        self._paused: set[int] = set()

    # ------------------------------------------------------------------ lifetime

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            home = self._given_home or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ottla-cluster-")))
            stack.enter_context(self._wiring)
            stack.callback(self._kill_all)
            self._home = home
            self.registry = self.registry or f"{_ON_HOST}{home / 'registry'}"
            for node_id in range(1, self._count + 1):
                self.members[node_id] = self._seated(node_id)
            for member in self.members.values():
                member.start()
            self.wait_joined()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._stack:
            self.mend()
            for member in self.members.values():
                if member.is_running:
                    member.resume()
                    member.stop(60)

    def _seated(self, node_id: int) -> ClusterMember:
        port, internal_port = free_port(), free_port()
        host, prepare = self._wiring.host(node_id), self._wiring.prepare(node_id)
        told_port = self._wiring.lead(node_id, host, internal_port)
        home, registry = self._home / str(node_id), self._way_to_registry(node_id)
        seat = ClusterSeat(node_id, home, registry, port, internal_port, told_port, self._settings, host, prepare)
        return self._made_by.get(node_id, ottla_member)(seat)

    def _way_to_registry(self, node_id: int) -> str:
        """Return the address of the registry for a broker, through a way that can be cut."""
        if self.registry.startswith(_ON_HOST):
            return self.registry
        servers, slash, chroot = self.registry.partition("/")
        ways = []
        for server in servers.split(","):
            host, _, number = server.rpartition(":")
            ways.append(f"{self._wiring.host(REGISTRY)}:{self._wiring.lead(REGISTRY, host, int(number), source=node_id)}")
        return ",".join(ways) + slash + chroot

    def _kill_all(self) -> None:
        for member in self.members.values():
            member.kill()

    def add(self, made_by: Callable[[ClusterSeat], ClusterMember] = ottla_member) -> int:
        """Start one more broker, and return its id; its directory is empty, and no partition is moved to it."""
        node_id = max(self.members) + 1
        self._made_by[node_id] = made_by
        self.members[node_id] = self._seated(node_id).start()
        return node_id

    # -------------------------------------------------------------------- faults

    def kill(self, node_id: int) -> None:
        """Send SIGKILL to a broker: nothing in its memory survives."""
        self.members[node_id].kill()

    def stop(self, node_id: int) -> int:
        """Stop a broker in order: it first hands over its leaderships. Return its exit code."""
        return self.members[node_id].stop(60)

    def start(self, node_id: int) -> None:
        """Start a broker that was killed or stopped; return when it answers. Raises `DidNotStart`."""
        self.members[node_id].start()

    def pause(self, node_id: int) -> None:
        """Send SIGSTOP to a broker: it neither answers nor closes connections, and its session may expire."""
        self.members[node_id].pause()
        self._paused.add(node_id)

    def resume(self, node_id: int) -> None:
        """Send SIGCONT to a paused broker."""
        self.members[node_id].resume()
        self._paused.discard(node_id)

    def cut(self, source: int, target: int, *, both: bool = True) -> None:
        """Stop all traffic from one broker to another, and unless `both` is false, in the other direction, too.

        0 is ZooKeeper. Clients are not cut off. Raises ValueError for the way to a file that brokers share.
        """
        if REGISTRY in (source, target) and self.registry.startswith(_ON_HOST):
            raise ValueError("brokers cannot be cut off from a shared file: give the cluster a ZooKeeper")
        for way in ((source, target), (target, source))[: 2 if both else 1]:
            self._wiring.cut(*way)
            self._cuts.add(way)

    def mend(self) -> None:
        """Restore all traffic between all brokers."""
        while self._cuts:
            self._wiring.mend(*self._cuts.pop())

    # ---------------------------------------------------------------- state

    @property
    def address(self) -> str:
        """Return HOST:PORT of all brokers, for any client's `bootstrap.servers`."""
        return ",".join(member.address for member in self.members.values())

    def controller(self) -> int:
        """Return the controller's id, or -1 while there is none."""
        with self.admin() as admin:
            return admin.describe_cluster().controller_id

    def leader(self, topic: str, partition: int) -> int:
        """Return the id of a partition's leader, or -1 while there is none."""
        with self.admin() as admin:
            found = admin.describe_topics(topic)[topic].partitions.get(partition)
        return NOBODY if found is None else found.leader

    def admin(self) -> Admin:
        """Return a client of the running brokers."""
        import ottla

        return ottla.Admin([member.address for member in self.members.values() if member.is_running])

    def _asked_each(self, ask: Callable[[Admin], T]) -> Iterator[T]:
        """Yield the answer of each broker that runs and is not paused: one that was cut off may have old metadata."""
        import ottla

        for node_id, member in self.members.items():
            if member.is_running and node_id not in self._paused:
                with ottla.Admin(member.address) as admin:
                    yield ask(admin)

    def wait_joined(self, timeout_s: float = 60.0) -> None:
        """Return when all running brokers have each other and a controller in their metadata. Raises `NotYet`."""

        def joined() -> bool:
            running = {node_id for node_id, member in self.members.items() if member.is_running}
            return all(
                found.controller_id in running and {node.node_id for node in found.nodes} >= running
                for found in self._asked_each(lambda admin: admin.describe_cluster())
            )

        self.wait_until(joined, lambda: "not all brokers are registered with a controller", timeout_s)

    def wait_in_sync(self, *topics: str, timeout_s: float = 60.0) -> None:
        """Return when all brokers have a leader for each partition of these topics, and all its replicas in sync.

        Raises `NotYet`.
        """

        def all_in_sync() -> str:
            found = [part for told in self._asked_each(lambda admin: admin.describe_topics(*topics)) for part in lagging(told)]
            return ", ".join(dict.fromkeys(f"{name}-{part.partition} {part.leader} {part.isr}" for name, part in found))

        self.wait_until(lambda: not all_in_sync(), lambda: f"not in sync: {all_in_sync()}", timeout_s)

    def wait_until(self, happened: Callable[[], bool], told: Callable[[], str] = str, timeout_s: float = 60.0) -> None:
        """Return when `happened` returns True; a `KafkaError` counts as False. Raises `NotYet` with the text of `told`."""
        from ottla import KafkaError

        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            with suppress(KafkaError):
                if happened():
                    return
            time.sleep(_LOOK_AGAIN_S)
        raise NotYet(f"after {timeout_s:g} s: {told()}")


def lagging(topics: Mapping[str, object]) -> Iterator[tuple[str, PartitionInfo]]:
    """Yield the partitions that have no leader, or a replica that is not in sync."""
    from ottla.client.connection.metadata import TopicInfo

    for name, topic in topics.items():
        assert isinstance(topic, TopicInfo)
        for part in topic.partitions.values():
            if part.leader == NOBODY or set(part.isr) != set(part.replicas):
                yield name, part


def free_port() -> int:
    """Return a port of this host without a listener, which the system does not give to a connection before a broker takes it."""
    while True:
        port = random.choice(_PORTS)
        with closing(socket.socket()) as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
