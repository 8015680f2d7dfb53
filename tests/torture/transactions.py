"""`make torture-transactions`: copiers with transactions, that are killed in turn with their broker; nothing is half visible.

    python -m tests.torture.transactions --rounds 200

Copiers of confluent-kafka and of Apache Kafka's Java client share the partitions of a topic that is written to all the time, and
copy each record to two others, with the offsets inside their transactions. Every other round the broker is killed with SIGKILL and
started again; in between a copier is: its next life has the same transactional id, or another one, so that the transaction it left
has to time out, or the copier is only stopped and goes on as a zombie when its next life has begun. A reader follows all the time.
In the end the histories are judged (`tests.torture.histories`). `--peer apache-kafka` does the same to an Apache Kafka.
"""

from __future__ import annotations

import argparse
import itertools
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from bench.apache_kafka import ApacheKafka, Unavailable, class_path
from ottla.testing.process import BrokerProcess
from tests.support.clients.confluent import Confluent
from tests.support.jars import program
from tests.torture import kills
from tests.torture.copier import GROUP
from tests.torture.histories import History, Place, anomalies

SOURCE, TARGETS = "originals", ("copies", "twins")
PARTITIONS = 4
RATE = 200
PROGRESS_TIMEOUT_S = 30.0
SETTLE_S = 90.0
START_TIMEOUT_S = 120.0
"""On a machine that has much else to do."""

SETTINGS: dict[str, object] = {
    "num.partitions": PARTITIONS,
    "group.initial.rebalance.delay.ms": 200,
    "group.consumer.min.session.timeout.ms": 6_000,
    "group.consumer.session.timeout.ms": 6_000,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.heartbeat.interval.ms": 500,
    "log.segment.bytes": 1 << 20,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
}
CONFLUENT, JAVA = "confluent-kafka", "java"


@dataclass
class Tortured:
    """What happened: `lives` is how many rounds killed somebody while transactions were being committed."""

    broker_kills: int = 0
    copier_kills: int = 0
    zombies: int = 0
    lives: int = 0
    records: int = 0
    jumps: int = 0
    """How often a copier was given other records than those that followed, and went back."""
    hung: int = 0
    """How often a copier's client did not come back from a call that had a timeout."""
    transactions: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    @property
    def rounds(self) -> int:
        return self.broker_kills + self.copier_kills


