"""The start of a broker in a cluster: it begins a registry session, loads the cluster's metadata, listens, and registers.

The module uses the registry's real port. Each refusal is a message of one sentence.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress

from ottla.broker.broker import BrokerMachine
from ottla.broker.membership import place
from ottla.broker.membership.membership import NotAMember
from ottla.broker.settings import BrokerSettings, Listener, SettingError
from ottla.cluster import layout
from ottla.cluster.metadata import ClusterPorts
from ottla.net.disk.disk import RealDisk
from ottla.net.links import BrokerLinks
from ottla.net.server.listeners import Listen
from ottla.net.sqlite.registry import opened_on_host
from ottla.net.startup.data_directory import DataDirectory, has_registry, new_id, node_id_in, read_properties
from ottla.net.startup.loop_calls import Posts, complete
from ottla.ports import Entry, RegistryDamaged, SharedRegistry, StorageFailed
from ottla.registry.generations import find

ANYWHERE = ("0.0.0.0", "::")  # the wildcard addresses, which cannot be advertised


class ClusterPlace:
    """A broker's connections to its cluster: its registry session, its data directory, and its links to the other brokers.

    Raises `SettingError` if the settings of the inter-broker listener are unusable.
    """

    def __init__(self, registry: SharedRegistry, directory: DataDirectory, settings: BrokerSettings, posts: Posts) -> None:
        self.registry = registry
        self.directory = directory
        self.links = BrokerLinks(directory.node_id, settings, posts.call_now)
        self.ports = ClusterPorts(registry, self.links)

    async def prepare(self, broker: BrokerMachine) -> None:
        """Load the cluster's metadata, including ACLs, before any client is served. Raises `NotAMember`."""
        await _wait_for(broker.prepare)

    async def register(self, broker: BrokerMachine, addresses: Sequence[Listen]) -> None:
        """Register the broker, and return once it is a member of the cluster. Raises `NotAMember` and `SettingError`."""
        listeners = [advertised_listener(where, broker.settings, "other brokers") for where in addresses]
        membership = broker.membership
        assert membership is not None, "this broker is one of a cluster"

        def join(told: Callable[[str], None]) -> None:
            membership.join(listeners, lambda refusal: told("" if refusal is None else str(refusal)))

        await _wait_for(join)


async def open_place(data_dir: str, settings: BrokerSettings, posts: Posts) -> ClusterPlace:
    """Begin a registry session, and lock the broker's data directory, after a check that both are of one cluster.

    Raises `SettingError`, `DataDirectoryError` and `NotAMember`.
    """
    registry = await open_shared(settings, posts)
    try:
        known = read_properties(data_dir)
        cluster_id = await _cluster(registry, data_dir, known, settings)
        await complete(place.make_persistent(registry))
        node_id = settings.node_id if settings.node_id is not None else node_id_in(known)
        if node_id is None and settings.broker_id_generation_enable:
            node_id = await complete(place.generated_node_id(registry, settings.reserved_broker_max_id))
        if node_id is None:
            raise SettingError("A broker of a cluster needs a node id: set it with --node-id.")
        directory = DataDirectory.open(data_dir, node_id=node_id, cluster_id=cluster_id, is_shared=True)
        try:
            return ClusterPlace(registry, directory, settings, posts)
        except BaseException:
            directory.release()
            raise
    except StorageFailed as failure:
        await asyncio.to_thread(registry.close)
        raise NotAMember(
            f"The registry of the cluster is not available ({failure}): start this broker again when it is."
        ) from failure
    except BaseException:
        await asyncio.to_thread(registry.close)
        raise


async def open_shared(settings: BrokerSettings, posts: Posts) -> SharedRegistry:
    """Return a session with the registry that the settings name. Raises `SettingError` and `NotAMember`."""
    if settings.ottla_registry_directory:
        return await opened_on_host(settings.ottla_registry_directory, settings.zookeeper_session_timeout_ms, posts)
    with kazoo_needed("A cluster over ZooKeeper"):
        from ottla.net.zookeeper.registry_factory import open_registry
    return await open_registry(settings, posts)


