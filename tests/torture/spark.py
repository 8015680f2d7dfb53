"""`make torture-spark`: a query on a cluster of executors, killed again and again at random; its rows must be there exactly once.

    python -m tests.torture.spark --kills 100 [--two-phase] [--peer apache-kafka]

Victims are the driver, an executor, a Python worker and the broker, each by SIGKILL, and one in three kills comes at a named point
of the exactly-once sink. Speculation is on. Numbers are written into a topic all the time; at the end, what a reader with
read_committed sees in the other topic is what was written, each number once.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its stubs leave out what it passes on

from tests.support.peers import Peer, start_peer
from tests.support.spark_points import FILE, HOOK

ROOT = Path(__file__).parents[2]
SOURCE, TARGET, PARTITIONS = "input", "output", 2
MARK = "OTTLA_TORTURE"
STEPS = (
    "BeginId", "OpenWith", "ReadDecision", "WriteOn", "ContinueId",
    "FenceCommitters", "DescribeIds", "PrepareHanded", "Decide", "EndHanded", "ListOpen",
)  # fmt: skip
POINTS = [f"{when} {step}" for step in STEPS for when in ("before", "after")]
SETTINGS: dict[str, object] = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 2_000}
TWO_PHASES: dict[str, object] = {"transaction.two.phase.commit.enable": "true"}
PATIENCE_S = 300


class SparkTortured(NamedTuple):
    """How often whom was killed, how many numbers were written, and what was wrong."""

    kills: Counter[str]
    written: int
    faults: list[str]


class TorturedQuery:
    """The driver's process and its children, started again whenever it ends."""

    def __init__(self, address: str, home: Path) -> None:
        self._address, self._home = address, home
        self._mark = uuid.uuid4().hex
        self.armed, self._stop = home / "kill-at", home / "stop"
        self.starts = 0
        self.begin()

    def begin(self) -> None:
        """Start the driver where the checkpoint was left."""
        self.starts += 1
        environment = {**os.environ, MARK: self._mark, FILE: str(self.armed), "OTTLA_ONCE_HOOK": HOOK}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        words = [self._address, SOURCE, TARGET, str(self._home / "checkpoint"), str(self._stop)]
        with (self._home / f"driver-{self.starts}.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.torture.spark_query", *words], env=environment, cwd=self._home, stdout=log, stderr=log
            )

    @property
    def log(self) -> str:
        return (self._home / f"driver-{self.starts}.log").read_text(errors="replace")

    def wait_for(self, words: str, timeout_s: float = PATIENCE_S) -> bool:
        """Whether the driver says so before it ends, or `timeout_s` are over."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if words in self.log:
                return True
            if self._process.poll() is not None:
                return words in self.log
            time.sleep(0.05)
        return False

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def _pids(self, part: str) -> list[int]:
        """This query's processes whose command holds `part`; processes of others are never touched."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                try:
                    marked = f"{MARK}={self._mark}".encode() in (entry / "environ").read_bytes()
                    command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                except OSError:  # it has come to its end meanwhile
                    continue
                if marked and part in command:
                    found.append(int(entry.name))
        return found

    def kill(self, victim: str) -> bool:
        """Kill one of a kind, if there is one now."""
        part = {"driver": "SparkSubmit", "executor": "CoarseGrainedExecutorBackend", "worker": "pyspark.daemon"}[victim]
        pids = self._pids(part)
        if not pids:
            return False
        return _killed(random.choice(pids))

    def end(self) -> bool:
        """Let the query write what is left. Whether it says so."""
        self._stop.touch()
        return self.wait_for("done")

    def clear(self) -> None:
        """Kill what is left of it."""
        for pid in self._pids(""):
            if pid != os.getpid():
                _killed(pid)
        self._process.wait()


def _killed(pid: int) -> bool:
    """Kill a process, unless it has come to its end by itself meanwhile."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


class Numbers(threading.Thread):
    """Writes numbers until it is told to stop; a broker that dies is waited for."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer(
            {"bootstrap.servers": address, "enable.idempotence": True, "message.timeout.ms": 600_000, "log_level": 0}
        )
        self.stopping = threading.Event()
        self.written = 0

    def run(self) -> None:
        while not self.stopping.wait(0.02):
            self._producer.produce(SOURCE, str(self.written))
            self.written += 1
            self._producer.poll(0)
        self._producer.flush(120)


