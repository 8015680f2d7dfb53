"""`make torture`: a broker killed again and again under the load of idempotent producers; no acknowledged record may suffer.

    python -m tests.torture.kills --rounds 200

Each round, two producers of confluent-kafka write numbered records (acks=all), the broker is killed with SIGKILL and started again
on the same data; the producers retry on their own. A kill comes a random moment after records of both were acknowledged since the
last one, and sometimes at once, or while the broker is still starting. At the end every partition is read whole: each acknowledged
record is there once, in the order of its numbers.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from ottla.testing.process import BrokerProcess, DidNotStart

TOPIC = "tortured"
PARTITIONS = 3
SETTINGS: dict[str, object] = {"num.partitions": PARTITIONS, "log.segment.bytes": 1 << 20}
JOURNAL_BYTES = 1 << 20
PROGRESS_TIMEOUT_S = 20
"""How long producers may need until the first records are acknowledged that they retry on a broker started anew."""

LIVES_TO_MEET = 0.9
"""The share of rounds whose broker lives until it has acknowledged something: kills of one that did nothing yet prove little."""


Ending = Callable[[BrokerProcess, random.Random], int]
"""Ends a broker and starts it again; returns how often it was ended."""


class Tortured(NamedTuple):
    """How often the broker was killed, how often it had acknowledged records before that, how many in all, and what was wrong."""

    kills: int
    lives: int
    acknowledged: int
    faults: list[str]


class Load(threading.Thread):
    """One idempotent producer that writes numbers to every partition until it is told to stop."""

    def __init__(self, name: str, address: str) -> None:
        super().__init__(name=name, daemon=True)
        self.acknowledged: dict[int, list[int]] = {index: [] for index in range(PARTITIONS)}
        self.failures: list[str] = []
        self.heard: deque[str] = deque(maxlen=5)
        """What the client said last of its brokers."""
        self.stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "metadata.recovery.strategy": "none",  # librdkafka 2.16 forgets its brokers otherwise when none is there
                "error_cb": lambda error: self.heard.append(str(error)),
                "log_level": 0,
            }
        )

    def run(self) -> None:
        number = 0
        while not self.stopping.is_set():
            for index in range(PARTITIONS):
                value = f"{self.name} {number} ".encode().ljust(100, b".")
                self._producer.produce(TOPIC, value, partition=index, on_delivery=self._delivered)
                number += 1
            self._producer.poll(0.002)
            while len(self._producer) > 2000 and not self.stopping.is_set():
                self._producer.poll(0.02)
        self._producer.flush(60)

    @property
    def count(self) -> int:
        """How many records were acknowledged so far."""
        return sum(map(len, self.acknowledged.values()))

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failures.append(str(error))
        else:
            self.acknowledged[message.partition()].append(int(message.value().split()[1]))


def end_of(consumer: Consumer, index: int, limit_s: float = 60) -> int:
    """Where a partition ends, once its leader is found. Raises KafkaException."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            _, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, index), timeout=30)
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return int(end)


