"""Ottla: a log that speaks Kafka's protocol, in Python.

The names below are imported when first used, so that `import ottla` costs nothing and needs no extra.
"""

from __future__ import annotations

from ottla.version import VERSION

TYPE_CHECKING = False  # the spelling that type checkers accept, without the time that importing typing takes

if TYPE_CHECKING:
    from ottla.client.admin.acls import AclRule, AclRuleFilter
    from ottla.client.admin.client_metrics import PushingClient
    from ottla.client.admin.cluster import ClusterDescription
    from ottla.client.admin.features import ClusterFeatures, FeatureDescription
    from ottla.client.admin.groups import (
        GroupDescription,
        GroupListing,
        GroupMember,
        ShareOffset,
        StreamsMemberDetails,
        StreamsTasks,
        Subtopology,
    )
    from ottla.client.admin.otlp import ClientMetric
    from ottla.client.admin.quorum import QuorumDescription, QuorumReplica
    from ottla.client.admin.quotas import ClientQuota, QuotaOf
    from ottla.client.admin.replicas import LogDir, PartitionReassignment, ReplicaDirectories, ReplicaOnDisk, TopicPartitionReplica
    from ottla.client.admin.results import ResultList, Results
    from ottla.client.admin.tokens import TokenDescription
    from ottla.client.admin.topics import (
        ConfigAlteration,
        ConfigEntry,
        ConfigResource,
        ConfigSynonym,
        CreatedTopic,
        NewPartitions,
        NewTopic,
    )
    from ottla.client.admin.transactions import (
        ActiveProducer,
        FencedProducer,
        HangingTransaction,
        TransactionDescription,
        TransactionListing,
    )
    from ottla.client.connection.metadata import PartitionInfo, TopicInfo
    from ottla.client.consumer.assignors import MemberSubscription, PartitionAssignor
    from ottla.client.errors import (
        AcknowledgeFailed,
        AuthenticationFailed,
        BrokerError,
        Closed,
        CommitFailed,
        ConnectionFailed,
        DeliveryFailed,
        DeserializationFailed,
        FlushTimedOut,
        NotSupported,
        OffsetOutOfRange,
        ProducerFenced,
        Purged,
        SerializationFailed,
        TimedOut,
        TransactionAbortable,
        TransactionError,
        TransactionFailed,
        UnknownTopic,
        WokenUp,
    )
    from ottla.client.interceptors import ConsumerInterceptor, ProducerInterceptor, ProducerRecord
    from ottla.client.metrics.registry import Metric, MetricsSnapshot
    from ottla.client.share.acknowledgements import AcknowledgeType
    from ottla.client.types import (
        ConsumerGroupMetadata,
        ConsumerRecord,
        Node,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        RecordMetadata,
        SubscriptionPattern,
        TopicPartition,
    )
    from ottla.errors import KafkaError, SettingError
    from ottla.net.client.admin.admin import Admin
    from ottla.net.client.admin.async_admin import AsyncAdmin
    from ottla.net.client.consumer.async_consumer import AsyncConsumer
    from ottla.net.client.consumer.consumer import Consumer
    from ottla.net.client.opentelemetry import Metering, Tracing
    from ottla.net.client.producer.async_producer import AsyncProducer
    from ottla.net.client.producer.delivery import Delivery
    from ottla.net.client.producer.producer import Producer
    from ottla.net.client.share.async_share_consumer import AsyncShareConsumer
    from ottla.net.client.share.share_consumer import ShareConsumer
    from ottla.net.process.embedded_broker import Broker
    from ottla.net.server.exception_boundary import BrokerFailed
    from ottla.net.server.listeners import CannotListen
    from ottla.net.startup.data_directory import DataDirectoryError
    from ottla.schemas.registry_values import RegistryDeserializer, RegistrySerializer

__version__ = VERSION

