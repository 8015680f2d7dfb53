"""The start and stop of one broker: data directory, registry, state machine and listeners, in order.

The module uses every real port. Command line and signals belong to `net.process.serve`, threads to `net.process.embedded_broker`.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Protocol

from ottla.broker.broker import BrokerMachine
from ottla.broker.membership.membership import NO_EPOCH
from ottla.broker.security.rights import Authorizer
from ottla.broker.settings import BrokerSettings, SecurityProtocol, SettingError
from ottla.broker.settings.broker_groups import BUILT_IN_ASSIGNORS
from ottla.cluster.metadata import ClusterPorts
from ottla.net.clock import RealClock
from ottla.net.disk.disk import RealDisk
from ottla.net.disk.remedies import remedy_of
from ottla.net.process_loggers import ProcessLoggers
from ottla.net.security.verifiers import SystemProofs
from ottla.net.server.broker_thread import BrokerThread
from ottla.net.server.exception_boundary import BrokerFailed
from ottla.net.server.listeners import PLAINTEXT, Listen, cannot_listen
from ottla.net.server.server import Server
from ottla.net.startup import first_clients, log_output, warm_up
from ottla.net.startup.data_directory import DataDirectory, DataDirectoryError
from ottla.net.startup.loop_calls import Posts
from ottla.net.startup.old_registry import open_registry
from ottla.net.startup.open_files import MOST_CONNECTIONS, Shares, shares
from ottla.net.startup.plugins import assignors as named
from ottla.net.startup.plugins import own_authorizer
from ottla.net.startup.worker_threads import RealWorkers
from ottla.ports import Registry, RegistryDamaged, StorageFailed

if TYPE_CHECKING:
    from ottla.coord.consumer.assign import Assignor
    from ottla.net.server.in_flight_source import InFlightSource
    from ottla.net.server.metrics_source import MetricsSource
    from ottla.net.startup.cluster_start import ClusterPlace

log = logging.getLogger("ottla.net")

HOUSE_EVERY_S = 1


class Closable(Protocol):
    """A registry that can be closed."""

    def close(self) -> None: ...


class Running:
    """A running broker. `addresses` are the actual addresses of its listeners, in the requested order."""

    def __init__(
        self,
        server: Server,
        directory: DataDirectory,
        disk: RealDisk,
        registry: Closable,
        workers: RealWorkers,
        proofs: SystemProofs,
    ) -> None:
        self.server = server
        self.addresses: list[Listen] = []
        self.took_s = 0.0
        self._directory = directory
        self._disk = disk
        self._workers = workers
        self._registry = registry
        self._proofs = proofs
        self._registry07: Closable | None = None
        self._stopped = False
        self._loop = asyncio.get_running_loop()
        self._thread = BrokerThread(server, self._loop)
        self._looked_at_opens: int | None = None
        self._check_periodically()

    @property
    def broker(self) -> BrokerMachine:
        return self.server.broker

    async def listen(self, where: Listen) -> None:
        """Open one more listener."""
        if where.spoken.has_sasl:
            self.broker.logins.open(where.name)
        try:
            host, port = await self.server.listen(where)
        except (OSError, UnicodeError) as error:
            raise cannot_listen(where, error) from error
        self.addresses.append(replace(where, host=host, port=port))

    def metrics(self) -> MetricsSource:
        """Return a source of the broker's metrics for other threads than the broker's. Only these may call this method."""
        from ottla.net.server.metrics_source import MetricsSource

        async def make() -> MetricsSource:
            return MetricsSource(self.server, self._thread, self._disk)

        return asyncio.run_coroutine_threadsafe(make(), self._loop).result()

    def in_flight(self) -> InFlightSource:
        """Return a source of the records in flight of share groups, for other threads than the broker's."""
        from ottla.net.server.in_flight_source import InFlightSource

        return InFlightSource(self.broker, self._thread)

    def register07(self, posts: Posts) -> None:
        """Register the broker for Kafka 0.7 clients if a ZooKeeper is configured for them. Raises `SettingError`."""
        self._registry07 = first_clients.register(self.server, self.addresses, posts)

    def _check_periodically(self) -> None:
        """Refill the reserve after a full disk, and check whether all logs are verified, every `HOUSE_EVERY_S` seconds."""
        self._directory.reserve.refill()
        self._note_boot()
        self._keeping = asyncio.get_running_loop().call_later(HOUSE_EVERY_S, self._check_periodically)

    def _note_boot(self) -> None:
        """Store the boot id once all logs are verified. In a cluster, logs are opened later than the start."""
        opens = self.broker.partitions.opens
        if opens != self._looked_at_opens and not self._directory.is_boot_noted:
            self._looked_at_opens = opens
            if self.broker.are_all_checked:
                self._directory.note_boot()

    def check(self) -> None:
        """Raise `BrokerFailed` if a bug has ended the broker."""
        if self.server.door.failure is not None:
            raise BrokerFailed from self.server.door.failure

    async def stop(self) -> None:
        """Close connections and logs, write the clean-shutdown marker, and release the data directory."""
        if self._stopped:
            return
        self._stopped = True
        await self._transfer_leadership()
        if self._registry07 is not None:
            await asyncio.to_thread(self._registry07.close)
        self._keeping.cancel()
        self._directory.reserve.make_room()
        clean = await self.server.close()
        self._workers.close()
        self._proofs.close()
        try:
            self._registry.close()
        except StorageFailed as failure:
            log.warning("the registry was not closed cleanly: %s; the next start recovers it", failure)
        await asyncio.to_thread(self._disk.close)  # an unfinished sync must not touch the directory after its release
        if clean:
            self._directory.close()
        else:
            self._directory.release()

    async def _transfer_leadership(self) -> None:
        """Transfer the broker's leaderships to other brokers of its cluster while this broker still serves."""
        membership = self.broker.membership
        if membership is None or membership.broker_epoch == NO_EPOCH or self.server.door.failure is not None:
            return
        handed_over = asyncio.Event()
        self.server.complete(partial(self.broker.transfer_leadership, handed_over.set))
        waits = [asyncio.ensure_future(event.wait()) for event in (handed_over, self.server.failed)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)  # a broker that a bug has ended never calls back
        for wait in waits:
            wait.cancel()


