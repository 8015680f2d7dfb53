"""Ottla's own client, asked for the same as the others: on Ottla and, with `--peer=apache-kafka`, on Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import ottla
from tests.support.clients.face import Client, Member, Message, Row, member_settings


def seen(records: Iterable[ottla.ConsumerRecord]) -> list[Message]:
    return [
        Message(
            record.partition,
            record.offset,
            record.key,
            record.value,
            tuple((name, value or b"") for name, value in record.headers),
            record.timestamp,
        )
        for record in records
    ]


class OwnMember(Member):
    def __init__(self, address: str, topic: str, group: str) -> None:
        super().__init__()
        self._topic = topic
        self._settings = member_settings(address, group)

    def open(self) -> None:
        self._consumer = ottla.Consumer(self._topic, **self._settings)

    def poll(self) -> list[Message]:
        records = self._consumer.poll(timeout_ms=50)
        self.assigned = frozenset(part.partition for part in self._consumer.assignment())
        return seen(records)

    def commit(self) -> None:
        self._consumer.commit()

    def close(self) -> None:
        self._consumer.close()


class Own(Client):
    name = "ottla"

    def create_topic(self, topic: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> None:
        with ottla.Admin(self.address) as admin:
            admin.create_topic(topic, partitions, 1, settings)

    def partitions(self, topic: str) -> int:
        with ottla.Admin(self.address) as admin:
            return len(admin.describe_topics(topic)[topic].partitions)

    def produce(self, topic: str, rows: Sequence[Row], *, codec: str = "none", idempotent: bool = False) -> list[int]:
        settings: dict[str, Any] = {"acks": "all", "compression_type": codec, "enable_idempotence": idempotent, "linger_ms": 20}
        with ottla.Producer(self.address, **settings) as producer:
            sent = [
                producer.send(
                    topic, row.value, key=row.key, partition=row.partition, headers=row.headers, timestamp_ms=row.timestamp_ms
                )
                for row in rows
            ]
            return [delivery.result(30).offset for delivery in sent]

    def consume(self, topic: str, count: int) -> list[Message]:
        with ottla.Consumer(topic, bootstrap_servers=self.address, auto_offset_reset="earliest") as consumer:
            out: list[Message] = []
            while len(out) < count:
                got = consumer.poll(timeout_ms=15_000)
                assert got, f"only {len(out)} of {count} came"
                out += seen(got)
            return out

    def join(self, topic: str, group: str) -> Member:
        return OwnMember(self.address, topic, group).start()

    def committed(self, topic: str, group: str, partitions: int) -> dict[int, int]:
        with ottla.Admin(self.address) as admin:
            found = admin.list_group_offsets(group)
        return {where.partition: kept.offset for where, kept in found.items() if where.topic == topic}
