"""`make torture-clients`: Ottla's own producers, group members and transactional copiers, killed in turn with their broker.

    python -m tests.torture.clients --kills 200 --seconds 600

An idempotent producer writes numbers to a topic. Two groups read it, one of each protocol, and copiers of a third group copy it in
transactions. Every other kill is the broker's, all others are a client's, each with SIGKILL; whoever was killed is started again.
In the end nothing acknowledged is lost or doubled, each partition is in order, each record is copied once, and no offset was
committed beyond what a member had been handed out.
"""

from __future__ import annotations

import argparse
import itertools
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

from confluent_kafka import Consumer, TopicPartition

import ottla
from ottla.testing.process import BrokerProcess
from tests.support.kafka_trio import KafkaTrio
from tests.torture.clients_process import COPIES, PARTITIONS, SESSION_MS, SOURCE

SETTINGS: dict[str, object] = {
    "num.partitions": PARTITIONS,
    "group.initial.rebalance.delay.ms": 200,
    "group.min.session.timeout.ms": 1_000,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.min.heartbeat.interval.ms": 300,
    "group.consumer.heartbeat.interval.ms": 300,
    "log.segment.bytes": 1 << 20,
}
PROGRESS_S, SETTLE_S = 15.0, 60.0
COPIERS = "copiers"
GROUPS = {"readers-classic": "classic", "readers-consumer": "consumer"}


class Role(NamedTuple):
    """A process to keep running: its kind, the group, transactional id or stem of its writer's name, and its protocol."""

    kind: str
    name: str
    protocol: str


def roles(members: int) -> list[Role]:
    """Return the processes of a run, with so many members of each group."""
    readers = [Role("member", group, protocol) for group, protocol in GROUPS.items() for _ in range(members)]
    copiers = [Role("copier", f"copier-{number}", "consumer" if number % 2 else "classic") for number in range(members)]
    return [Role("writer", "writer", "classic"), *readers, *copiers]


class Killed(Protocol):
    """A broker or a cluster to kill."""

    @property
    def address(self) -> str: ...
    def restart(self, *, kill: bool = False) -> Self: ...


@dataclass
class Tortured:
    """What happened: `kills` by kind, and `faults`."""

    kills: Counter[str] = field(default_factory=Counter)
    lives: int = 0
    """The kills after which a writer had made progress since the kill before."""
    acknowledged: int = 0
    copied: int = 0
    looks: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


class Processes:
    """The clients' processes, and their notes."""

    def __init__(self, home: Path, address: str, wanted: list[Role]) -> None:
        self._home, self._address = home, address
        self._numbers = itertools.count()
        self.running = [(role, self._start(role)) for role in wanted]

    def _start(self, role: Role) -> subprocess.Popen[bytes]:
        number = next(self._numbers)
        name = f"{role.name}-{number}" if role.kind == "writer" else role.name  # numbers begin again with each life
        notes = self._home / f"{number}~{role.kind}~{name}.notes"
        command = [sys.executable, "-m", "tests.torture.clients_process", role.kind, self._address, str(notes), name, role.protocol]
        with notes.with_suffix(".log").open("wb") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill_one(self, choice: random.Random) -> str:
        """Kill a process and start it again. Return its kind."""
        number = choice.randrange(len(self.running))
        role, process = self.running[number]
        process.kill()
        process.wait()
        self.running[number] = role, self._start(role)
        return role.kind

    def stop(self, kind: str = "") -> None:
        """End the processes of a kind, or all."""
        chosen = [process for role, process in self.running if kind in ("", role.kind)]
        for process in chosen:
            process.terminate()
        deadline = time.monotonic() + 20
        for process in chosen:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def notes(self, kind: str) -> Iterator[tuple[str, list[str]]]:
        """Yield each note of the processes of a kind, as (name, words)."""
        for path in sorted(self._home.glob(f"*~{kind}~*.notes")):
            name = path.stem.rpartition("~")[2]
            for line in path.read_text(errors="replace").splitlines():
                yield name, line.split(" ", 4)

    def ended(self) -> list[str]:
        """Return a sentence for each process that has ended by itself."""
        return [
            f"a {role.kind} ended by itself with {process.poll()}" for role, process in self.running if process.poll() is not None
        ]

    def progress(self) -> Callable[[], bool]:
        """Return a function that returns whether a writer has noted anything since this call."""

        def noted() -> int:
            return sum(path.stat().st_size for path in self._home.glob("*~writer~*.notes"))

        before = noted()
        return lambda: noted() > before

    def count(self, kind: str, word: str) -> int:
        return sum(words[0] == word for _, words in self.notes(kind))


