"""How well quotas are kept: the rate of confluent-kafka's producer and consumer under a quota, beside Apache Kafka.

    python -m bench.quotas [--seconds 30] [--no-kafka]

Each writes or reads as fast as it may. What counts is what the broker stored, or what the reader got, from the first byte on.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import NamedTuple

import confluent_kafka

from bench.paced import ask
from bench.servers import Kafka, Ottla
from ottla.wire.api.alter_client_quotas import AlterClientQuotasRequest

ALTER_CLIENT_QUOTAS = 49
VALUE = bytes(range(256)) * 4
RATES = (2_000_000, 10_000_000)


class Measured(NamedTuple):
    """A rate that a client had, in bytes a second, and the quota it had."""

    name: str
    quota: int
    rate: float

    @property
    def off(self) -> float:
        """By which part of the quota the rate is off."""
        return self.rate / self.quota - 1

    def __str__(self) -> str:
        return f"{self.name:<40} quota {self.quota / 1e6:6.2f} MB/s, measured {self.rate / 1e6:6.3f} MB/s, {100 * self.off:+.1f} %"


def set_quota(address: str, client_id: str, key: str, value: float | None) -> None:
    """Set a quota of a client id, or remove it."""
    made = AlterClientQuotasRequest
    op = made.OpData(key=key, value=value or 0.0, remove=value is None)
    entry = made.EntryData(entity=[made.EntityData(entity_type="client-id", entity_name=client_id)], ops=[op])
    (answer,) = ask(address, ALTER_CLIENT_QUOTAS, 1, made(entries=[entry])).entries
    if answer.error_code:
        raise SystemExit(f"the quota was refused: {answer.error_message}")


class Tally:
    """Bytes that got through, for so long from the first of them on."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.bytes = 0
        self._end: float | None = None
        self._latest = time.monotonic() + 60

    def add(self, size: int) -> None:
        now = time.monotonic()
        self._end = self._end or now + self.seconds
        self.bytes += size if now < self._end else 0

    @property
    def goes_on(self) -> bool:
        return time.monotonic() < (self._end or self._latest)


def produce(address: str, topic: str, client_id: str, tally: Tally) -> None:
    """Write as fast as one may; counts the values that were acknowledged."""

    def delivered(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        if error is None:
            tally.add(len(message.value() or b""))

    settings = {"bootstrap.servers": address, "client.id": client_id, "linger.ms": 5, "queue.buffering.max.messages": 2000}
    producer = confluent_kafka.Producer(settings)
    while tally.goes_on:
        try:
            producer.produce(topic, VALUE, on_delivery=delivered)
        except BufferError:
            producer.poll(0.01)
        producer.poll(0)
    producer.purge()
    producer.flush(5)


def consume(address: str, topic: str, client_id: str, tally: Tally) -> None:
    """Read as fast as one may; counts the values."""
    settings = {"bootstrap.servers": address, "client.id": client_id, "group.id": client_id, "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer(settings)
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    try:
        while tally.goes_on:
            for message in consumer.consume(500, 0.1):
                tally.add(len(message.value() or b""))
    finally:
        consumer.close()


def fill(address: str, topic: str, size: int) -> None:
    """Write so many bytes of values to a topic."""
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "linger.ms": 5, "batch.size": 65536})
    for _ in range(size // len(VALUE)):
        while True:
            try:
                producer.produce(topic, VALUE)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def measured(name: str, address: str, seconds: float, quota: int) -> Iterator[Measured]:
    """The rates of a writer and of a reader who each have this quota."""
    tally = Tally(seconds)
    set_quota(address, f"writer-{quota}", "producer_byte_rate", quota)
    produce(address, "written", f"writer-{quota}", tally)
    yield Measured(f"{name}: written", quota, tally.bytes / seconds)
    tally = Tally(seconds)
    set_quota(address, f"reader-{quota}", "consumer_byte_rate", quota)
    fill(address, f"read-{quota}", int(quota * (seconds + 12)))  # Kafka lets those who come read ten seconds' worth at once
    consume(address, f"read-{quota}", f"reader-{quota}", tally)
    yield Measured(f"{name}: read", quota, tally.bytes / seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--no-kafka", action="store_true", help="leave Apache Kafka out")
    options = parser.parse_args()
    for server in (Ottla,) if options.no_kafka else (Ottla, Kafka):
        with server() as running:
            for quota in RATES:
                for row in measured(running.name, running.address, options.seconds, quota):
                    print(row, flush=True)


if __name__ == "__main__":
    main()
