"""The metrics and the health of a broker, for other threads. The broker's thread does the work in slices, and never waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from ottla.broker.metrics.declaration import MetricRows
from ottla.net.disk.disk import RealDisk
from ottla.net.disk.measured_disk import MeasuredDisk
from ottla.net.server.broker_thread import BrokerThread
from ottla.net.server.server import Server
from ottla.net.server.server_metrics import SERVER, ServerParts, ThreadTime

MOST_NAMED: Final = 100


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether a broker is ready for clients. `reasons` are sentences that say why not."""

    reasons: tuple[str, ...]
    partitions: int = 0
    offline: tuple[str, ...] = ()
    """The names of offline partitions, the first hundred."""

    @property
    def is_ready(self) -> bool:
        return not self.reasons


class MetricsSource:
    """The source of a broker's metrics. It is created on the broker's thread, and any thread may call its methods."""

    def __init__(self, server: Server, thread: BrokerThread, disk: RealDisk) -> None:
        self._server = server
        self._thread = thread
        self._snapshots = server.broker.snapshots()
        syncs = disk.syncs if isinstance(disk, MeasuredDisk) else None
        self._snapshots.add(SERVER.readers, ServerParts(server, ThreadTime(), syncs, time.time()))

    def snapshot(self) -> Future[MetricRows]:
        """Return a future of a snapshot of all metrics."""
        return self._thread.request(self._snapshots.request)

    def answer(self) -> Future[float]:
        """Return a future of the time, in s, that a call needs until the broker's thread runs it."""
        began_s = time.monotonic()
        return self._thread.request(lambda done: done(time.monotonic() - began_s))

    def readiness(self) -> Future[Readiness]:
        """Return a future of whether the broker is ready: it listens, is a member of its cluster, and its logs are open."""
        return self._thread.request(self._judge)

    def _judge(self, done: Callable[[Readiness], None]) -> None:
        broker, reasons = self._server.broker, list[str]()
        if not self._server.is_listening:
            reasons.append("The listeners are not open.")
        if not broker.membership.is_member(broker.clock.now()):
            reasons.append("The broker is not registered in its cluster: see its log for the registry's state.")
        partitions = list(broker.partitions)
        offline = [str(partition) for partition in partitions if partition.offline is not None]
        if offline:
            reasons.append(f"{len(offline)} partitions are offline, such as {offline[0]}: see the broker's log.")
        done(Readiness(tuple(reasons), len(partitions), tuple(offline[:MOST_NAMED])))