def handed_out(processes: Processes) -> dict[str, dict[int, set[int]]]:
    """Return the offsets that members of each group have noted, by partition."""
    found: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for group, words in processes.notes("member"):
        if words[0] == "got" and len(words) == 4:
            partition, first, last = map(int, words[1:])
            found[group][partition].update(range(first, last + 1))
    return found


def look(admin: ottla.Admin, processes: Processes, result: Tortured, before: dict[str, dict[int, int]]) -> None:
    """Compare the committed offsets with those of the look before, and with what was handed out until now."""
    for group in GROUPS:
        committed = {where.partition: found.offset for where, found in admin.list_group_offsets(group).items()}
        seen = handed_out(processes)[group]
        result.looks += 1
        for partition, offset in committed.items():
            if missing := sorted(set(range(offset)) - seen[partition]):
                result.faults.append(f"{group}: {offset} of partition {partition} is committed, and {missing[:3]} never handed out")
            if offset < before[group].get(partition, 0):
                result.faults.append(f"{group}: the committed offset of partition {partition} went back to {offset}")
        before[group] |= committed


def read_committed(address: str, topic: str) -> dict[int, list[bytes]]:
    """Return all committed values by partition, read by another project's client."""
    settings: dict[str, Any] = {"bootstrap.servers": address, "group.id": "judge", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.partition.eof": True})
    found: dict[int, list[bytes]] = {index: [] for index in range(PARTITIONS)}
    ended: set[int] = set()
    try:
        consumer.assign([TopicPartition(topic, index, 0) for index in found])
        deadline = time.monotonic() + SETTLE_S
        while len(ended) < PARTITIONS:
            assert time.monotonic() < deadline, f"only the ends of {ended} of {topic} came"
            message: Any
            for message in consumer.consume(1000, 0.5):
                if message.error() is not None:
                    ended.add(message.partition())
                else:
                    found[message.partition()].append(message.value())
    finally:
        consumer.close()
    return found


def wait(ready: Callable[[], bool], limit_s: float) -> bool:
    """Return once `ready()` is true, or False after `limit_s`."""
    deadline = time.monotonic() + limit_s
    while not ready():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def torment(broker: Killed, processes: Processes, choice: random.Random, kills: int, seconds: float, result: Tortured) -> None:
    """Kill the broker and clients in turn, each a random moment after records were acknowledged since the kill before."""
    deadline = time.monotonic() + seconds
    before: dict[str, dict[int, int]] = defaultdict(dict)
    with ottla.Admin(broker.address) as admin:
        while result.kills.total() < kills and time.monotonic() < deadline:
            result.lives += wait(processes.progress(), PROGRESS_S)
            time.sleep(choice.uniform(0, 0.3))
            result.faults += processes.ended()
            if result.kills.total() % 2 == 0:
                broker.restart(kill=True)
                result.kills["broker"] += 1
            else:
                result.kills[processes.kill_one(choice)] += 1
            if result.kills.total() % 5 == 0:
                look(admin, processes, result, before)
        processes.stop("writer")
        if isinstance(broker, KafkaTrio):
            broker.mend()
        ends = {index: len(values) for index, values in read_committed(broker.address, SOURCE).items()}

        def behind() -> list[str]:
            late = []
            for group in (*GROUPS, COPIERS):
                offsets = {where.partition: found.offset for where, found in admin.list_group_offsets(group).items()}
                late += [
                    f"{group}-{index}: {offsets.get(index)} of {end}" for index, end in ends.items() if offsets.get(index, 0) < end
                ]
            return late

        if not wait(lambda: not behind(), SETTLE_S):
            result.faults.append(f"not all was committed in {SETTLE_S:.0f} s: {behind()}")
        look(admin, processes, result, before)


def judge(processes: Processes, source: dict[int, list[bytes]], copies: dict[int, list[bytes]], result: Tortured) -> None:
    """Compare what was acknowledged and handed out with what is there."""
    written: dict[tuple[str, int], list[int]] = defaultdict(list)
    for partition, values in source.items():
        for value in values:
            name, number = value.decode().split()
            written[name, partition].append(int(number))
    for (name, partition), numbers in written.items():
        if numbers != sorted(set(numbers)):
            result.faults.append(f"{name}: records of partition {partition} are doubled or out of order")
    for name, words in processes.notes("writer"):
        if words[0] == "ack":
            result.acknowledged += 1
            if int(words[2]) not in (known := written[name, int(words[1])]):
                result.faults.append(f"{name}: {words[2]} of partition {words[1]} was acknowledged and is lost, of {len(known)}")
        elif words[0] == "failed" and words[3] != "Closed":
            result.faults.append(f"{name}: {' '.join(words)}")
    judge_copies(source, copies, result)
    for kind in ("writer", "member", "copier"):
        result.refused.update(words[1] for _, words in processes.notes(kind) if words[0] == "refused")


def judge_copies(source: dict[int, list[bytes]], copies: dict[int, list[bytes]], result: Tortured) -> None:
    """Compare the copies with what was copied: each record once, in order."""
    for partition, values in copies.items():
        expected = [b"%d %d " % (partition, offset) + value for offset, value in enumerate(source[partition])]
        result.copied += len(values)
        if values != expected:
            once = Counter(values)
            doubled, lost = [value for value, count in once.items() if count > 1], set(expected) - once.keys()
            wrong = f"{len(doubled)} doubled, {len(lost)} lost" if doubled or lost else "out of order"
            result.faults.append(f"copies of partition {partition}: {wrong}, such as {[*doubled, *lost][:1]}")


def torture(home: Path, kills: int, seconds: float, seed: int, members: int = 2, *, trio: bool = False) -> Tortured:
    """Start a broker, or three of Apache Kafka, and its clients, kill them, and judge what is left.

    Raises `Unavailable` without Java.
    """
    result = Tortured()
    with KafkaTrio(home / "kafka", SETTINGS) if trio else BrokerProcess(home / "data", SETTINGS) as broker:
        with ottla.Admin(broker.address) as admin:
            for topic in (SOURCE, COPIES):
                admin.create_topic(topic, PARTITIONS, 3 if trio else 1)
        processes = Processes(home, broker.address, roles(members))
        try:
            ready = wait(lambda: min(processes.count("member", "got"), processes.count("copier", "copied")) > 0, SETTLE_S)
            if not ready:
                result.faults.append("no member or no copier ever had a record in hand")
            torment(broker, processes, random.Random(seed), kills, seconds, result)
        finally:
            processes.stop()
        judge(processes, read_committed(broker.address, SOURCE), read_committed(broker.address, COPIES), result)
    return result


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.clients")
    parser.add_argument("--kills", type=int, default=200, help="how often the broker or a client is killed")
    parser.add_argument("--seconds", type=float, default=600, help="stop killing after so long")
    parser.add_argument("--seed", type=int, default=0, help="of who is killed, and when")
    parser.add_argument("--kafka-cluster", action="store_true", help="on three brokers of Apache Kafka, killed one after the other")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ottla-torture-") as home:
        result = torture(Path(home), chosen.kills, chosen.seconds, chosen.seed, trio=chosen.kafka_cluster)
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(result.kills.items()))
    print(
        f"{result.kills.total()} kills ({kinds}), {result.lives} of them after progress; {result.looks} looks at committed offsets"
    )
    print(f"{result.acknowledged} records acknowledged, {result.copied} copied")
    refused = ", ".join(f"{name} {count}" for name, count in result.refused.most_common())
    print(f"refused meanwhile: {refused or 'nothing'}")
    for fault in result.faults[:20]:
        print(fault)
    return 1 if result.faults or result.kills.total() < chosen.kills else 0


if __name__ == "__main__":
    sys.exit(main())
