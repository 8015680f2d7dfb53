"""Reads everything and hands it to the ledger: all ends are followed, and what is compacted is read whole, the rest at last."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.torture.soak.clock import Clock
from tests.torture.soak.kinds import Goes
from tests.torture.soak.ledger import Ledger, Partition

QUIET_S = 20
"""How long a reading may get nothing before it is given up."""

COMPACTED_EVERY_S = 10.0
TRANSIENT = (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE, KafkaError._TIMED_OUT)


class Unread(Exception):
    """A log could not be read to its end; the sentence says which."""


def consumer(address: str) -> Any:
    settings = {"bootstrap.servers": address, "group.id": "none", "enable.auto.commit": False, "check.crcs": True, "log_level": 0}
    return Consumer({**settings, "auto.offset.reset": "earliest", "reconnect.backoff.max.ms": 200, "fetch.wait.max.ms": 100})


class Tail(threading.Thread):
    """Follows the ends of all partitions; where records went before it came, it goes on at the log's start."""

    def __init__(self, address: str, ledger: Ledger, clock: Clock) -> None:
        super().__init__(name="tail", daemon=True)
        self.stopping = threading.Event()
        self.count = 0
        self.faults: list[str] = []
        self.refused: Counter[str] = Counter()
        self._address, self._ledger, self._clock = address, ledger, clock

    def run(self) -> None:
        reader = consumer(self._address)
        reader.assign([TopicPartition(name, index, 0) for name, index in self._ledger.partitions])
        while not self.stopping.is_set():
            for message in reader.consume(500, 0.1):
                self._take(message)
        reader.close()

    def _take(self, message: Any) -> None:
        error = message.error()
        if error is None:
            part = self._ledger.partitions[message.topic(), message.partition()]
            part.read(message.offset(), message.key(), message.value(), self._clock.most_ms())
            self.count += 1
        elif error.code() in TRANSIENT:
            self.refused[str(error)[:80]] += 1
        elif len(self.faults) < 10:
            self.faults.append(f"a reader of {message.topic()}-{message.partition()} was told: {error}")


class Compacted(threading.Thread):
    """Reads what is compacted from its start, again and again: the last value of each key is there."""

    def __init__(self, address: str, ledger: Ledger, clock: Clock) -> None:
        super().__init__(name="compacted", daemon=True)
        self.stopping = threading.Event()
        self.count = 0
        self._address, self._clock = address, clock
        self._parts = [part for part in ledger.partitions.values() if Goes.BY_KEY in part.kind.goes]

    def run(self) -> None:
        while not self.stopping.wait(COMPACTED_EVERY_S):
            reader = consumer(self._address)
            try:
                for part in self._parts:
                    latest = part.latest()
                    read_whole(reader, part, found := KeyOffsets())
                    part.check_keys(latest, found, self._clock.most_ms())
                    self.count += 1
            except (Unread, KafkaException):
                continue  # the broker went away: the next time
            finally:
                reader.close()


class KeyOffsets(dict[bytes, int]):
    """The highest offset of each key."""

    def take(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        self[key or b""] = max(offset, self.get(key or b"", -1))


class Values(dict[int, bytes | None]):
    """The value at each offset."""

    def take(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        self[offset] = value


def read_whole(reader: Any, part: Partition, found: KeyOffsets | Values) -> None:
    """From the log's start to the end that it has now. Raises `Unread`, KafkaException."""
    where = TopicPartition(part.kind.name, part.index)
    start, end = reader.get_watermark_offsets(where, timeout=QUIET_S)
    reader.assign([TopicPartition(where.topic, where.partition, start)])
    deadline = time.monotonic() + QUIET_S
    while start < end and (position := reader.position([where])[0].offset) < end:
        messages = reader.consume(5000, 0.2)
        if not messages:
            start, _ = reader.get_watermark_offsets(where, timeout=QUIET_S)  # all of it may have gone meanwhile
        if time.monotonic() > deadline:
            raise Unread(f"{part}: nothing comes beyond offset {position}, though it ends at {end}")
        for message in messages:
            if message.error() is None:
                deadline = time.monotonic() + QUIET_S
                found.take(message.offset(), message.key(), message.value())


def audit(address: str, ledger: Ledger, clock: Clock) -> list[str]:
    """Read all that there is, when nothing is written any more, and hold it against the ledger; what could not be read."""
    faults = []
    reader = consumer(address)
    for part in ledger.partitions.values():
        try:
            read_whole(reader, part, found := Values())
            part.check_all(found, clock.most_ms())
        except (Unread, KafkaException) as refused:
            faults.append(f"{part} could not be read at the end: {refused}")
    reader.close()
    return faults
