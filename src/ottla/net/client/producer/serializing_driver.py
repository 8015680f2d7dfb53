"""The driver of a producer with serializers. A producer without them has the plain driver, and pays nothing for their existence."""

from __future__ import annotations

import asyncio
from typing import Any

from ottla.client.producer.accumulator import Headers
from ottla.client.serializers import FieldSerializer
from ottla.client.settings.clients import ProducerSettings
from ottla.client.types import TopicPartition
from ottla.net.client.producer.delivery import Delivery
from ottla.net.client.producer.produce_driver import ProduceDriver


def _append_nothing(*_fields: object) -> Delivery | None:
    """Return None: every record of this driver needs `append`."""
    return None


class SerializingDriver(ProduceDriver):
    """A driver that serializes key and value on the thread that sends. A serializer that raises leaves everything as it was."""

    def __init__(self, settings: ProducerSettings, *, needs_idempotence: bool = True) -> None:
        super().__init__(settings, needs_idempotence=needs_idempotence)
        self._key = FieldSerializer("key", settings.key_serializer)
        self._value = FieldSerializer("value", settings.value_serializer)

    async def start(self) -> None:
        await super().start()
        self._append_bytes, self.append_quickly = self.append_quickly, _append_nothing

    def append(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        headers: Headers | None,
        timestamp_ms: int | None,
    ) -> Delivery | None:
        if not (isinstance(topic, str) and self._cluster.metadata.partition_count(topic)):
            return None  # `load_metadata` first: a record is serialized once
        if not (self._key.is_ready(topic) and self._value.is_ready(topic)):
            return None
        key, value = self._key.serialize(topic, key), self._value.serialize(topic, value)
        delivery: Delivery | None = self._append_bytes(topic, value, key, partition, headers, timestamp_ms)
        return delivery or super().append(topic, value, key, partition, headers, timestamp_ms)

    async def load_metadata(self, topic: str) -> None:
        """Request a topic's metadata, or if it is there, the schemas of its keys and values. Raises `KafkaError`."""
        if not (isinstance(topic, str) and self._cluster.metadata.partition_count(topic)):
            await super().load_metadata(topic)
            return
        for serializer in (self._key, self._value):
            await asyncio.to_thread(serializer.load, topic)

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        await super().load_metadata(topic)
        return self._cluster.metadata.partitions(topic)


def produce_driver(settings: ProducerSettings, *, needs_idempotence: bool) -> ProduceDriver:
    """Return the driver for a producer with these settings. Without `needs_idempotence`, old brokers are written to without it."""
    plain = settings.key_serializer is None and settings.value_serializer is None
    return (ProduceDriver if plain else SerializingDriver)(settings, needs_idempotence=needs_idempotence)
