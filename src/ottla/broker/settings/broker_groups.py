"""The broker's settings for groups, their offsets and producers' ids. Declared only; nothing here reads them."""

from __future__ import annotations

from ottla.broker.settings.kinds import INT, LARGEST_INT, LONG, SHORT, at_least
from ottla.broker.settings.setting import Setting, SettingsOf

MINUTE_MS = 60_000


class CoordinatorSettings(SettingsOf):
    """What members of groups may ask for, and how long offsets are kept."""

    group_initial_rebalance_delay_ms = Setting(
        INT, 3000, "How long a new group waits for more members before it begins.", check=at_least(0)
    )
    group_max_session_timeout_ms = Setting(INT, 30 * MINUTE_MS, "Longest session timeout that a member may ask for.")
    group_max_size = Setting(INT, LARGEST_INT, "Members that a group may have.", check=at_least(1))
    group_min_session_timeout_ms = Setting(INT, 6000, "Shortest session timeout that a member may ask for.")
    offset_metadata_max_bytes = Setting(INT, 4096, "Size of the text that may go with a committed offset.")
    offsets_retention_check_interval_ms = Setting(
        LONG, 10 * MINUTE_MS, "Time between two looks for expired offsets.", check=at_least(1)
    )
    offsets_retention_minutes = Setting(
        INT, 10_080, "How long the offsets of a group without members are kept, in minutes.", check=at_least(1)
    )
    offsets_topic_num_partitions = Setting(
        INT, 50, "Partitions of __consumer_offsets; to be left alone once it exists.", check=at_least(1)
    )
    offsets_topic_replication_factor = Setting(
        SHORT, 3, "Replicas of __consumer_offsets, as far as there are brokers.", check=at_least(1)
    )
    offsets_topic_segment_bytes = Setting(INT, 100 << 20, "Size of a segment of __consumer_offsets.", check=at_least(1))
    transaction_state_log_num_partitions = Setting(
        INT, 50, "Partitions of __transaction_state; to be left alone once it exists.", check=at_least(1)
    )
    transaction_state_log_replication_factor = Setting(
        SHORT, 3, "Replicas of __transaction_state, as far as there are brokers.", check=at_least(1)
    )
