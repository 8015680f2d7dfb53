"""Snapshots of all metrics, made on the broker's thread in slices and shared by simultaneous requests."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from ottla.broker.metrics.declaration import DeclaredMetric, MetricColumn, MetricReader, MetricRows
from ottla.broker.scheduler import Scheduler
from ottla.ports import Steps

log = logging.getLogger("ottla.broker")

Done = Callable[[MetricRows], None]

FRESH_MS: Final = 500
"""The age, in ms, up to which a snapshot also serves later requests."""


class Snapshots:
    """The source of snapshots. `parts` are readers, each sequence with the objects that they read.

    Values of a reader with `keep_ms` are found anew only after that time, because they take long and change slowly.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._parts: list[tuple[Sequence[MetricReader[Any]], Any]] = []
        self._kept: dict[int, tuple[int, list[tuple[DeclaredMetric, MetricColumn]]]] = {}
        self._last: tuple[int, MetricRows] | None = None
        self._waiting: list[Done] = []

    def add(self, readers: Sequence[MetricReader[Any]], source: Any) -> None:
        """Add readers and the objects that they read."""
        self._parts.append((readers, source))

    def request(self, done: Done) -> None:
        """Call `done` once, with a snapshot that is at most `FRESH_MS` old or is made now."""
        now_ms = self._scheduler.now().mono_ms
        if self._last is not None and now_ms - self._last[0] <= FRESH_MS:
            done(self._last[1])
            return
        self._waiting.append(done)
        if len(self._waiting) == 1:
            self._scheduler.begin(("metrics", self), self._collect(), self._finish)

    def _finish(self, samples: MetricRows) -> None:
        self._last = self._scheduler.now().mono_ms, samples
        waiting, self._waiting = self._waiting, []
        for done in waiting:
            done(samples)

    def _collect(self) -> Steps[MetricRows]:
        samples = MetricRows()
        for readers, source in self._parts:
            for reader in readers:
                yield from self._read(reader, source, samples)
            yield None
        return samples

    def _read(self, reader: MetricReader[Any], source: Any, samples: MetricRows) -> Steps[None]:
        """Run a reader, or add what it found less than `keep_ms` ago."""
        now_ms = self._scheduler.now().mono_ms
        found_ms, rows = self._kept.get(id(reader), (0, []))
        if not rows or now_ms - found_ms >= reader.keep_ms:
            own = MetricRows()
            try:
                yield from reader.read(source, own)
            except Exception:  # reading has changed nothing, and must not end the broker
                name = reader.metrics[0].name
                log.exception("%s and others could not be read; please report these lines", name, extra={"cause": name})
                own = MetricRows()
            rows = list(own.rows.items())
            if reader.keep_ms:
                self._kept[id(reader)] = now_ms, rows
        for metric, found in rows:
            samples.rows.setdefault(metric, MetricColumn()).extend(found)
