"""Several brokers as processes of their own over one registry: killed, paused, cut from each other, and started again.

Knows the command line of `ottla serve` and what any client can ask. A cluster may have other brokers than Ottla's among its
members: whoever starts one gives what a `ClusterMember` can do.
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

from ottla.testing.process import BrokerProcess
from ottla.testing.wiring import LOCALHOST, REGISTRY, Ways, Wiring

if TYPE_CHECKING:
    from ottla import Admin
    from ottla.client.metadata import PartitionInfo

T = TypeVar("T")

INTERNAL: Final = "INTERNAL"
"""The name of the listener that brokers use among themselves."""
NOBODY: Final = -1
_SCHEME: Final = "zookeeper://"
_ON_HOST: Final = "sqlite:"
_LOOK_AGAIN_S: Final = 0.05
_PORTS: Final = range(12_000, 32_000)
"""Below those that systems give to connections."""


class NotYet(Exception):
    """What was waited for did not come in time; the text says what, and how the cluster looked."""


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
    """A place in a cluster: what a broker has to be started with.

    Clients reach it at `host`:`port`, brokers at `internal_port` by way of `told_port`, which it has to advertise; `registry` is
    the address of ZooKeeper, HOST:PORT or HOST:PORT/CHROOT, or sqlite:DIR. Its process has to call `prepare` before it begins.
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
        """The settings of its listeners, by Kafka's names."""
        return {
            "advertised.listeners": f"PLAINTEXT://{self.host}:{self.port},{INTERNAL}://{self.host}:{self.told_port}",
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{INTERNAL}:PLAINTEXT",
            "inter.broker.listener.name": INTERNAL,
        }