async def start(
    data_dir: str, listen: list[Listen], settings: BrokerSettings, assignors: Sequence[str | Assignor] | None = None
) -> Running:
    """Start a broker on the running loop. `assignors` override the assignors of the settings.

    Raises exceptions whose messages are one sentence: `SettingError` (an assignor or an authorizer not found, an advertised address
    without a listener); `DataDirectoryError` (locked, not writable, of a newer format); `CannotListen`; and in a cluster
    `NotAMember`.
    """
    began = time.perf_counter()
    log_output.limit()
    settings = match_advertised(settings, [where.name for where in listen])
    listen = [with_protocol(where, settings) for where in listen]
    first_clients.check(listen, settings)
    if settings.idle:
        log.warning("ignored settings, which have no effect in Ottla: %s", ", ".join(settings.idle))
    wanted = settings.group_consumer_assignors if assignors is None else assignors
    found = None if assignors is None and set(wanted) <= {*BUILT_IN_ASSIGNORS} else named(wanted)  # None: those of the settings
    authorizer = own_authorizer(settings.authorizer_class_name)
    posts = Posts(asyncio.get_running_loop())
    place = await _cluster_place(data_dir, settings, posts)
    directory = DataDirectory.open(data_dir, node_id=settings.node_id) if place is None else place.directory
    running = _start_machine(directory, settings, found, authorizer, posts, place)
    try:
        if place is not None:
            await place.prepare(running.broker)
        for where in listen:
            await running.listen(where)
        if place is not None:
            await place.register(running.broker, running.addresses)
        running.register07(posts)
    except BaseException:
        await running.stop()
        raise
    running.took_s = time.perf_counter() - began
    server = running.server
    server.complete(partial(warm_up.begin, server.broker.scheduler, lambda: server.has_requests))
    return running


async def _cluster_place(data_dir: str, settings: BrokerSettings, posts: Posts) -> ClusterPlace | None:
    """Return the connections to the broker's cluster; None for a single broker, which needs none of their modules."""
    if settings.registry_address is None:
        return None
    from ottla.net.startup.cluster_start import open_place

    return await open_place(data_dir, settings, posts)


def match_advertised(settings: BrokerSettings, names: Sequence[str]) -> BrokerSettings:
    """Return the settings in which each advertised address has the name of its listener, one of `names`.

    A single listener of an old release has a default name of its own. An advertised address for PLAINTEXT is then assigned to this
    listener. Raises `SettingError` for an address without a listener.
    """
    told = settings.advertised_listeners or ()
    strangers = [address.name for address in told if address.name not in names]
    if not strangers:
        return settings
    left = set(names) - {address.name for address in told}
    if strangers != [PLAINTEXT] or len(left) != 1:
        raise SettingError(
            f"advertised.listeners names {strangers[0]}, which is not in listeners: choose the name of {', '.join(names)}."
        )
    addresses = [address._replace(name=min(left)) if address.name == PLAINTEXT else address for address in told]
    return BrokerSettings(settings.given | {"advertised.listeners": ",".join(map(str, addresses))})