def read_all(address: str) -> dict[int, list[tuple[str, int]]]:
    """Of each partition every (producer, number), in order of offset."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "reader", "enable.auto.commit": False, "log_level": 0})
    found: dict[int, list[tuple[str, int]]] = {}
    try:
        for index in range(PARTITIONS):
            end = end_of(consumer, index)
            consumer.assign([TopicPartition(TOPIC, index, 0)])
            records: list[tuple[str, int]] = []
            while len(records) < end:
                messages = consumer.consume(min(5000, end - len(records)), timeout=10)
                assert messages, f"only {len(records)} of {end} records of partition {index} came"
                for message in messages:
                    assert message.error() is None, message.error()
                    name, number, _ = (message.value() or b"").split(b" ", 2)
                    records.append((name.decode(), int(number)))
            found[index] = records
    finally:
        consumer.close()
    return found


def faults(loads: list[Load], found: dict[int, list[tuple[str, int]]]) -> list[str]:
    """What is lost, doubled or out of order."""
    wrong = []
    for load in loads:
        wrong += [f"{load.name} was told: {failure}" for failure in load.failures[:3]]
        for index, records in found.items():
            numbers = [number for name, number in records if name == load.name]
            if len(set(numbers)) < len(numbers):
                wrong.append(f"{load.name}: records of partition {index} are there twice")
            if numbers != sorted(numbers):
                wrong.append(f"{load.name}: records of partition {index} are out of order")
            lost = set(load.acknowledged[index]) - set(numbers)
            if lost:
                wrong.append(f"{load.name}: {len(lost)} acknowledged records of partition {index} are lost, such as {min(lost)}")
    return wrong


def wait_for_progress(loads: list[Load]) -> bool:
    """Until records of each producer are acknowledged that were not when this was called."""
    before, deadline = [load.count for load in loads], time.monotonic() + PROGRESS_TIMEOUT_S
    while any(load.count == count for load, count in zip(loads, before, strict=True)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def kill(broker: BrokerProcess, choice: random.Random, between: Callable[[], None] = lambda: None) -> int:
    """Kill the broker and start it again, one time in ten after another kill while it starts; how many kills it was.

    `between` is called after each kill.
    """
    broker.kill()
    between()
    if choice.random() >= 0.1:
        broker.start()
        return 1
    patience_s, broker.start_timeout_s = broker.start_timeout_s, choice.uniform(0.02, 0.5)
    try:
        broker.start()
        broker.kill()
    except DidNotStart as ended:
        if ended.code is not None:  # it was to be killed, not to end by itself
            raise
    between()
    broker.start_timeout_s = patience_s
    broker.start()
    return 2


def drop_caches() -> None:
    """Let the machine forget what it has read. Raises OSError where only root may do that."""
    Path("/proc/sys/vm/drop_caches").write_text("3", encoding="ascii")


def torture(
    directory: Path,
    rounds: int,
    seed: int,
    limit_s: float,
    end: Ending = kill,
    log_path: Path | None = None,
    journal_bytes: int = JOURNAL_BYTES,
) -> Tortured:
    """Kill a broker `rounds` times; fewer if `limit_s` is over. `end` kills it and starts it again."""
    choice, started, kills, lives = random.Random(seed), time.monotonic(), 0, 0
    with BrokerProcess(directory / "data", SETTINGS | journal_settings(journal_bytes), log_path=log_path) as broker:
        loads = [Load(f"producer-{number}", broker.address) for number in range(2)]
        for load in loads:
            load.start()
        while kills < rounds and time.monotonic() - started < limit_s:
            if choice.random() < LIVES_TO_MEET:
                lives += wait_for_progress(loads)
            time.sleep(choice.uniform(0, 0.3))
            kills += end(broker, choice)
        for load in loads:
            load.stopping.set()
        for load in loads:
            load.join(90)
        wrong = faults(loads, read_all(broker.address))
    return Tortured(kills, lives, sum(load.count for load in loads), wrong)


def rounds_parser(program: str, what: str) -> argparse.ArgumentParser:
    """Return the parser of the options of a program in which the broker is `what` again and again."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.torture.{program}")
    parser.add_argument("--rounds", type=int, default=200, help=f"how often the broker is {what}")
    parser.add_argument("--seed", type=int, default=0, help="of the moments at which that happens")
    parser.add_argument("--seconds", type=float, default=900, help="end after so long, and say so")
    add_journal_option(parser)
    return parser


def add_journal_option(parser: argparse.ArgumentParser) -> None:
    """Add the size of the journal's files: the least, so that they are used again all the time, up to that of a served broker."""
    sizes = "65536 uses them again all the time, 67108864 is that of a served broker"
    parser.add_argument("--journal-bytes", type=int, default=JOURNAL_BYTES, help=f"of each file of the broker's journal: {sizes}")


def journal_settings(journal_bytes: int) -> dict[str, object]:
    """Return the setting for the size of the journal's files."""
    return {"ottla.journal.bytes": journal_bytes}


def main() -> int:
    parser = rounds_parser("kills", "killed")
    parser.add_argument("--drop-caches", action="store_true", help="drop the machine's page cache after each kill, as root")
    chosen = parser.parse_args()
    end = partial(kill, between=drop_caches) if chosen.drop_caches else kill
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ottla-torture-") as directory:
        done = torture(Path(directory), chosen.rounds, chosen.seed, chosen.seconds, end, journal_bytes=chosen.journal_bytes)
    again = command("kills", chosen) + " --drop-caches" * chosen.drop_caches
    return report(done, "kills", time.monotonic() - started, chosen.rounds, again)


def command(program: str, chosen: argparse.Namespace) -> str:
    """Return the command that repeats what was chosen."""
    options = f"--rounds {chosen.rounds} --seed {chosen.seed} --journal-bytes {chosen.journal_bytes}"
    return f"python -m tests.torture.{program} {options}"


def report(done: Tortured, what: str, took_s: float, rounds: int, again: str) -> int:
    """Print the result of `rounds` that were asked for; return the exit code. `again` is the command that repeats them."""
    kills, lives, acknowledged, wrong = done
    print(f"{kills} {what} in {took_s:.0f} s, {lives} of them of a broker at work; {acknowledged} acknowledged records")
    for fault in wrong:
        print(fault)
    if wrong:
        print(f"run again: {again}")
    if lives < kills / 2:
        print("too few brokers had anything to do before they were killed for this to say much: run it on a quieter machine")
        return 1
    return 1 if wrong or kills < rounds else 0


if __name__ == "__main__":
    sys.exit(main())
