"""`make torture`: a broker killed again and again under the load of idempotent producers; no acknowledged record may suffer.

    python -m tests.torture.kills --rounds 200

Each round, two producers of confluent-kafka write numbered records (acks=all), the broker is killed with SIGKILL at a random moment
and started again on the same data; the producers retry on their own. At the end every partition is read whole: each acknowledged
record is there once, in the order of its numbers.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.testing.process import BrokerProcess

TOPIC = "tortured"
PARTITIONS = 3
SETTINGS = {"num.partitions": PARTITIONS, "log.segment.bytes": 1 << 20}


class Load(threading.Thread):
    """One idempotent producer that writes numbers to every partition until it is told to stop."""

    def __init__(self, name: str, address: str) -> None:
        super().__init__(name=name, daemon=True)
        self.acknowledged: dict[int, list[int]] = {index: [] for index in range(PARTITIONS)}
        self.failures: list[str] = []
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

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failures.append(str(error))
        else:
            self.acknowledged[message.partition()].append(int(message.value().split()[1]))


def read_all(address: str) -> dict[int, list[tuple[str, int]]]:
    """Of each partition every (producer, number), in order of offset."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "reader", "enable.auto.commit": False, "log_level": 0})
    found: dict[int, list[tuple[str, int]]] = {}
    try:
        for index in range(PARTITIONS):
            _, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, index), timeout=30)
            consumer.assign([TopicPartition(TOPIC, index, 0)])
            records: list[tuple[str, int]] = []
            while len(records) < end:
                messages = consumer.consume(5000, timeout=10)
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


def torture(directory: Path, rounds: int, seed: int, limit_s: float) -> tuple[int, int, list[str]]:
    """(kills, acknowledged records, faults)."""
    choice, started, kills = random.Random(seed), time.monotonic(), 0
    with BrokerProcess(directory / "data", SETTINGS) as broker:
        loads = [Load(f"producer-{number}", broker.address) for number in range(2)]
        for load in loads:
            load.start()
        while kills < rounds and time.monotonic() - started < limit_s:
            time.sleep(choice.uniform(0.05, 0.6))
            broker.restart(kill=True)
            kills += 1
        time.sleep(0.5)
        for load in loads:
            load.stopping.set()
        for load in loads:
            load.join(90)
        wrong = faults(loads, read_all(broker.address))
    return kills, sum(len(numbers) for load in loads for numbers in load.acknowledged.values()), wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.kills")
    parser.add_argument("--rounds", type=int, default=200, help="how often the broker is killed")
    parser.add_argument("--seed", type=int, default=0, help="of the moments at which it is killed")
    parser.add_argument("--seconds", type=float, default=900, help="stop killing after so long, and say so")
    chosen = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ottla-torture-") as directory:
        kills, acknowledged, wrong = torture(Path(directory), chosen.rounds, chosen.seed, chosen.seconds)
    print(f"{kills} kills in {time.monotonic() - started:.0f} s, {acknowledged} acknowledged records")
    for fault in wrong:
        print(fault)
    if wrong:
        print(f"run again: python -m tests.torture.kills --rounds {chosen.rounds} --seed {chosen.seed}")
    return 1 if wrong or kills < chosen.rounds else 0


if __name__ == "__main__":
    sys.exit(main())