class Load(threading.Thread):
    """Writes numbers to all partitions in turn, until it is told to stop; `written` has what was acknowledged, by offset."""

    def __init__(self, address: str) -> None:
        super().__init__(name="load", daemon=True)
        self.stopping = threading.Event()
        settings = {"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 300_000}
        self._producer = Producer({**settings, "reconnect.backoff.max.ms": 200, "log_level": 0})
        self.written: dict[int, dict[int, bytes]] = {index: {} for index in range(PARTITIONS)}

    def run(self) -> None:
        for number in itertools.count():
            if self.stopping.wait(1 / RATE):
                break
            self._producer.produce(SOURCE, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._delivered)
            self._producer.poll(0)
        self._producer.flush(60)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None and message.offset() is not None:  # of a record sent twice, a broker may not know any more where it is
            self.written[message.partition()][message.offset()] = message.value()

    def ends(self) -> dict[int, int]:
        """Of each partition the offset behind what was acknowledged, or less where a broker did not tell the last ones."""
        return {index: max(records, default=-1) + 1 for index, records in self.written.items()}


class Reader(threading.Thread):
    """Follows what is committed in all targets, until it is told to stop."""

    def __init__(self, address: str) -> None:
        super().__init__(name="reader", daemon=True)
        self.stopping = threading.Event()
        self.seen: dict[Place, dict[int, bytes]] = {place: {} for place in places()}
        self._consumer = reader(address)

    def run(self) -> None:
        self._consumer.assign([TopicPartition(topic, index, 0) for topic, index in places()])
        while not self.stopping.is_set():
            for place, offset, value in followed(self._consumer):
                if value is not None:
                    self.seen[place][offset] = value
        self._consumer.close()


def places() -> list[Place]:
    return [(topic, index) for topic in TARGETS for index in range(PARTITIONS)]


def reader(address: str) -> Consumer:
    settings = {"bootstrap.servers": address, "group.id": "reader", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    return Consumer({**settings, "isolation.level": "read_committed", "enable.partition.eof": True, "log_level": 0})


def followed(consumer: Consumer) -> Iterator[tuple[Place, int, bytes | None]]:
    """What came within a moment: place, offset and value, and no value where a partition ends."""
    message: Any
    for message in consumer.consume(500, 0.2):
        if message.error() is None or message.error().code() == KafkaError._PARTITION_EOF:
            place = message.topic(), message.partition()
            yield place, message.offset(), None if message.error() else message.value()


def read_all(address: str) -> dict[Place, dict[int, bytes]]:
    """What can be read of all targets, from the beginning to the end. Raises AssertionError if no end comes."""
    consumer = reader(address)
    found: dict[Place, dict[int, bytes]] = {place: {} for place in places()}
    ended: set[Place] = set()
    try:
        consumer.assign([TopicPartition(topic, index, 0) for topic, index in places()])
        deadline = time.monotonic() + SETTLE_S
        while len(ended) < len(found):
            assert time.monotonic() < deadline, f"no end came in {SETTLE_S:.0f} s but those of {ended}"
            for place, offset, value in followed(consumer):
                if value is None:
                    ended.add(place)
                else:
                    found[place][offset] = value
    finally:
        consumer.close()
    return found


@dataclass
class Life:
    """One process of a copier."""

    name: str
    process: subprocess.Popen[bytes]
    notes: Path

    def commits(self) -> int:
        return self.notes.read_bytes().count(b"\ncommitted ") if self.notes.exists() else 0


class Copiers:
    """One process for each slot, and those that were only stopped. Every other slot's members are static ones in a classic group:
    there the next life takes over at once, but a static member of a consumer group has to be missed first."""

    def __init__(self, home: Path, address: str, slots: list[tuple[str, str]]) -> None:
        self._home, self._slots = home, slots
        self.address = address
        """For those that are started from now on."""
        self._numbers = itertools.count()
        self._commands = {kind: command(kind, home) for kind, _ in slots}
        self._ids = [f"copier-{slot}" for slot in range(len(slots))]
        self.zombies: list[Life] = []
        self.lives = [self._start(slot) for slot in range(len(slots))]

    def _start(self, slot: int) -> Life:
        kind, protocol = self._slots[slot]
        instance = f"copier-{slot}" if slot % 2 and protocol == "classic" else "-"
        name = f"{next(self._numbers)}-{kind}"
        notes = self._home / f"{name}.notes"
        who = [self.address, str(notes), name, self._ids[slot], instance, protocol]
        with notes.with_suffix(".log").open("wb") as log:
            full = [*self._commands[kind], *who, SOURCE, ",".join(TARGETS)]
            return Life(name, subprocess.Popen(full, stdin=subprocess.DEVNULL, stdout=log, stderr=log), notes)

    def kill_one(self, choice: random.Random) -> bool:
        """End one's life, or stop it, and begin its next; whether it was only stopped."""
        slot, way = choice.randrange(len(self.lives)), choice.random()
        if way < 0.2:
            self.zombies.append(self.lives[slot])
            self.lives[slot].process.send_signal(signal.SIGSTOP)
        else:
            self.lives[slot].process.kill()
            self.lives[slot].process.wait()
        if 0.2 <= way < 0.4:
            self._ids[slot] = f"copier-{slot}-{next(self._numbers)}"
        self.lives[slot] = self._start(slot)
        return way < 0.2

    def wake_zombies(self) -> None:
        for zombie in self.zombies:
            zombie.process.send_signal(signal.SIGCONT)

    def mend(self) -> None:
        """Start again those who ended by themselves, as the fenced do."""
        for slot, life in enumerate(self.lives):
            if life.process.poll() is not None:
                self.lives[slot] = self._start(slot)
                time.sleep(0.2)

    def commits(self) -> int:
        return sum(life.commits() for life in self.lives)

    def stop(self) -> None:
        self.wake_zombies()
        everybody = [*self.lives, *self.zombies]
        for life in everybody:
            life.process.terminate()
        deadline = time.monotonic() + 30
        for life in everybody:
            try:
                life.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                life.process.kill()
                life.process.wait()

    def notes(self) -> Iterator[tuple[str, list[str]]]:
        """Every life's name, and its lines."""
        for path in self._home.glob("*.notes"):
            yield path.stem, path.read_text(errors="replace").splitlines()


def command(kind: str, home: Path) -> list[str]:
    """What starts a copier. Raises `Unavailable`."""
    return (
        [sys.executable, "-m", "tests.torture.copier"] if kind == CONFLUENT else program("Copier", class_path(), home / "classes")
    )


def wait_for_commits(copiers: Copiers) -> bool:
    """Whether transactions were committed since this was called."""
    before, deadline = copiers.commits(), time.monotonic() + PROGRESS_TIMEOUT_S
    while copiers.commits() <= before:
        copiers.mend()
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def torment(broker: Any, copiers: Copiers, choice: random.Random, rounds: int, limit_s: float, result: Tortured) -> None:
    """Kill the broker and a copier in turn, each a random moment after something was committed."""
    deadline = time.monotonic() + limit_s
    while result.rounds < rounds and time.monotonic() < deadline:
        result.lives += wait_for_commits(copiers)
        time.sleep(choice.uniform(0, 0.5))
        copiers.wake_zombies()
        if result.broker_kills <= result.copier_kills:
            if isinstance(broker, BrokerProcess):
                kills.kill(broker, choice)
            else:
                broker.restart(kill=True)
            result.broker_kills += 1
        else:
            result.zombies += copiers.kill_one(choice)
            result.copier_kills += 1


def behind(address: str, ends: dict[int, int]) -> dict[int, tuple[int, int]]:
    """Of each partition that is not copied to its end: (committed, end)."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": GROUP, "isolation.level": "read_committed", "log_level": 0})
    try:
        found = consumer.committed([TopicPartition(SOURCE, index) for index in ends], SETTLE_S)
    finally:
        consumer.close()
    return {part.partition: (part.offset, ends[part.partition]) for part in found if part.offset < ends[part.partition]}


def settle(address: str, copiers: Copiers, ends: dict[int, int]) -> list[str]:
    """Wait until everything is copied: what is behind once nothing more was for `SETTLE_S`."""
    before: dict[int, tuple[int, int]] = {}
    deadline = 0.0
    while late := behind(address, ends):
        if late != before:
            before, deadline = late, time.monotonic() + SETTLE_S
        if time.monotonic() > deadline:
            return [f"nothing more was copied in {SETTLE_S:.0f} s; partition: (committed, written): {late}"]
        copiers.mend()
        time.sleep(0.2)
    return []


def torture(
    home: Path,
    slots: list[tuple[str, str]],
    *,
    rounds: int,
    seed: int,
    limit_s: float,
    peer: str = "ottla",
    journal_bytes: int = kills.JOURNAL_BYTES,
) -> Tortured:
    """Start a broker, its load and a copier for each of `slots` (kind, group protocol); kill; judge. Raises `Unavailable`."""
    result, choice = Tortured(), random.Random(seed)
    settings = SETTINGS | kills.journal_settings(journal_bytes)
    patient = BrokerProcess(home / "data", settings, start_timeout_s=START_TIMEOUT_S)
    with patient if peer == "ottla" else ApacheKafka(home / "kafka", SETTINGS) as broker:
        for topic in (SOURCE, *TARGETS):
            Confluent(broker.address).create_topic(topic, PARTITIONS)
        load, live = Load(broker.address), Reader(broker.address)
        copiers = Copiers(home, broker.address, slots)
        try:
            load.start()
            live.start()
            torment(broker, copiers, choice, rounds, limit_s, result)
            load.stopping.set()
            load.join(90)
            result.faults += settle(broker.address, copiers, load.ends())
        finally:
            copiers.stop()
            live.stopping.set()
            live.join(30)
        judge(result, load, copiers, live, read_all(broker.address))
    return result


def judge(
    result: Tortured,
    load: Load,
    copiers: Copiers,
    live: Reader,
    final: dict[Place, dict[int, bytes]],
    *,
    ends_are_late: bool = False,
) -> None:
    history = History(load.written, ends_are_late=ends_are_late)
    for life, lines in copiers.notes():
        history.add(life, lines)
        result.refused.update(line.split()[1] for line in lines if line.startswith("refused "))
        result.jumps += sum(line.startswith("jumped ") for line in lines)
        result.hung += lines.count("hung")
    result.records = sum(map(len, load.written.values()))
    told = {"committed": history.committed, "aborted": history.aborted, "unanswered": history.maybe}
    result.transactions = Counter({name: len(found) for name, found in told.items()})
    result.faults += anomalies(history, final, live.seen)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.transactions")
    parser.add_argument("--rounds", type=int, default=200, help="how often the broker or a copier is killed")
    parser.add_argument("--seconds", type=float, default=1500, help="stop killing after so long, and say so")
    parser.add_argument("--seed", type=int, default=0, help="of who is killed, when, and how")
    parser.add_argument("--home", type=Path, help="an empty folder that keeps the broker's data and what copiers noted")
    parser.add_argument("--protocol", default="classic", choices=["classic", "consumer"], help="of the copiers' group")
    parser.add_argument("--peer", default="ottla", choices=["ottla", "apache-kafka"], help="the broker that is killed")
    kills.add_journal_option(parser)
    chosen = parser.parse_args()
    slots = [(kind, chosen.protocol) for kind in (CONFLUENT, JAVA, JAVA, CONFLUENT)]
    with tempfile.TemporaryDirectory(prefix="ottla-torture-") as removed:
        home = chosen.home or Path(removed)
        try:
            command(JAVA, home)
        except Unavailable as missing:
            print(f"Java's copiers are left out: {missing}")
            slots = [(CONFLUENT, chosen.protocol)] * len(slots)
        result = torture(
            home,
            slots,
            rounds=chosen.rounds,
            seed=chosen.seed,
            limit_s=chosen.seconds,
            peer=chosen.peer,
            journal_bytes=chosen.journal_bytes,
        )
    print(
        f"{result.broker_kills} kills of the broker, {result.copier_kills} of copiers, {result.zombies} of them as zombies;",
        end=" ",
    )
    print(f"{result.records} records, transactions:", ", ".join(f"{count} {name}" for name, count in result.transactions.items()))
    print("what copiers were refused:", ", ".join(f"{name} {count}" for name, count in result.refused.items()) or "nothing")
    print(f"how often they were given other records than the next: {result.jumps}, and their clients hung: {result.hung}")
    for fault in result.faults:
        print(fault)
    if result.lives < 0.9 * result.rounds:
        print("in too many rounds nothing was committed before the kill for this to say much: run it on a quieter machine")
        return 1
    return 1 if result.faults or result.rounds < chosen.rounds else 0


if __name__ == "__main__":
    sys.exit(main())
