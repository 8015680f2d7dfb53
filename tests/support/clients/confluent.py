"""confluent-kafka (librdkafka)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.clients.face import Client, GivenUp, Member, Message, Row

NO_OFFSET = 0


def seen(message: Any) -> Message:
    if message.error():
        raise (GivenUp if message.error().fatal() else AssertionError)(str(message.error()))
    headers = tuple(message.headers() or ())
    return Message(message.partition(), message.offset(), message.key(), message.value(), headers, message.timestamp()[1])


def is_transient(error: KafkaError | None) -> bool:
    """Whether librdkafka only reports that the broker is away for now."""
    return error is not None and error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)


class ConfluentMember(Member):
    def __init__(self, address: str, topic: str, group: str) -> None:
        super().__init__()
        self._topic = topic
        self._settings = {
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 10_000,
            "heartbeat.interval.ms": 300,
        }

    def open(self) -> None:
        self._consumer = Consumer(self._settings)
        self._consumer.subscribe([self._topic])

    def poll(self) -> list[Message]:
        messages = self._consumer.consume(500, 0.05)
        self.assigned = frozenset(part.partition for part in self._consumer.assignment())
        return [seen(message) for message in messages if not is_transient(message.error())]

    def commit(self) -> None:
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError._NO_OFFSET:  # nothing was read since the last rebalance
                raise

    def close(self) -> None:
        self._consumer.close()


class Confluent(Client):
    name = "confluent-kafka"

    def create_topic(self, topic: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> None:
        admin = AdminClient({"bootstrap.servers": self.address})
        wanted = NewTopic(topic, partitions, 1, config=dict(settings or {}))
        admin.create_topics([wanted])[topic].result(15)

    def partitions(self, topic: str) -> int:
        return len(AdminClient({"bootstrap.servers": self.address}).list_topics(topic, 15).topics[topic].partitions)

    def produce(self, topic: str, rows: Sequence[Row], *, codec: str = "none", idempotent: bool = False) -> list[int]:
        settings = {"bootstrap.servers": self.address, "compression.type": codec, "acks": "all", "linger.ms": 20}
        producer = Producer({**settings, "enable.idempotence": idempotent, "message.timeout.ms": 20_000})
        offsets: dict[int, int] = {}

        def delivered(number: int) -> Any:
            def report(error: Any, message: Any) -> None:
                assert error is None, str(error)
                offsets[number] = message.offset()

            return report

        for number, row in enumerate(rows):
            where: dict[str, Any] = {"partition": row.partition, "timestamp": row.timestamp_ms, "headers": list(row.headers)}
            producer.produce(topic, row.value, row.key, on_delivery=delivered(number), **where)
        assert producer.flush(30) == 0, "not all was delivered in 30 s"
        return [offsets[number] for number in range(len(rows))]

    def consume(self, topic: str, count: int) -> list[Message]:
        settings = {"bootstrap.servers": self.address, "group.id": "none", "enable.auto.commit": False, "check.crcs": True}
        consumer = Consumer(settings)
        consumer.assign([TopicPartition(topic, index, NO_OFFSET) for index in range(self.partitions(topic))])
        out: list[Message] = []
        while len(out) < count:
            got = consumer.consume(count - len(out), 15)
            assert got, f"only {len(out)} of {count} came"
            out += map(seen, got)
        consumer.close()
        return out

    def join(self, topic: str, group: str) -> Member:
        return ConfluentMember(self.address, topic, group).start()

    def committed(self, topic: str, group: str, partitions: int) -> dict[int, int]:
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": group})
        answer = consumer.committed([TopicPartition(topic, index) for index in range(partitions)], 15)
        consumer.close()
        return {part.partition: part.offset for part in answer if part.offset >= 0}
