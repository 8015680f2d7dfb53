"""The broker's settings for share coordinators (KIP-932), which store the states of share partitions. Declarations only."""

from __future__ import annotations

from ottla.broker.settings.kinds import INT, LONG, SHORT, at_least, between
from ottla.broker.settings.setting import Setting, SettingsOf
from ottla.broker.settings.topic import TopicSettings
from ottla.cluster.topics import MOST_PARTITIONS

MINUTE_MS = 60_000


class ShareCoordinatorSettings(SettingsOf):
    """The internal topic of share coordinators, their snapshots and their memory."""

    ottla_max_share_state_bytes = Setting(
        LONG,
        64 << 20,
        "About how much memory the states of share partitions may take in this broker's share coordinators. Beyond it, new states "
        "and more state batches are refused with POLICY_VIOLATION.",
        check=at_least(0),
    )
    share_coordinator_cold_partition_snapshot_interval_ms = Setting(
        INT,
        5 * MINUTE_MS,
        "Age at which the snapshot of a share partition is repeated, so that older records of __share_group_state can be deleted.",
        check=at_least(1),
        hidden=True,
    )
    share_coordinator_snapshot_update_records_per_snapshot = Setting(
        INT, 500, "Updates of a share partition's state between two snapshots.", check=between(0, 500)
    )
    share_coordinator_state_topic_min_isr = Setting(
        SHORT,
        2,
        "min.insync.replicas of __share_group_state; has no effect once the topic exists, and demands no more than its replicas.",
        check=at_least(1),
    )
    share_coordinator_state_topic_num_partitions = Setting(
        INT, 50, "Partitions of __share_group_state; has no effect once the topic exists.", check=between(1, MOST_PARTITIONS)
    )
    share_coordinator_state_topic_prune_interval_ms = Setting(
        INT,
        5 * MINUTE_MS,
        "Time between two deletions of the records of __share_group_state that later snapshots replace.",
        check=at_least(1),
        hidden=True,
    )
    share_coordinator_state_topic_replication_factor = Setting(
        SHORT,
        3,
        "Replicas of __share_group_state, which is not created in a cluster of fewer brokers; a single broker has one.",
        check=at_least(1),
    )
    share_coordinator_state_topic_segment_bytes = Setting(
        INT, 100 << 20, "Size of a segment of __share_group_state.", check=TopicSettings.segment_bytes.check
    )
    share_coordinator_write_timeout_ms = Setting(
        INT, 5000, "How long writes of share coordinators wait for replicas before they are refused.", check=at_least(1)
    )