def read_committed(address: str) -> Counter[int]:
    """How often each number is visible."""
    settings = {"bootstrap.servers": address, "group.id": "judge", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.partition.eof": True})
    found = Counter[int]()
    for index in range(PARTITIONS):
        consumer.assign([TopicPartition(TARGET, index, OFFSET_BEGINNING)])
        while (message := consumer.poll(60)) is not None and message.error() is None:
            found[int(message.value() or b"-1")] += 1
        if message is None:
            raise TimeoutError(f"{TARGET}-{index} has no end that a reader of committed records comes to")
    consumer.close()
    return found


def torture(kills: int, peer: str, home: Path, *, two_phase: bool = False, tell: bool = True) -> SparkTortured:
    """Kill so often, then let the query end in peace, and judge what it wrote."""
    random.seed(int(time.time()))
    faults: list[str] = []
    counted = Counter[str]()
    with start_peer(peer, home, SETTINGS | (TWO_PHASES if two_phase else {})) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        for made in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (SOURCE, TARGET)]).values():
            made.result(30)
        numbers = Numbers(broker.address)
        numbers.start()
        query = TorturedQuery(broker.address, home)
        try:
            while counted.total() < kills:
                _kill_one(query, broker, counted, tell)
            query.armed.unlink(missing_ok=True)
            numbers.stopping.set()
            numbers.join()
            for _ in range(5):
                if query.end():
                    break
                query.clear()
                query.begin()
            else:
                faults.append(f"the query does not end: {query.log[-2000:]}")
            seen = read_committed(broker.address)
        finally:
            query.clear()
    faults += _judged(seen, numbers.written)
    return SparkTortured(counted, numbers.written, faults)


def _kill_one(query: TorturedQuery, broker: Peer, counted: Counter[str], tell: bool) -> None:
    if query.has_ended():
        query.clear()
        query.begin()
    if not query.wait_for("batch "):
        query.clear()
        query.begin()
        return
    time.sleep(random.random() * 3)
    victim = random.choices(["driver", "executor", "worker", "broker", "point"], [2, 2, 3, 1, 4])[0]
    if victim == "point":
        point = random.choice(POINTS)
        query.armed.write_text(point)
        deadline = time.monotonic() + 10
        while query.armed.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        if query.armed.exists():
            query.armed.unlink(missing_ok=True)
            return
        victim = point
    elif victim == "broker":
        broker.restart(kill=True)
    elif not query.kill(victim):
        return
    counted[victim] += 1
    if tell:
        print(f"{counted.total()}: {victim}", flush=True)


def _judged(seen: Counter[int], written: int) -> list[str]:
    twice = sorted(number for number, count in seen.items() if count > 1)
    lost = sorted(set(range(written)) - seen.keys())
    found = []
    if twice:
        found.append(f"{len(twice)} numbers are there more than once: {twice[:10]}")
    if lost:
        found.append(f"{len(lost)} of {written} numbers are lost: {lost[:10]}")
    return found


def main(arguments: list[str] | None = None) -> int:
    """The exit code is 1 where a number is lost or there twice."""
    parser = argparse.ArgumentParser(prog="python -m tests.torture.spark", description="Kill a query of Spark's at random.")
    parser.add_argument("--kills", type=int, default=100, help="how often")
    parser.add_argument("--peer", default="ottla", choices=["ottla", "apache-kafka"], help="whose broker")
    parser.add_argument("--two-phase", action="store_true", help="brokers allow two-phase commit: what is decided has no timeout")
    chosen = parser.parse_args(arguments)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ottla-torture-spark-") as home:
        found = torture(chosen.kills, chosen.peer, Path(home), two_phase=chosen.two_phase)
    for fault in found.faults:
        print(fault)
    killed = ", ".join(f"{name} {count}" for name, count in sorted(found.kills.items()))
    took = time.monotonic() - began
    print(f"{found.kills.total()} kills in {took:.0f} s ({killed}); {found.written} numbers written, {len(found.faults)} faults")
    return 1 if found.faults else 0


if __name__ == "__main__":
    sys.exit(main())
