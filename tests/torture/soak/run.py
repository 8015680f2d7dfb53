"""One soak from its first topic to its verdict."""

from __future__ import annotations

import logging
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ottla
from bench.apache_kafka import Unavailable, class_path, free_port
from ottla.testing import BrokerProcess, DidNotStart
from tests.torture import kills
from tests.torture.soak import process
from tests.torture.soak.audit import Compacted, Tail, audit
from tests.torture.soak.changes import Change, Commits, Cuts, Passers, Renewals
from tests.torture.soak.clock import Clock
from tests.torture.soak.kinds import KINDS, Kind
from tests.torture.soak.ledger import Ledger, Partition
from tests.torture.soak.looks import Looks
from tests.torture.soak.members import GROUPS, JAVA, Members
from tests.torture.soak.schedule import KILL, MEMBER, MOVE, STOP, Event, schedule
from tests.torture.soak.writers import WRITERS, JavaWriter, Writer

EVERY_MS = 1000
SESSION_MS, HEARTBEAT_MS = 6_000, 500
OFFSETS_KEPT_MINUTES = 3 * 24 * 60
"""Less than the clock is moved by: what a group without members has committed expires then."""

SETTINGS: dict[str, object] = {
    "log.retention.check.interval.ms": EVERY_MS,
    "log.cleaner.backoff.ms": EVERY_MS,
    "log.flush.offset.checkpoint.interval.ms": EVERY_MS,
    "offsets.retention.check.interval.ms": EVERY_MS,
    "offsets.retention.minutes": OFFSETS_KEPT_MINUTES,
    "log.segment.delete.delay.ms": EVERY_MS,
    "offsets.topic.segment.bytes": 1 << 20,
    "ottla.max.open.files": 128,
    "group.initial.rebalance.delay.ms": 200,
    "group.consumer.min.session.timeout.ms": SESSION_MS,
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.min.heartbeat.interval.ms": HEARTBEAT_MS,
    "group.consumer.heartbeat.interval.ms": HEARTBEAT_MS,
}
OLD_RELEASES = {"format-0": "0.9.0", "format-1": "0.10.2"}
STOP_TIMEOUT_S = 60.0
STALLED_S = 60.0
"""How long a broker may run without acknowledging anything to one of the writers."""

AWAKE_S = 3.0
"""How long clients may need to find the broker again; that time counts for nothing."""

SETTLE_S = 90.0
TELL_EVERY_S = 10.0
SCANS = ("torn tail", "is built anew", "are built anew", "replayed from the log")
"""What the log says when a start had to look for what a clean stop leaves in order."""


@dataclass
class Soaked:
    """What happened, and what was wrong."""

    events: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    left_out: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


class Stalls:
    """Partitions to which nothing is acknowledged any more, while the broker runs."""

    def __init__(self, ledger: Ledger) -> None:
        self.faults: list[str] = []
        self._up_s = 0.0
        self._progress: dict[Partition, tuple[int, float]] = dict.fromkeys(ledger.partitions.values(), (0, 0.0))

    def look(self, up_s: float) -> None:
        """`up_s`: how long the broker ran since the last look."""
        self._up_s += up_s
        for part, (count, since_s) in self._progress.items():
            if part.count > count:
                self._progress[part] = part.count, self._up_s
            elif self._up_s - since_s > STALLED_S:
                self.faults.append(
                    f"{part}: {part.kind.writer} was acknowledged nothing after {count} for {STALLED_S:.0f} s of a running broker"
                )
                self._progress[part] = part.count, self._up_s