@contextmanager
def kazoo_needed(what: str) -> Iterator[None]:
    """Convert an ImportError for kazoo to `SettingError`. This is a context manager around imports."""
    try:
        yield
    except ImportError as missing:
        if (missing.name or "").partition(".")[0] != "kazoo":
            raise
        raise SettingError(f"{what} needs kazoo: pip install 'ottla[zookeeper]'.") from None


async def _cluster(registry: SharedRegistry, data_dir: str, known: Mapping[str, str], settings: BrokerSettings) -> str:
    """Return the cluster's id. If the registry has no cluster yet, create one.

    Raises `NotAMember` if the data directory is of another cluster.
    """
    address = settings.registry_address
    cluster_id = await complete(place.cluster_id(registry))
    if cluster_id is None and has_registry(data_dir):
        raise NotAMember(
            f"The data directory {data_dir} belongs to a single broker, and {address} has no cluster yet: copy the broker's "
            f"registry first, with `ottla registry copy {data_dir} {address}`."
        )
    if cluster_id is None and known.get("version") == "0" and not await _is_of_old(registry, known):
        raise NotAMember(
            f"The data directory {data_dir} is of {_text_of(known)}, and there is none in {address}: name the registry of that "
            "cluster, or another data directory."
        )
    if cluster_id is None:
        cluster_id = await complete(place.begin_cluster(registry, known.get("cluster.id") or new_id()))
    if known.get("cluster.id", cluster_id) != cluster_id:
        raise NotAMember(
            f"The data directory {data_dir} is of the cluster {known['cluster.id']}, and {address} has the registry of "
            f"{cluster_id}: name the registry of that cluster, or another data directory."
        )
    if known.get("version") == "1" and has_registry(data_dir):
        await _check_taken_along(registry, data_dir, address)
    return cluster_id


async def _is_of_old(registry: SharedRegistry, known: Mapping[str, str]) -> bool:
    """Return whether the directory and the registry are of a cluster that is older than Kafka 0.10.1.

    Clusters of these versions have no cluster id, so this cluster gets an id now.
    """
    (topics,) = await complete(registry.list([layout.TOPICS]))
    return "cluster.id" not in known and bool(topics)


def _text_of(known: Mapping[str, str]) -> str:
    return f"the cluster {known['cluster.id']}" if "cluster.id" in known else "a cluster without an id"


async def _check_taken_along(registry: SharedRegistry, data_dir: str, address: str | None) -> None:
    """Raise `NotAMember` if a lone broker used the directory after its registry was copied to the cluster.

    The copy then lacks the lone broker's changes. It also lacks a controller epoch, because each start of a lone broker begins one.
    """
    (entry,) = await complete(registry.read([layout.CONTROLLER_EPOCH]))
    if await asyncio.to_thread(_own_epoch, data_dir) > _epoch_in(entry):
        raise NotAMember(
            f"The data directory {data_dir} has been used alone since its registry was copied to {address}: copy its registry "
            "again, to an unused path."
        )


def _own_epoch(data_dir: str) -> int:
    """Return the last controller epoch in the registry of the data directory itself.

    Return 0 if that registry is unreadable, because the cluster's registry has then replaced it.
    """
    with closing(RealDisk(data_dir, lambda call: call())) as disk, suppress(RegistryDamaged, StorageFailed):
        found = find(disk)
        return 0 if found is None else _epoch_in(found.best.tree.get(layout.CONTROLLER_EPOCH))
    return 0


def _epoch_in(entry: Entry | None) -> int:
    return 0 if entry is None or not entry.value.isdigit() else int(entry.value)


async def _wait_for(start: Callable[[Callable[[str], None]], None]) -> None:
    refusal: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    start(refusal.set_result)
    if sentence := await refusal:
        raise NotAMember(sentence)


def advertised_listener(where: Listen, settings: BrokerSettings, whom: str) -> Listener:
    """Return the address at which clients or brokers reach a listener: the advertised one, otherwise its own.

    `whom` names these clients or brokers in the message of `SettingError`, which is raised if the address cannot be advertised.
    """
    for listener in settings.advertised_listeners or ():
        if listener.name == where.name:
            return listener
    if where.host in ANYWHERE:
        raise SettingError(
            f"Listener {where.name} listens on all addresses, and {whom} need a specific one: set it with "
            f"advertised.listeners={where.name}://HOST:{where.port}."
        )
    return Listener(where.name, where.host or socket.getfqdn(), where.port)
