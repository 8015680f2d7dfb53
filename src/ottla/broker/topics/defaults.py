"""The specifications of topics created by name alone: with the broker's defaults, or internal. Depends on settings only."""

from __future__ import annotations

from ottla.broker.settings import BrokerSettings
from ottla.cluster.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.cluster.topics import TopicSpec


def default_topic(name: str, settings: BrokerSettings, brokers: int) -> TopicSpec:
    """Return the specification of a topic in a cluster of `brokers` brokers."""
    configs: dict[str, str | None]
    if name == OFFSETS_TOPIC:
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(settings.offsets_topic_segment_bytes),
        }
        factor = min(settings.offsets_topic_replication_factor, brokers)
        return TopicSpec(name, settings.offsets_topic_num_partitions, factor, configs=configs)
    if name == TRANSACTIONS_TOPIC:
        factor = min(settings.transaction_state_log_replication_factor, brokers)
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(settings.transaction_state_log_min_isr),
            "segment.bytes": str(settings.transaction_state_log_segment_bytes),
        }
        return TopicSpec(name, settings.transaction_state_log_num_partitions, factor, configs=configs)
    return TopicSpec(name, settings.num_partitions, settings.default_replication_factor)


def topic_on(name: str, settings: BrokerSettings, node_id: int) -> TopicSpec:
    """Return the specification of a topic with all partitions on one broker, regardless of the default replication factor."""
    return TopicSpec(name, -1, -1, tuple((index, (node_id,)) for index in range(settings.num_partitions)))
