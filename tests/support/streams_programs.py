"""Instances of a Kafka Streams application in a streams group (`tests/interop/java/StreamsCount`), and questions to them."""

from __future__ import annotations

import queue
import re
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.apache_kafka import free_port
from tests.support import jars
from tests.support.java import LIGHT
from tests.support.java_programs import Committed, had
from tests.support.waiting import eventually

PATIENCE_S = 90
STREAMS_SETTINGS: Mapping[str, object] = {
    "group.streams.heartbeat.interval.ms": 500,
    "group.streams.min.heartbeat.interval.ms": 100,
    "group.streams.session.timeout.ms": 6000,
    "group.streams.min.session.timeout.ms": 1000,
    "group.streams.initial.rebalance.delay.ms": 0,
    "group.streams.assignment.interval.ms": 0,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}
"""Members join, notice each other and are missed within seconds. What a killed one has left open is ended soon."""


class LocalTasks(NamedTuple):
    """The tasks of one instance, as `subtopology_partition`."""

    active: frozenset[str]
    standby: frozenset[str]


class StreamsInstance:
    """One running instance. `ask` puts a question to it; `log` has what it wrote."""

    def __init__(self, command: Sequence[str], log: Path, port: int) -> None:
        self.log, self.port = log, port
        with log.open("ab") as errors:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)
        self._answers: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("= "):
                self._answers.put(line[2:].rstrip("\n"))

    def ask(self, question: str) -> str:
        assert self.process.stdin is not None
        assert self.process.poll() is None, f"the application ended: {self.tail()}"
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        return self._answers.get(timeout=PATIENCE_S)

    @property
    def is_ended(self) -> bool:
        """Whether `kill` or `close` was called."""
        return self.process.stdin is None or self.process.stdin.closed

    @property
    def tasks(self) -> LocalTasks:
        found = re.fullmatch(r"active (\S*) standby (\S*)", self.ask("tasks"))
        assert found is not None
        active, standby = (frozenset(each.split(",")) - {""} for each in found.groups())
        return LocalTasks(active, standby)

    def is_running(self) -> bool:
        return self.ask("state") == "RUNNING"

    def wait_running(self) -> None:
        eventually(self.is_running, timeout_s=PATIENCE_S, what="an instance is running")

    def kill(self) -> None:
        self.process.kill()
        self._end()

    def close(self) -> None:
        """End it as an operator does: it leaves its group."""
        assert self.ask("shutdown") == "closed"
        self._end()

    def _end(self) -> None:
        self.process.wait(PATIENCE_S)
        self._reader.join()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()

    def tail(self) -> str:
        return self.log.read_text()[-3000:]


class StreamsApplication:
    """An application over the topics `source` and `target`. Each instance has a state directory of its own."""

    options: Sequence[str] = LIGHT
    """Of its Java machines."""

    def __init__(self, address: str, home: Path, source: str = "lines", target: str = "counts", **settings: object) -> None:
        self.address, self.home, self.source, self.target = address, home, source, target
        self.group = f"count-{source}"
        self._settings = settings
        self.instances: list[StreamsInstance] = []
        self._command = had(lambda: jars.program("StreamsCount", jars.streams(), home / "classes", self.options))

    def start(self, name: str, **settings: object) -> StreamsInstance:
        """Start an instance whose state is in `name`. An underscore in the name of a setting stands for a dot."""
        port = free_port()
        wanted = {"application_server": f"127.0.0.1:{port}", **self._settings, **settings}
        words = [f"{key.replace('_', '.')}={value}" for key, value in wanted.items()]
        command = [*self._command, self.address, str(self.home / name), self.source, self.target, *words]
        instance = StreamsInstance(command, self.home / f"{name}.log", port)
        self.instances.append(instance)
        return instance

    def kill(self) -> None:
        for instance in self.instances:
            if not instance.is_ended:
                instance.kill()


@contextmanager
def application(address: str, home: Path, **settings: object) -> Iterator[StreamsApplication]:
    """An application whose instances are killed when the block ends."""
    found = StreamsApplication(address, home, "lines", "counts", **settings)
    try:
        yield found
    finally:
        found.kill()


def wait_for_tasks(instances: Sequence[StreamsInstance], active: int, *, standby: int = 0) -> None:
    """Wait until all are running, and together have so many tasks, each active once."""

    def have() -> bool:
        found = [instance.tasks for instance in instances]
        counts = [len(each.active) for each in found]
        named = Counter(task for each in found for task in each.active)
        return (
            all(instance.is_running() for instance in instances)
            and sum(counts) == active == len(named)
            and min(counts) > 0
            and sum(len(each.standby) for each in found) == standby
        )

    eventually(have, timeout_s=PATIENCE_S, what=f"{len(instances)} instances share {active} tasks and {standby} standby tasks")


def check_counts(counts: Committed, wanted: Counter[str]) -> None:
    """Each word was counted once for each time that it was written."""
    for word, count in wanted.items():
        assert [value for key, value in counts.pairs if key == word] == [str(number) for number in range(1, count + 1)], word
