"""The brokers that are measured, as processes seen from outside: start, address, CPU seconds, resident memory.

Knows how each is started. Both get a fresh data directory and nothing but default settings that concern speed.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

import psutil

from bench.apache_kafka import VERSION, ApacheKafka, answers
from ottla.testing import BrokerProcess

QUICK_GROUPS: dict[str, object] = {"group.initial.rebalance.delay.ms": 0}
JOURNAL: dict[str, object] = {"ottla.journal.bytes": 64 << 20}
"""The default of `ottla serve`, where `BrokerProcess` has less for tests."""

WITH_TWO_PHASES: dict[str, object] = {**QUICK_GROUPS, "transaction.two.phase.commit.enable": "true"}
"""Costs nothing but where a producer asks for it, as Spark's sink does for one row of figures."""


class Server(Protocol):
    """One running broker."""

    name: str

    @property
    def address(self) -> str: ...
    @property
    def pid(self) -> int: ...
    @property
    def started_in_s(self) -> float: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


class Kafka(ApacheKafka):
    """Apache Kafka, with the JVM options of `bench.apache_kafka`."""

    name = f"Apache Kafka {VERSION}"


class Ottla:
    """`ottla serve` as a process of its own: of this checkout, or of another one, whose kernels are built."""

    name = "Ottla"

    def __init__(
        self, settings: dict[str, object] | None = None, checkout: Path | None = None, arguments: Sequence[str] = ()
    ) -> None:
        if checkout is not None:
            self.name = f"{self.name} of {checkout.name}"
        self._home = Path(tempfile.mkdtemp(prefix="ottla-bench-"))
        environment = {} if checkout is None else {"PYTHONPATH": str(checkout.resolve() / "src")}
        given = {**JOURNAL, **(settings or WITH_TWO_PHASES)}
        self._broker = BrokerProcess(self._home / "data", given, environment=environment, arguments=arguments)
        self.started_in_s = 0.0

    @property
    def address(self) -> str:
        return self._broker.address

    @property
    def pid(self) -> int:
        return self._broker.pid

    @property
    def data_dir(self) -> Path:
        return self._broker.data_dir

    def __enter__(self) -> Self:
        began = time.monotonic()
        self._broker.start()
        if not answers(self._broker.host, self._broker.port):
            raise RuntimeError("Ottla said that it answers, and does not")
        self.started_in_s = time.monotonic() - began
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._broker.stop()
        shutil.rmtree(self._home, ignore_errors=True)


def cpu_s(server: Server) -> float:
    """CPU seconds that the broker's process has used so far, user and system."""
    times = psutil.Process(server.pid).cpu_times()
    return float(times.user + times.system)


def resident_mb(server: Server) -> float:
    return float(psutil.Process(server.pid).memory_info().rss) / 1e6
