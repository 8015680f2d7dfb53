"""kafka-python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from tests.support.clients.face import Client, Member, Message, Row, member_settings, seen


class KafkaPythonMember(Member):
    def __init__(self, address: str, topic: str, group: str) -> None:
        super().__init__()
        self._topic = topic
        self._settings = member_settings(address, group, reconnect_backoff_max_ms=500)

    def open(self) -> None:
        self._consumer = KafkaConsumer(self._topic, **self._settings)

    def poll(self) -> list[Message]:
        records = self._consumer.poll(timeout_ms=50)
        self.assigned = frozenset(part.partition for part in self._consumer.assignment())
        return seen(records)

    def commit(self) -> None:
        self._consumer.commit()

    def close(self) -> None:
        self._consumer.close()


class KafkaPython(Client):
    name = "kafka-python"

    def _admin(self) -> Any:
        return closing(KafkaAdminClient(bootstrap_servers=self.address))

    def create_topic(self, topic: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> None:
        wanted = NewTopic(name=topic, num_partitions=partitions, replication_factor=1, topic_configs=dict(settings or {}))
        with self._admin() as admin:
            admin.create_topics([wanted])

    def partitions(self, topic: str) -> int:
        with closing(KafkaConsumer(bootstrap_servers=self.address)) as consumer:
            return len(consumer.partitions_for_topic(topic))

    def produce(self, topic: str, rows: Sequence[Row], *, codec: str = "none", idempotent: bool = False) -> list[int]:
        settings = {"acks": "all", "compression_type": None if codec == "none" else codec, "enable_idempotence": idempotent}
        with closing(KafkaProducer(bootstrap_servers=self.address, linger_ms=20, **settings)) as producer:
            sent = [producer.send(topic, row.value, row.key, list(row.headers), row.partition, row.timestamp_ms) for row in rows]
            producer.flush(30)
            return [future.get(30).offset for future in sent]

    def consume(self, topic: str, count: int) -> list[Message]:
        with closing(KafkaConsumer(bootstrap_servers=self.address, auto_offset_reset="earliest")) as consumer:
            consumer.assign([TopicPartition(topic, index) for index in sorted(consumer.partitions_for_topic(topic))])
            out: list[Message] = []
            while len(out) < count:
                got = seen(consumer.poll(timeout_ms=15_000))
                assert got, f"only {len(out)} of {count} came"
                out += got
            return out

    def join(self, topic: str, group: str) -> Member:
        return KafkaPythonMember(self.address, topic, group).start()

    def committed(self, topic: str, group: str, partitions: int) -> dict[int, int]:
        with closing(KafkaConsumer(bootstrap_servers=self.address, group_id=group)) as consumer:
            found = {index: consumer.committed(TopicPartition(topic, index)) for index in range(partitions)}
            return {index: offset for index, offset in found.items() if offset is not None}
