"""Ottla: a log that speaks Kafka's protocol, in Python.

The names below are imported when first used, so that `import ottla` costs nothing and needs no extra.
"""

from __future__ import annotations

from ottla.version import VERSION

TYPE_CHECKING = False  # as type checkers know it, without the time that importing typing takes

if TYPE_CHECKING:
    from ottla.client.admin import NewTopic
    from ottla.client.errors import (
        BrokerError,
        Closed,
        CommitFailed,
        ConnectionFailed,
        NotSupported,
        OffsetOutOfRange,
        TimedOut,
        UnknownTopic,
    )
    from ottla.client.types import ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp, RecordMetadata, TopicPartition
    from ottla.errors import KafkaError, SettingError
    from ottla.net.client.admin import Admin
    from ottla.net.client.async_admin import AsyncAdmin
    from ottla.net.client.async_consumer import AsyncConsumer
    from ottla.net.client.async_producer import AsyncProducer
    from ottla.net.client.consumer import Consumer
    from ottla.net.client.delivery import Delivery
    from ottla.net.client.producer import Producer
    from ottla.net.door import BrokerFailed
    from ottla.net.embedded import Broker

__version__ = VERSION

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "Broker",
    "BrokerError",
    "BrokerFailed",
    "Closed",
    "CommitFailed",
    "ConnectionFailed",
    "Consumer",
    "ConsumerRecord",
    "Delivery",
    "KafkaError",
    "NewTopic",
    "NotSupported",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetOutOfRange",
    "Producer",
    "RecordMetadata",
    "SettingError",
    "TimedOut",
    "TopicPartition",
    "UnknownTopic",
    "__version__",
]

_ERRORS = "ottla.client.errors"
_TYPES = "ottla.client.types"
_HOMES = {
    "Admin": "ottla.net.client.admin",
    "AsyncAdmin": "ottla.net.client.async_admin",
    "AsyncConsumer": "ottla.net.client.async_consumer",
    "AsyncProducer": "ottla.net.client.async_producer",
    "Broker": "ottla.net.embedded",
    "BrokerError": _ERRORS,
    "BrokerFailed": "ottla.net.door",
    "Closed": _ERRORS,
    "CommitFailed": _ERRORS,
    "ConnectionFailed": _ERRORS,
    "Consumer": "ottla.net.client.consumer",
    "ConsumerRecord": _TYPES,
    "Delivery": "ottla.net.client.delivery",
    "KafkaError": "ottla.errors",
    "NewTopic": "ottla.client.admin",
    "NotSupported": _ERRORS,
    "OffsetAndMetadata": _TYPES,
    "OffsetAndTimestamp": _TYPES,
    "OffsetOutOfRange": _ERRORS,
    "Producer": "ottla.net.client.producer",
    "RecordMetadata": _TYPES,
    "SettingError": "ottla.errors",
    "TimedOut": _ERRORS,
    "TopicPartition": _TYPES,
    "UnknownTopic": _ERRORS,
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'ottla' has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
