"""Several brokers as processes that share a registry: they can be killed, paused, cut off from each other, and restarted.

The module uses the command line of `ottla serve` and the protocol of clients. A cluster can include brokers other than Ottla's: a
function that creates one returns a `ClusterMember`.
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
"""The ports to choose from. They are below the ports that operating systems give to outgoing connections."""


class NotYet(Exception):
    """A condition did not become true in time. The message contains the condition and the state of the cluster."""


class ClusterMember(Protocol):
    """A broker of a cluster, as a process. `address` is the address for clients, and stays the same over restarts."""

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

    Clients connect to `host`:`port`. Other brokers connect to `internal_port` through the forwarding port `told_port`, which this
    broker must advertise. `registry` is the address of ZooKeeper, HOST:PORT or HOST:PORT/CHROOT, or sqlite:DIR. If `prepare` is
    given, the process must call it before any other work.
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
        """Return the settings of the broker's listeners, by Kafka's names."""
        return {
            "advertised.listeners": f"PLAINTEXT://{self.host}:{self.port},{INTERNAL}://{self.host}:{self.told_port}",
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{INTERNAL}:PLAINTEXT",
            "inter.broker.listener.name": INTERNAL,
        }


def ottla_member(seat: ClusterSeat) -> ClusterMember:
    """Create a process that runs `ottla serve`."""
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
    """Brokers 1, 2, 3 … over the ZooKeeper at `registry` (zookeeper://HOST:PORT/CHROOT), or over a SQLite file that they share.

    A context manager: entering starts the brokers, leaving stops them.

        with Cluster(brokers=3) as cluster:
            producer = ottla.Producer(cluster.address)
            cluster.kill(cluster.leader("flights", 0))

    All files are below `home`, by default a temporary directory. `settings` are Kafka's settings for every broker. `members` maps
    broker ids to functions that create these brokers. A broker other than Ottla's needs ZooKeeper. `wiring` forwards the
    connections between brokers and to ZooKeeper, so that they can be cut. Its default is `Wiring`, forwarding ports of this host.
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
        """The registry's address, which cuts do not affect: HOST:PORT/CHROOT of ZooKeeper, or sqlite:DIR."""
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
                self.members[node_id] = self._make_member(node_id)
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

    def _make_member(self, node_id: int) -> ClusterMember:
        port, internal_port = free_port(), free_port()
        host, prepare = self._wiring.host(node_id), self._wiring.prepare(node_id)
        told_port = self._wiring.lead(node_id, host, internal_port)
        home, registry = self._home / str(node_id), self._way_to_registry(node_id)
        seat = ClusterSeat(node_id, home, registry, port, internal_port, told_port, self._settings, host, prepare)
        return self._made_by.get(node_id, ottla_member)(seat)

    def _way_to_registry(self, node_id: int) -> str:
        """Return the registry's address for a broker. With ZooKeeper it has forwarding ports, whose traffic can be cut."""
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
        """Start one more broker with an empty data directory, and return its id. No partition is moved to the broker."""
        node_id = max(self.members) + 1
        self._made_by[node_id] = made_by
        self.members[node_id] = self._make_member(node_id).start()
        return node_id

    # -------------------------------------------------------------------- faults

    def kill(self, node_id: int) -> None:
        """Send SIGKILL to a broker. Nothing in its memory survives."""
        self.members[node_id].kill()

    def stop(self, node_id: int) -> int:
        """Stop a broker cleanly, after it has transferred its leaderships, and return its exit code."""
        return self.members[node_id].stop(60)

    def start(self, node_id: int) -> None:
        """Start a broker that was killed or stopped. Return when the broker answers. Raises `DidNotStart`."""
        self.members[node_id].start()

    def pause(self, node_id: int) -> None:
        """Send SIGSTOP to a broker. It then neither answers nor closes connections, and its registry session can expire."""
        self.members[node_id].pause()
        self._paused.add(node_id)

    def resume(self, node_id: int) -> None:
        """Send SIGCONT to a paused broker."""
        self.members[node_id].resume()
        self._paused.discard(node_id)

    def cut(self, source: int, target: int, *, both: bool = True) -> None:
        """Stop all traffic from broker `source` to broker `target`, and with `both` also from `target` to `source`.

        The id 0 means ZooKeeper. Clients are not cut off. Raises ValueError for id 0 if the registry is a file that the brokers
        share.
        """
        if REGISTRY in (source, target) and self.registry.startswith(_ON_HOST):
            raise ValueError("brokers cannot be cut off from a shared file: give the cluster a ZooKeeper")
        for way in ((source, target), (target, source))[: 2 if both else 1]:
            self._wiring.cut(*way)
            self._cuts.add(way)

    def mend(self) -> None:
        """Restore all traffic that `cut` has stopped."""
        while self._cuts:
            self._wiring.mend(*self._cuts.pop())

    # ---------------------------------------------------------------- state

    @property
    def address(self) -> str:
        """Return HOST:PORT of every broker, separated by commas, for any client's `bootstrap.servers`."""
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

    def _query_each(self, ask: Callable[[Admin], T]) -> Iterator[T]:
        """Yield the answer of each broker that runs and is not paused. A broker that is cut off can have outdated metadata."""
        import ottla

        for node_id, member in self.members.items():
            if member.is_running and node_id not in self._paused:
                with ottla.Admin(member.address) as admin:
                    yield ask(admin)

    def wait_joined(self, timeout_s: float = 60.0) -> None:
        """Return when every running broker has all running brokers and a controller in its metadata.

        Raises `NotYet` after `timeout_s`.
        """

        def joined() -> bool:
            running = {node_id for node_id, member in self.members.items() if member.is_running}
            return all(
                found.controller_id in running and {node.node_id for node in found.nodes} >= running
                for found in self._query_each(lambda admin: admin.describe_cluster())
            )

        self.wait_until(joined, lambda: "not all brokers are registered with a controller", timeout_s)

    def wait_in_sync(self, *topics: str, timeout_s: float = 60.0) -> None:
        """Return when, in every broker's metadata, each partition of these topics has a leader and all its replicas are in sync.

        Raises `NotYet` after `timeout_s`.
        """

        def all_in_sync() -> str:
            found = [part for told in self._query_each(lambda admin: admin.describe_topics(*topics)) for part in find_lagging(told)]
            return ", ".join(dict.fromkeys(f"{name}-{part.partition} {part.leader} {part.isr}" for name, part in found))

        self.wait_until(lambda: not all_in_sync(), lambda: f"not in sync: {all_in_sync()}", timeout_s)

    def wait_until(self, happened: Callable[[], bool], told: Callable[[], str] = str, timeout_s: float = 60.0) -> None:
        """Return when `happened` returns True. A `KafkaError` counts as False.

        Raises `NotYet` after `timeout_s`, with the text that `told` returns.
        """
        from ottla import KafkaError

        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            with suppress(KafkaError):
                if happened():
                    return
            time.sleep(_LOOK_AGAIN_S)
        raise NotYet(f"after {timeout_s:g} s: {told()}")


def find_lagging(topics: Mapping[str, object]) -> Iterator[tuple[str, PartitionInfo]]:
    """Yield each partition that has no leader or has a replica that is not in sync."""
    from ottla.client.connection.metadata import TopicInfo

    for name, topic in topics.items():
        assert isinstance(topic, TopicInfo)
        for part in topic.partitions.values():
            if part.leader == NOBODY or set(part.isr) != set(part.replicas):
                yield name, part


def free_port() -> int:
    """Return a free port of this host.

    The operating system does not give the port to an outgoing connection before a broker listens on it.
    """
    while True:
        port = random.choice(_PORTS)
        with closing(socket.socket()) as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
