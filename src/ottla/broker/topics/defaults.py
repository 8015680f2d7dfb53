"""Topics that are created by name alone: with the broker's defaults, or as internal topics. Knows settings only."""

from __future__ import annotations

from ottla.broker.settings import BrokerSettings
from ottla.cluster.names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.cluster.topics import TopicSpec


def default_topic(name: str, settings: BrokerSettings, brokers: int) -> TopicSpec:
    """The topic of this name, in a cluster of so many brokers."""
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
    """The topic of this name with all its partitions on one broker alone, however many replicas others have by default."""
    return TopicSpec(name, -1, -1, tuple((index, (node_id,)) for index in range(settings.num_partitions)))
