"""A replica moves between log directories under load, and its broker is killed in the middle, again and again.

`python -m tests.torture.replica_moves --kills 50`. After each kill the replica is in one place and no copy is left; at the end
every acknowledged record is there once, in the order in which it was sent.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ottla
from ottla.testing.process import BrokerProcess

TOPIC = "moving"
PADDING = bytes(2000)
FILL_RECORDS = 4000
RATE = 30_000_000
"""Bytes that are copied in each second, so that kills meet the copying and not only the rest around it."""


class Load:
    """A producer of numbers that goes on while brokers die, and a consumer that must see each number after the one before."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._is_over = threading.Event()
        self.sent = self.acknowledged = self.seen = 0
        self.faults: list[str] = []
        self._threads = [threading.Thread(target=self._produce), threading.Thread(target=self._consume)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(90)
            assert not thread.is_alive()

    def _produce(self) -> None:
        with ottla.Producer(self._address, delivery_timeout_ms=120_000) as producer:
            while not self._is_over.is_set():
                numbers = range(self.sent, self.sent + 50)
                self.sent = numbers.stop
                futures = [producer.send(TOPIC, b"%d" % number + b" " + PADDING[:200], partition=0) for number in numbers]
                for number, future in zip(numbers, futures, strict=True):
                    future.result(120)
                    self.acknowledged = number + 1

    def _consume(self) -> None:
        with ottla.Consumer(TOPIC, bootstrap_servers=self._address, auto_offset_reset="earliest") as consumer:
            last_s = time.monotonic()
            while self._threads[0].is_alive() or (self.seen < self.acknowledged and time.monotonic() < last_s + 60):
                for record in consumer.poll(200):
                    assert record.value is not None
                    if record.value[:1] != b"\0":
                        number = int(record.value.split(b" ")[0])
                        if number != self.seen:
                            self.faults.append(f"{number} came after {self.seen - 1}")
                        self.seen = number + 1
                        last_s = time.monotonic()


@contextmanager
def loaded(home: Path, **settings: object) -> Iterator[tuple[BrokerProcess, Load, list[Path]]]:
    """Run a broker with two log directories, a topic of some MB, and its load."""
    places = [home / "data", home / "other"]
    wanted = {"log.dirs": places[1], "replica.alter.log.dirs.io.max.bytes.per.second": RATE, **settings}
    with BrokerProcess(places[0], wanted) as broker:
        with ottla.Admin(broker.address) as admin:
            admin.create_topic(TOPIC, configs={"segment.bytes": "1048576"})
        with ottla.Producer(broker.address) as producer:
            for future in [producer.send(TOPIC, PADDING, partition=0) for _ in range(FILL_RECORDS)]:
                future.result(60)
        with Load(broker.address) as load:
            yield broker, load, places


def begin_move(broker: BrokerProcess, places: list[Path]) -> Path:
    """Begin to move the replica to the other directory, and return where it will be."""
    with ottla.Admin(broker.address) as admin:
        target = next(place for place in places if not (place / f"{TOPIC}-0").is_dir())
        admin.alter_replica_log_dirs(1, {(TOPIC, 0): str(target)})
    return target / f"{TOPIC}-0"


def check(load: Load, places: list[Path]) -> None:
    """Each acknowledged record was read, in order, and there is one replica."""
    assert not load.faults, load.faults[:3]
    assert load.seen >= load.acknowledged > 0, (load.seen, load.acknowledged, load.sent)
    assert [sum((place / f"{TOPIC}-0").is_dir() for place in places)] == [1]


def run(home: Path, kills: int, seed: int) -> str:
    """Kill a broker in the middle of moves. Return a sentence about the run."""
    chance, moved = random.Random(seed), 0
    with loaded(home) as (broker, load, places):
        for _ in range(kills):
            before = (places[1] / f"{TOPIC}-0").is_dir()
            begin_move(broker, places)
            time.sleep(chance.random() * 0.8)
            broker.restart(kill=True)
            here = [name.name for place in places for name in place.glob(f"{TOPIC}-0*")]
            assert here == [f"{TOPIC}-0"], here
            moved += (places[1] / f"{TOPIC}-0").is_dir() != before
    check(load, places)
    return f"{kills} kills, {moved} of the moves had ended; {load.acknowledged} records were acknowledged and read in order"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ottla-moves-") as home:
        print(run(Path(home), options.kills, options.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