def with_protocol(where: Listen, settings: BrokerSettings) -> Listen:
    """Return the listener with its security protocol.

    The protocol is the listener's own, otherwise the one in `listener.security.protocol.map`, otherwise PLAINTEXT. Raises
    `SettingError` if the first two differ.
    """
    mapped = settings.security_of(where.name)
    wanted = where.security or mapped or SecurityProtocol.PLAINTEXT
    if mapped not in (None, wanted):
        raise SettingError(
            f"Listener {where.name} has {wanted.value}, but {mapped.value} in listener.security.protocol.map: make both equal."
        )
    settings.of_listener(where.name)  # raises if settings of this listener conflict with each other
    return replace(where, security=wanted)


def _start_machine(
    directory: DataDirectory,
    settings: BrokerSettings,
    assignors: tuple[Assignor, ...] | None,
    authorizer: Authorizer | None,
    posts: Posts,
    place: ClusterPlace | None,
) -> Running:
    """Start the broker's state machine on the directory's contents, without listeners.

    If this fails, release everything that was opened, including the directory.
    """
    try:
        with ExitStack() as held:
            held.callback(directory.release)
            directory.open_log_dirs(settings.log_dirs or (), is_shared=place is not None)
            share = shares(settings.ottla_max_open_files)
            disk = _open_disk(directory, settings, posts, share.files)
            held.callback(disk.close)
            cluster: ClusterPorts | Registry = open_registry(directory.path, disk) if place is None else place.ports
            registry = cluster.registry if isinstance(cluster, ClusterPorts) else cluster
            held.callback(registry.close)
            workers, proofs = RealWorkers(posts), SystemProofs()
            held.callback(workers.close)
            held.callback(proofs.close)
            given = BrokerSettings(settings.given | {"log.dirs": directory.all_paths}, found=_found(share))
            broker = _machine(directory, given, disk, cluster, workers, assignors, authorizer, proofs)
            server = Server(broker, asyncio.get_running_loop(), share.connections)
            posts.reach(server.complete)
            if place is not None:
                place.links.follow(broker.settings_in_force)
            with _without_collection():
                server.start(clean=directory.clean, was_killed=directory.was_killed)
            directory.reserve.keep(settings.ottla_reserve_bytes)
            directory.reserve.refill(settings.ottla_reserve_bytes)
            held.pop_all()
    except RegistryDamaged as damage:
        raise DataDirectoryError(f"The data directory {directory.path} cannot be used: {damage}.") from damage
    except StorageFailed as failure:
        remedy = "free space on its disk, which is full" if directory.reserve.is_disk_full else remedy_of(failure)
        sentence = f"The data directory {directory.path} cannot be used ({failure}): {remedy}, or choose another with --data-dir."
        raise DataDirectoryError(sentence) from failure
    return Running(server, directory, disk, registry, workers, proofs)


def _machine(
    directory: DataDirectory,
    settings: BrokerSettings,
    disk: RealDisk,
    cluster: ClusterPorts | Registry,
    workers: RealWorkers,
    assignors: tuple[Assignor, ...] | None,
    authorizer: Authorizer | None,
    proofs: SystemProofs,
) -> BrokerMachine:
    """Return the broker's state machine, with the real clock, disk and random bytes."""
    return BrokerMachine(
        settings=settings,
        clock=RealClock(),
        disk=disk,
        cluster=cluster,
        node_id=directory.node_id,
        cluster_id=directory.cluster_id,
        random_bytes=os.urandom,
        workers=workers,
        assignors=assignors,
        proofs=proofs,
        authorizer=authorizer,
        first_dialect=first_clients.first_dialect(),
        loggers=ProcessLoggers(),
        log_dirs=directory.log_dirs,
    )


def _open_disk(directory: DataDirectory, settings: BrokerSettings, posts: Posts, max_open_files: int) -> RealDisk:
    """Return the disk of the data directory and the log directories."""
    return _kind_of_disk(settings)(
        directory.path,
        posts,
        max_open_files=max_open_files,
        reserve=directory.reserve,
        log_dirs=directory.log_dirs,
        watch=posts.watch,
    )


def _kind_of_disk(settings: BrokerSettings) -> type[RealDisk]:
    """Return the class of the disk: one that measures its syncs if the settings require metrics."""
    if not settings.measures:
        return RealDisk
    from ottla.net.disk.measured_disk import MeasuredDisk

    return MeasuredDisk


def _found(share: Shares) -> dict[str, str]:
    """Return the settings whose defaults depend on the process's limit of open files."""
    return {"max.connections": str(min(share.connections, MOST_CONNECTIONS))}


@contextmanager
def _without_collection() -> Iterator[None]:
    """Disable garbage collection while a broker loads its state, because it would traverse a million offsets repeatedly."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
