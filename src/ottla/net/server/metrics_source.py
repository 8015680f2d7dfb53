"""The metrics and the health of a broker, for other threads. The broker's thread does the work in slices, and never waits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from ottla.broker.metrics.declaration import MetricRows
from ottla.net.disk.disk import RealDisk
from ottla.net.disk.measured_disk import MeasuredDisk
from ottla.net.server.exception_boundary import BrokerFailed
from ottla.net.server.server import Server
from ottla.net.server.server_metrics import SERVER, ServerParts, ThreadTime

T = TypeVar("T")

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

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop, disk: RealDisk) -> None:
        self._server = server
        self._loop = loop
        self._snapshots = server.broker.snapshots()
        syncs = disk.syncs if isinstance(disk, MeasuredDisk) else None
        self._snapshots.add(SERVER.readers, ServerParts(server, ThreadTime(), syncs, time.time()))

    def snapshot(self) -> Future[MetricRows]:
        """Return a future of a snapshot of all metrics."""
        return self._on_loop(self._snapshots.request)

    def answer(self) -> Future[float]:
        """Return a future of the time, in s, that a call needs until the broker's thread runs it."""
        began_s = time.monotonic()
        return self._on_loop(lambda done: done(time.monotonic() - began_s))

    def readiness(self) -> Future[Readiness]:
        """Return a future of whether the broker is ready: it listens, is a member of its cluster, and its logs are open."""
        return self._on_loop(self._judge)

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

    def _on_loop(self, begin: Callable[[Callable[[T], None]], None]) -> Future[T]:
        """Call `begin(done)` on the broker's thread, and return a future of the value that `done` gets.

        The future fails with `BrokerFailed` if the broker has ended.
        """
        future: Future[T] = Future()

        def call() -> None:
            self._server.complete(partial(begin, partial(_resolve, future)))
            if self._server.door.failure is not None and not future.done():
                future.set_exception(BrokerFailed())

        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:  # the loop is closed
            future.set_exception(BrokerFailed())
        return future


def _resolve(future: Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)
