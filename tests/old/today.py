"""A client of today beside those of old: it writes what they read, and reads what they wrote."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer, TopicPartition

COUNT = 20


def written(topic: str) -> list[list[str]]:
    """Topic, offset, key and value of each record that every producer here writes."""
    return [[topic, str(i), f"k{i}", f"v{i}"] for i in range(COUNT)]


def produce_today(address: str, topic: str, codec: str) -> None:
    """Write with today's librdkafka: batches of magic 2, with headers, which no old client has heard of."""
    producer = Producer({"bootstrap.servers": address, "compression.type": codec, "linger.ms": 20})
    for i in range(COUNT):
        producer.produce(topic, f"v{i}", f"k{i}", headers=[("made", b"today")], partition=0)
    assert producer.flush(30) == 0


def find_coordinator_today(address: str, group: str) -> None:
    """Look for a group's coordinator, as old clients may not: the first who does has `__consumer_offsets` created."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": group})
    (found,) = consumer.committed([TopicPartition("nothing", 0)], timeout=30)
    consumer.close()
    assert found.error is None


def consume_today(address: str, topic: str) -> list[list[str]]:
    """The first records of a topic, as `written` has them."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": "today", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[list[str]] = []
    while len(found) < COUNT and (message := consumer.poll(15)) is not None:
        assert message.error() is None
        key, value = message.key(), message.value()
        assert key is not None
        assert value is not None
        found.append([topic, str(message.offset()), key.decode(), value.decode()])
    consumer.close()
    return found