__all__ = [
    "AcknowledgeFailed",
    "AcknowledgeType",
    "AclRule",
    "AclRuleFilter",
    "ActiveProducer",
    "Admin",
    "AsyncAdmin",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncShareConsumer",
    "AuthenticationFailed",
    "Broker",
    "BrokerError",
    "BrokerFailed",
    "CannotListen",
    "ClientMetric",
    "ClientQuota",
    "Closed",
    "ClusterDescription",
    "ClusterFeatures",
    "CommitFailed",
    "ConfigAlteration",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSynonym",
    "ConnectionFailed",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerInterceptor",
    "ConsumerRecord",
    "CreatedTopic",
    "DataDirectoryError",
    "Delivery",
    "DeliveryFailed",
    "DeserializationFailed",
    "FeatureDescription",
    "FencedProducer",
    "FlushTimedOut",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "HangingTransaction",
    "KafkaError",
    "LogDir",
    "MemberSubscription",
    "Metering",
    "Metric",
    "MetricsSnapshot",
    "NewPartitions",
    "NewTopic",
    "Node",
    "NotSupported",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetOutOfRange",
    "PartitionAssignor",
    "PartitionInfo",
    "PartitionReassignment",
    "Producer",
    "ProducerFenced",
    "ProducerInterceptor",
    "ProducerRecord",
    "Purged",
    "PushingClient",
    "QuorumDescription",
    "QuorumReplica",
    "QuotaOf",
    "RecordMetadata",
    "RegistryDeserializer",
    "RegistrySerializer",
    "ReplicaDirectories",
    "ReplicaOnDisk",
    "ResultList",
    "Results",
    "SerializationFailed",
    "SettingError",
    "ShareConsumer",
    "ShareOffset",
    "StreamsMemberDetails",
    "StreamsTasks",
    "SubscriptionPattern",
    "Subtopology",
    "TimedOut",
    "TokenDescription",
    "TopicInfo",
    "TopicPartition",
    "TopicPartitionReplica",
    "Tracing",
    "TransactionAbortable",
    "TransactionDescription",
    "TransactionError",
    "TransactionFailed",
    "TransactionListing",
    "UnknownTopic",
    "WokenUp",
    "__version__",
]

_HOMES = {
    "ottla.client.admin.results": "ResultList Results",
    "ottla.client.consumer.assignors": "MemberSubscription PartitionAssignor",
    "ottla.client.admin.acls": "AclRuleFilter AclRule",
    "ottla.client.admin.groups": "GroupDescription GroupListing GroupMember ShareOffset StreamsMemberDetails "
    "StreamsTasks Subtopology",
    "ottla.client.admin.topics": "ConfigAlteration ConfigEntry ConfigResource ConfigSynonym CreatedTopic NewPartitions NewTopic",
    "ottla.client.errors": "AcknowledgeFailed AuthenticationFailed BrokerError Closed CommitFailed ConnectionFailed DeliveryFailed "
    "DeserializationFailed FlushTimedOut NotSupported OffsetOutOfRange ProducerFenced Purged SerializationFailed TimedOut "
    "TransactionAbortable TransactionError TransactionFailed UnknownTopic WokenUp",
    "ottla.client.admin.client_metrics": "PushingClient",
    "ottla.client.admin.cluster": "ClusterDescription",
    "ottla.client.admin.otlp": "ClientMetric",
    "ottla.client.admin.features": "ClusterFeatures FeatureDescription",
    "ottla.client.admin.quorum": "QuorumDescription QuorumReplica",
    "ottla.client.admin.quotas": "ClientQuota QuotaOf",
    "ottla.client.admin.tokens": "TokenDescription",
    "ottla.client.admin.replicas": "LogDir PartitionReassignment ReplicaDirectories ReplicaOnDisk TopicPartitionReplica",
    "ottla.client.connection.metadata": "PartitionInfo TopicInfo",
    "ottla.client.admin.transactions": "ActiveProducer FencedProducer HangingTransaction TransactionDescription TransactionListing",
    "ottla.net.client.opentelemetry": "Metering Tracing",
    "ottla.client.interceptors": "ConsumerInterceptor ProducerInterceptor ProducerRecord",
    "ottla.client.metrics.registry": "Metric MetricsSnapshot",
    "ottla.client.types": "ConsumerGroupMetadata ConsumerRecord Node OffsetAndMetadata OffsetAndTimestamp RecordMetadata "
    "SubscriptionPattern TopicPartition",
    "ottla.errors": "KafkaError SettingError",
    "ottla.net.client.admin.admin": "Admin",
    "ottla.net.client.admin.async_admin": "AsyncAdmin",
    "ottla.net.client.consumer.async_consumer": "AsyncConsumer",
    "ottla.net.client.producer.async_producer": "AsyncProducer",
    "ottla.net.client.consumer.consumer": "Consumer",
    "ottla.net.client.producer.delivery": "Delivery",
    "ottla.net.client.producer.producer": "Producer",
    "ottla.client.share.acknowledgements": "AcknowledgeType",
    "ottla.net.client.share.async_share_consumer": "AsyncShareConsumer",
    "ottla.net.client.share.share_consumer": "ShareConsumer",
    "ottla.net.startup.data_directory": "DataDirectoryError",
    "ottla.net.server.exception_boundary": "BrokerFailed",
    "ottla.schemas.registry_values": "RegistryDeserializer RegistrySerializer",
    "ottla.net.process.embedded_broker": "Broker",
    "ottla.net.server.listeners": "CannotListen",
}
"""The public names by the module that defines them. Type checkers read the imports above instead."""


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names.split():
            found: object = getattr(_load(home), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module 'ottla' has no attribute {name!r}")


def _load(name: str) -> object:
    """Import a module without collections of garbage, which would take a sixth of the time and find hardly any."""
    import gc
    from importlib import import_module

    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return import_module(name)
    finally:
        if was_enabled:
            gc.enable()


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
