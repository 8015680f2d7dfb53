"""The driver of a producer with serializers. A producer without them has the plain driver, and pays nothing for their existence."""

from __future__ import annotations

from typing import Any

from ottla.client.producer.accumulator import Headers
from ottla.client.serializers import FieldSerializer
from ottla.client.settings.clients import ProducerSettings
from ottla.net.client.producer.delivery import Delivery
from ottla.net.client.producer.produce_driver import ProduceDriver


class SerializingDriver(ProduceDriver):
    """A driver that serializes key and value on the thread that sends. A serializer that raises leaves everything as it was."""

    def __init__(self, settings: ProducerSettings) -> None:
        super().__init__(settings)
        self._key = FieldSerializer("key", settings.key_serializer)
        self._value = FieldSerializer("value", settings.value_serializer)

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
        key = self._key.serialize(topic, key)
        return super().append(topic, self._value.serialize(topic, value), key, partition, headers, timestamp_ms)


def produce_driver(settings: ProducerSettings) -> ProduceDriver:
    """Return the driver for a producer with these settings."""
    plain = settings.key_serializer is None and settings.value_serializer is None
    return ProduceDriver(settings) if plain else SerializingDriver(settings)