class Soak:
    """The broker, everybody who uses it, and everybody who looks at it."""

    def __init__(self, home: Path, seed: int, tell: Callable[[str], None]) -> None:
        self.choice = random.Random(seed)
        self._seed = seed
        self.result = Soaked()
        self.home, self._tell = home, tell
        for client in ("aiokafka", "kafka"):
            logging.getLogger(client).setLevel(logging.CRITICAL)  # they have much to say about a broker that is away
        self.clock = Clock(home)
        self.java = self._java()
        if self.clock.library is None:
            self.result.left_out.append("the clock is not moved: there is no libfaketime (Debian's package faketime has it)")
        self.kinds: tuple[Kind, ...] = tuple(kind for kind in KINDS if self.java or kind.writer != JAVA)
        self.ledger = Ledger(self.kinds)
        self.ports = {writer: free_port() for writer in OLD_RELEASES}
        listen = [f"--listen=127.0.0.1:{self.ports[writer]},release={release}" for writer, release in OLD_RELEASES.items()]
        self.broker = BrokerProcess(
            home / "data", SETTINGS, arguments=listen, environment=self.clock.environment(), start_timeout_s=60
        )
        self.watch = process.Watch(self.broker)

    def _java(self) -> str | None:
        try:
            return class_path()
        except Unavailable as missing:
            self.result.left_out.append(f"no Java client: {missing}")
            return None

    def run(self, seconds: float) -> Soaked:
        """Never raises for what the broker does: that is a fault."""
        self.broker.start()
        self.watch.begin()
        try:
            self._create_topics()
            self._begin()
            self._live(schedule(seconds, self.choice), seconds)
            self._end()
        except DidNotStart as failure:
            self.result.faults.append(str(failure))
        finally:
            self._give_up()
        self._judge()
        return self.result

    def _create_topics(self) -> None:
        with ottla.Admin(self.broker.address) as admin:
            for kind in self.kinds:
                admin.create_topic(kind.name, kind.partitions, 1, kind.settings)

    def _begin(self) -> None:
        address = self.broker.address
        self.writers: list[Writer] = [
            make(name, f"127.0.0.1:{self.ports[name]}" if name in self.ports else address, self.ledger, self.clock)
            for name, make in WRITERS.items()
        ]
        if self.java:
            self.writers.append(JavaWriter(address, self.ledger, self.clock, self.java))
        self.members = Members(self.home, address, self.java)
        self.changes: list[Change] = [
            Cuts(address, random.Random(self._seed), self.ledger),
            Renewals(address, random.Random(self._seed)),
            Passers(address, random.Random(self._seed)),
            Commits(address, random.Random(self._seed), self.clock),
        ]
        self.tail = Tail(address, self.ledger, self.clock)
        self.compacted = Compacted(address, self.ledger, self.clock)
        self.looks = Looks(address, self.ledger.partitions, self.members.groups)
        self.stalls = Stalls(self.ledger)
        for thread in (*self._busy(), self.tail, self.compacted, self.looks, self.watch):
            thread.start()

    def _live(self, events: list[Event], seconds: float) -> None:
        began = ticked = time.monotonic()
        told = 0.0
        while (age := time.monotonic() - began) < seconds:
            if not self.broker.is_running:
                self.result.faults.append("the broker ended by itself")
                return
            while events and events[0].at_s <= age:
                self._do(events.pop(0).what)
            self.members.mend()
            time.sleep(0.5)
            up_s, ticked = time.monotonic() - ticked, time.monotonic()
            if time.monotonic() - self.watch.lives[-1].began > AWAKE_S:
                self.stalls.look(min(up_s, 1.0))
            if age >= told + TELL_EVERY_S:
                told = age
                self._tell(self._progress(age, seconds))

    def _do(self, what: str) -> None:
        if what == MOVE and self.clock.library is None:
            return
        self.result.events[what] += 1
        if what == MEMBER:
            self.members.kill_one(self.choice)
        elif what == MOVE:
            self.clock.move_ahead()
        elif what == KILL:
            self.watch.end()
            kills.kill(self.broker, self.choice)
            self.watch.begin()
        elif what == STOP:
            self._stop()
            self._start_after_stop()

    def _stop(self) -> None:
        self.watch.end()
        try:
            code = self.broker.stop(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.result.faults.append(f"the broker did not stop within {STOP_TIMEOUT_S:.0f} s")
            return
        if code:
            self.result.faults.append(f"a stop was not clean: exit code {code}")
        if not process.is_marked_clean(self.broker.data_dir):
            self.result.faults.append("a stop left no mark that it was clean: the next start reads the logs")

    def _start_after_stop(self) -> None:
        before = self.broker.log_path.stat().st_size
        self.broker.start()
        self.watch.begin()
        said = self.broker.log_path.read_bytes()[before:].decode(errors="replace")
        self.result.faults += [
            f"a start after a clean stop says: {line}" for line in said.splitlines() if any(s in line for s in SCANS)
        ]

    def _busy(self) -> list[Writer | Change]:
        """Everybody who changes something."""
        return [*self.writers, *self.changes]

    def _progress(self, age: float, seconds: float) -> str:
        samples = self.watch.lives[-1].samples
        held = f"{samples[-1].rss_mb:.0f} MB, {samples[-1].files} files" if samples else "just started"
        done = ", ".join(f"{what} {count}" for what, count in sorted(self.result.events.items()))
        faults = self.result.faults + self._faults_of_all()
        counts = f"{self.ledger.count} acknowledged, {self.tail.count} read"
        return f"{age:5.0f} of {seconds:.0f} s: {counts}; {held}; {done}; {len(faults)} faults {faults[:1] or ''}"

    def _faults_of_all(self) -> list[str]:
        judges: list[Any] = [self.ledger, self.watch, self.looks, self.tail, self.stalls, *self.changes, *self.writers]
        return [fault for judge in judges for fault in judge.faults]

    def _end(self) -> None:
        """Everybody stops writing, groups read to the end, the broker is killed once more, everything is read, and it stops."""
        self._tell("the load ends")
        self.watch.is_loaded = False
        for thread in self._busy():
            thread.stopping.set()
        for writer in self.writers:
            if isinstance(writer, JavaWriter):
                writer.finish()
        for thread in self._busy():
            thread.join(120)
            if thread.is_alive():
                self.result.faults.append(f"{thread.name} did not end")
        self._settle()
        self._do(KILL)
        self._tell("everything is read once more")
        self.tail.stopping.set()
        self.compacted.stopping.set()
        self.result.faults += audit(self.broker.address, self.ledger, self.clock)
        self.looks.stopping.set()
        self._stop()
        self._check_files()

    def _settle(self) -> None:
        """Until each group has committed everything that was acknowledged in its topic."""
        deadline = time.monotonic() + SETTLE_S
        while (late := self._late()) and time.monotonic() < deadline:
            self.members.mend()
            time.sleep(0.5)
        self.result.faults += late

    def _late(self) -> list[str]:
        late = []
        for group in GROUPS:
            for (name, index), part in self.ledger.partitions.items():
                committed = self.looks.committed.get(group.name, {}).get((name, index), -1)
                if group.name in self.members.groups and name == group.topic and committed <= part.last_offset:
                    late.append(f"group {group.name} has committed {committed} of {part}, which ends at {part.last_offset + 1}")
        return late

    def _check_files(self) -> None:
        command = [sys.executable, "-m", "ottla.cli.main", "log", "check", str(self.broker.data_dir)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            self.result.faults.append(f"ottla log check says: {(done.stdout + done.stderr).strip()[-500:]}")

    def _give_up(self) -> None:
        """Nothing that was started is left behind, whatever happened."""
        watchers: list[Any] = [self.watch, self.looks, self.tail, self.compacted] if hasattr(self, "looks") else [self.watch]
        for watcher in watchers:
            watcher.stopping.set()
        if hasattr(self, "looks"):
            self.members.stop()
            for thread in self._busy():
                thread.stopping.set()
                if isinstance(thread, JavaWriter):
                    thread.close()
        self.broker.kill()
        self.watch.read_log()

    def _judge(self) -> None:
        result = self.result
        result.acknowledged = self.ledger.count
        said, faults = process.growth(self.watch.lives)
        result.faults += faults
        if hasattr(self, "looks"):
            result.faults += self._faults_of_all()
            result.said = [said, *self._said()]

    def _said(self) -> list[str]:
        counts = ", ".join(f"{change.name} {change.count}" for change in self.changes)
        askers: list[Any] = [*self.writers, *self.changes, self.tail]
        refused = sum((asker.refused for asker in askers), Counter[str]())
        watch = self.watch
        return [
            f"oldest checkpoint {watch.oldest_checkpoint_s:.1f} s, slowest sync {watch.slowest_sync_s:.2f} s",
            f"{watch.lines} lines of log, {watch.warnings} warnings",
            f"{counts}, compacted logs read {self.compacted.count}, looks {self.looks.count}, records read {self.tail.count}",
            f"members ended by themselves: {dict(self.members.ended) or 'none'}",
            *(f"refused {count} times: {what}" for what, count in refused.most_common(12)),
        ]