def ottla_member(seat: ClusterSeat) -> ClusterMember:
    """One of Ottla's own brokers."""
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

    Everything is kept below `home` (a temporary directory unless given). `settings` are Kafka's, for every broker; `members` make
    the brokers of some numbers, which may be others than Ottla's: these need ZooKeeper. The ways between brokers, and those to
    ZooKeeper, can be cut; `wiring` is what they are made of (ports of this host that pass on what they are sent, unless given).
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
        """HOST:PORT/CHROOT of the ZooKeeper, for its own clients: cuts do not concern them. Or sqlite:DIR."""
        self._count = brokers
        self._settings = {"default.replication.factor": brokers, "offsets.topic.replication.factor": brokers, **(settings or {})}
        self._given_home = Path(home) if home else None
        self._home = Path()
        self._made_by = dict(members or {})
        self._wiring = wiring or Wiring()
        self._stack = ExitStack()
        self._cuts: set[tuple[int, int]] = set()
        self._paused: set[int] = set()

    # ------------------------------------------------------------------ its life

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
        """The address that a broker is given: one that can be cut."""
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
        """Start one more broker, and return its number; its directory is empty, and nothing is moved to it."""
        node_id = max(self.members) + 1
        self._made_by[node_id] = made_by
        self.members[node_id] = self._seated(node_id).start()
        return node_id

    # -------------------------------------------------------------------- faults

    def kill(self, node_id: int) -> None:
        """SIGKILL a broker: nothing in its memory survives."""
        self.members[node_id].kill()

    def stop(self, node_id: int) -> int:
        """Stop a broker in order: it hands over what it leads first. Returns its exit code."""
        return self.members[node_id].stop(60)

    def start(self, node_id: int) -> None:
        """Start a broker that was killed or stopped; returns once it answers. Raises `DidNotStart`."""
        self.members[node_id].start()

    def pause(self, node_id: int) -> None:
        """SIGSTOP a broker: it neither answers nor closes anything, and its session runs out meanwhile."""
        self.members[node_id].pause()
        self._paused.add(node_id)

    def resume(self, node_id: int) -> None:
        """Let a paused broker go on."""
        self.members[node_id].resume()
        self._paused.discard(node_id)

    def cut(self, source: int, target: int, *, both: bool = True) -> None:
        """Let nothing of what one broker sends arrive at another, and unless `both` is false, nothing the other way either.

        0 stands for ZooKeeper. Clients are not cut off. Raises ValueError for the way to a file that brokers share.
        """
        if REGISTRY in (source, target) and self.registry.startswith(_ON_HOST):
            raise ValueError(
                "brokers reach a file that they share whatever happens: give the cluster a ZooKeeper to cut them off from it"
            )
        for way in ((source, target), (target, source))[: 2 if both else 1]:
            self._wiring.cut(*way)
            self._cuts.add(way)

    def mend(self) -> None:
        """Let everything through again between all of them."""
        while self._cuts:
            self._wiring.mend(*self._cuts.pop())

    # ---------------------------------------------------------------- what it is

    @property
    def address(self) -> str:
        """HOST:PORT of all brokers, for any client's `bootstrap.servers`."""
        return ",".join(member.address for member in self.members.values())

    def controller(self) -> int:
        """The controller's number, or -1 while there is none."""
        with self.admin() as admin:
            return admin.describe_cluster().controller_id

    def leader(self, topic: str, partition: int) -> int:
        """The number of a partition's leader, or -1 while there is none."""
        with self.admin() as admin:
            found = admin.describe_topics(topic)[topic].partitions.get(partition)
        return NOBODY if found is None else found.leader

    def admin(self) -> Admin:
        """A client that asks the brokers that run."""
        import ottla

        return ottla.Admin([member.address for member in self.members.values() if member.is_running])

    def _asked_each(self, ask: Callable[[Admin], T]) -> Iterator[T]:
        """What each broker that runs, and is not paused, says: one that was cut off may not know yet what it has missed."""
        import ottla

        for node_id, member in self.members.items():
            if member.is_running and node_id not in self._paused:
                with ottla.Admin(member.address) as admin:
                    yield ask(admin)

    def wait_joined(self, timeout_s: float = 60.0) -> None:
        """Return once all brokers that run know of each other, and of a controller. Raises `NotYet`."""

        def joined() -> bool:
            running = {node_id for node_id, member in self.members.items() if member.is_running}
            return all(
                found.controller_id in running and {node.node_id for node in found.nodes} >= running
                for found in self._asked_each(lambda admin: admin.describe_cluster())
            )

        self.wait_until(joined, lambda: "not all brokers are known to a controller", timeout_s)

    def wait_in_sync(self, *topics: str, timeout_s: float = 60.0) -> None:
        """Return once all brokers know each partition of these topics to be led, and all its replicas in sync. Raises `NotYet`."""

        def all_in_sync() -> str:
            found = [part for told in self._asked_each(lambda admin: admin.describe_topics(*topics)) for part in lagging(told)]
            return ", ".join(dict.fromkeys(f"{name}-{part.partition} {part.leader} {part.isr}" for name, part in found))

        self.wait_until(lambda: not all_in_sync(), lambda: f"not in sync: {all_in_sync()}", timeout_s)

    def wait_until(self, happened: Callable[[], bool], told: Callable[[], str] = str, timeout_s: float = 60.0) -> None:
        """Return once `happened` says so; errors that go by count as no. Raises `NotYet` with what `told` returns."""
        from ottla import KafkaError

        until = time.monotonic() + timeout_s
        while time.monotonic() < until:
            with suppress(KafkaError):
                if happened():
                    return
            time.sleep(_LOOK_AGAIN_S)
        raise NotYet(f"after {timeout_s:g} s: {told()}")


def lagging(topics: Mapping[str, object]) -> Iterator[tuple[str, PartitionInfo]]:
    """The partitions that have no leader, or a replica that is not in sync."""
    from ottla.client.metadata import TopicInfo

    for name, topic in topics.items():
        assert isinstance(topic, TopicInfo)
        for part in topic.partitions.values():
            if part.leader == NOBODY or set(part.isr) != set(part.replicas):
                yield name, part


def free_port() -> int:
    """A port of this host that nobody listens on now, and that connections are not given by chance before a broker takes it."""
    while True:
        port = random.choice(_PORTS)
        with closing(socket.socket()) as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
