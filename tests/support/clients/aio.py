"""aiokafka, driven from the test's thread by an event loop per call, or by one per member."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.support.clients.face import Client, Member, Message, Row, member_settings, seen


class AioKafkaMember(Member):
    def __init__(self, address: str, topic: str, group: str) -> None:
        super().__init__()
        self._topic = topic
        self._settings = member_settings(address, group, metadata_max_age_ms=2_000)

    def open(self) -> None:
        self._runner = asyncio.Runner()
        self._consumer = self._runner.run(self._start())

    async def _start(self) -> Any:
        consumer = AIOKafkaConsumer(self._topic, **self._settings)
        await consumer.start()
        return consumer

    def poll(self) -> list[Message]:
        records = self._runner.run(self._consumer.getmany(timeout_ms=50))
        self.assigned = frozenset(part.partition for part in self._consumer.assignment())
        return seen(records)

    def commit(self) -> None:
        self._runner.run(self._consumer.commit())

    def close(self) -> None:
        self._runner.run(self._consumer.stop())
        self._runner.close()


class AioKafka(Client):
    name = "aiokafka"

    def create_topic(self, topic: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> None:
        asyncio.run(self._create_topic(NewTopic(topic, partitions, 1, topic_configs=dict(settings or {}))))

    async def _create_topic(self, wanted: Any) -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=self.address)
        await admin.start()
        try:
            reply = await admin.create_topics([wanted])
            assert [error[1] for error in reply.topic_errors] == [0], reply
        finally:
            await admin.close()

    def partitions(self, topic: str) -> int:
        async def ask() -> int:
            consumer = AIOKafkaConsumer(topic, bootstrap_servers=self.address)
            await consumer.start()
            try:
                return len(consumer.partitions_for_topic(topic))
            finally:
                await consumer.stop()

        return asyncio.run(ask())

    def produce(self, topic: str, rows: Sequence[Row], *, codec: str = "none", idempotent: bool = False) -> list[int]:
        settings = {"acks": "all", "compression_type": None if codec == "none" else codec, "enable_idempotence": idempotent}
        return asyncio.run(self._produce(topic, rows, settings))

    async def _produce(self, topic: str, rows: Sequence[Row], settings: dict[str, Any]) -> list[int]:
        producer = AIOKafkaProducer(bootstrap_servers=self.address, linger_ms=20, **settings)
        await producer.start()
        try:
            sent, left = [], iter(rows)
            while (row := await asyncio.to_thread(next, left, None)) is not None:  # rows may come slowly
                sent.append(await producer.send(topic, row.value, row.key, row.partition, row.timestamp_ms, list(row.headers)))
            return [done.offset for done in await asyncio.wait_for(asyncio.gather(*sent), 30)]
        finally:
            await producer.stop()

    def consume(self, topic: str, count: int) -> list[Message]:
        return asyncio.run(self._consume(topic, count, self.partitions(topic)))

    async def _consume(self, topic: str, count: int, partitions: int) -> list[Message]:
        consumer = AIOKafkaConsumer(bootstrap_servers=self.address, auto_offset_reset="earliest")
        await consumer.start()
        try:
            consumer.assign([TopicPartition(topic, index) for index in range(partitions)])
            out: list[Message] = []
            while len(out) < count:
                got = seen(await consumer.getmany(timeout_ms=15_000))
                assert got, f"only {len(out)} of {count} came"
                out += got
            return out
        finally:
            await consumer.stop()

    def join(self, topic: str, group: str) -> Member:
        return AioKafkaMember(self.address, topic, group).start()

    def committed(self, topic: str, group: str, partitions: int) -> dict[int, int]:
        async def ask() -> dict[int, int]:
            consumer = AIOKafkaConsumer(bootstrap_servers=self.address, group_id=group)
            await consumer.start()
            try:
                found = {index: await consumer.committed(TopicPartition(topic, index)) for index in range(partitions)}
                return {index: offset for index, offset in found.items() if offset is not None}
            finally:
                await consumer.stop()

        return asyncio.run(ask())
