"""A producer written with confluent-kafka: makes the topics and loads flights, weather and airlines as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # its stubs leave out what it passes on

from examples.flights import data

PARTITIONS = {data.FLIGHTS: 6, data.WEATHER: 1, data.AIRLINES: 1, "delays": 4}
KEYS = {data.FLIGHTS: "origin", data.WEATHER: "origin", data.AIRLINES: "carrier"}
EVERY = 2000


def make_topics(servers: str) -> None:
    """Make the four topics. One that is there already is an error: its old rows would count."""
    admin = AdminClient({"bootstrap.servers": servers})
    asked = admin.create_topics([NewTopic(name, num_partitions=count, replication_factor=1) for name, count in PARTITIONS.items()])
    for name, made in asked.items():
        try:
            made.result(timeout=30)
        except KafkaException as error:
            raise SystemExit(f"Topic {name} cannot be made: {error.args[0].str()}") from None


def _messages() -> Iterator[tuple[str, str, bytes]]:
    for topic, column in KEYS.items():
        for row in data.rows(topic):
            yield topic, str(row[column]), json.dumps(row, separators=(",", ":")).encode()


class _Delivery:
    """Remembers the first failure; called for failures alone."""

    failure: KafkaError | None = None

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        self.failure = self.failure or error

    def check(self) -> None:
        if self.failure is not None:
            raise SystemExit(f"The broker did not take a row: {self.failure.str()}")


def load(servers: str, show: Callable[[int], None]) -> int:
    """Send every row and wait until the broker has them all; `show` is told how many were sent since. Returns their number."""
    delivery = _Delivery()
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "compression.type": "lz4",
            "delivery.report.only.error": True,
            "on_delivery": delivery,
        }
    )
    sent = 0
    for topic, key, value in _messages():
        _send(producer, topic, key, value)
        sent += 1
        if sent % EVERY == 0:
            delivery.check()
            show(EVERY)
    while producer.flush(0.2):  # short, so that Ctrl-C is noticed
        delivery.check()
    delivery.check()
    show(sent % EVERY)
    return sent


def _send(producer: Producer, topic: str, key: str, value: bytes) -> None:
    while True:
        try:
            producer.produce(topic, value, key)
        except BufferError:
            producer.poll(0.1)  # its queue is full: let it send
        else:
            producer.poll(0)
            return


def rows_in(servers: str, topic: str) -> int:
    """How many rows a topic holds."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "counting"})
    try:
        edges = [consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=30) for index in range(PARTITIONS[topic])]
    finally:
        consumer.close()
    return sum(high - low for low, high in edges)
