"""A client of today beside those of 0.7: values alone, since keys and times are nothing they know."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import Consumer, Producer, TopicPartition

PATIENCE_S = 60


def write(address: str, topic: str, values: Sequence[str], codec: str = "none", partitions: int = 1) -> None:
    """Write values in turn to the partitions of a topic, with keys and headers, in batches of today."""
    producer = Producer({"bootstrap.servers": address, "compression.type": codec, "linger.ms": 20})
    for number, value in enumerate(values):
        producer.produce(topic, value, f"k{number}", headers=[("made", b"today")], partition=number % partitions)
    assert producer.flush(PATIENCE_S) == 0


def read(address: str, topic: str, count: int, *, partition: int = 0) -> list[str]:
    """The first values of a partition."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "today", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[str] = []
    while len(found) < count and (message := consumer.poll(PATIENCE_S)) is not None:
        assert message.error() is None
        value = message.value()
        assert value is not None
        found.append(value.decode())
    consumer.close()
    return found
