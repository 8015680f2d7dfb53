"""The broker's settings for share and streams groups: defaults and bounds of group configs.

Values of single groups, and their bounds, are in `group`.
"""

from __future__ import annotations

from ottla.broker.settings.group import GroupConfigs
from ottla.broker.settings.kinds import INT, LARGEST_INT, at_least, between
from ottla.broker.settings.setting import Setting, SettingsOf, default_of


class ShareStreamsSettings(SettingsOf):
    """Settings of share and streams groups."""

    group_share_assignment_interval_ms = default_of(GroupConfigs.share_assignment_interval_ms)
    group_share_delivery_count_limit = default_of(GroupConfigs.share_delivery_count_limit, check=between(2, 10), dynamic=False)
    group_share_heartbeat_interval_ms = default_of(GroupConfigs.share_heartbeat_interval_ms, dynamic=False)
    group_share_initialize_retry_interval_ms = Setting(
        INT,
        30_000,
        "Time without a result after which share partitions are initialized again; at least offsets.commit.timeout.ms.",
        check=at_least(1),
        hidden=True,
    )
    group_share_max_assignment_interval_ms = Setting(
        INT, 15_000, "Longest share.assignment.interval.ms that may be set for one group.", check=at_least(0)
    )
    group_share_max_delivery_count_limit = Setting(
        INT, 10, "Largest share.delivery.count.limit that may be set for one group.", check=between(5, 25)
    )
    group_share_max_heartbeat_interval_ms = Setting(
        INT, 15_000, "Longest share.heartbeat.interval.ms that may be set for one group.", check=at_least(1)
    )
    group_share_max_partition_max_record_locks = Setting(
        INT, 4000, "Largest share.partition.max.record.locks that may be set for one group.", check=between(2000, 10_000)
    )
    group_share_max_record_lock_duration_ms = Setting(
        INT, 60_000, "Longest share.record.lock.duration.ms that may be set for one group.", check=between(30_000, 3_600_000)
    )
    group_share_max_session_timeout_ms = Setting(
        INT, 60_000, "Longest share.session.timeout.ms that may be set for one group.", check=at_least(1)
    )
    group_share_max_share_sessions = Setting(
        INT, 2000, "Share sessions of all members on this broker. Beyond it, members wait for a session.", check=at_least(1)
    )
    group_share_max_size = Setting(INT, 200, "Members that a share group may have.", check=between(1, 1000))
    group_share_min_assignment_interval_ms = Setting(
        INT, 0, "Shortest share.assignment.interval.ms that may be set for one group.", check=at_least(0)
    )
    group_share_min_delivery_count_limit = Setting(
        INT, 2, "Smallest share.delivery.count.limit that may be set for one group.", check=between(2, 5)
    )
    group_share_min_heartbeat_interval_ms = Setting(
        INT, 5000, "Shortest share.heartbeat.interval.ms that may be set for one group.", check=at_least(1)
    )
    group_share_min_partition_max_record_locks = Setting(
        INT, 100, "Smallest share.partition.max.record.locks that may be set for one group.", check=between(100, 2000)
    )
    group_share_min_record_lock_duration_ms = Setting(
        INT, 15_000, "Shortest share.record.lock.duration.ms that may be set for one group.", check=between(1000, 30_000)
    )
    group_share_min_session_timeout_ms = Setting(
        INT, 45_000, "Shortest share.session.timeout.ms that may be set for one group.", check=at_least(1)
    )
    group_share_partition_max_record_locks = default_of(
        GroupConfigs.share_partition_max_record_locks, check=between(100, 10_000), dynamic=False
    )
    group_share_record_lock_duration_ms = default_of(
        GroupConfigs.share_record_lock_duration_ms, check=between(1000, 3_600_000), dynamic=False
    )
    group_share_session_timeout_ms = default_of(GroupConfigs.share_session_timeout_ms, dynamic=False)
    group_streams_acceptable_recovery_lag = default_of(GroupConfigs.streams_acceptable_recovery_lag, dynamic=False)
    group_streams_assignment_interval_ms = default_of(GroupConfigs.streams_assignment_interval_ms)
    group_streams_heartbeat_interval_ms = default_of(GroupConfigs.streams_heartbeat_interval_ms, dynamic=False)
    group_streams_initial_rebalance_delay_ms = default_of(GroupConfigs.streams_initial_rebalance_delay_ms, dynamic=False)
    group_streams_max_assignment_interval_ms = Setting(INT, 15_000, "Longest streams.assignment.interval.ms.", check=at_least(0))
    group_streams_max_heartbeat_interval_ms = Setting(INT, 15_000, "Longest streams.heartbeat.interval.ms.", check=at_least(1))
    group_streams_max_session_timeout_ms = Setting(INT, 60_000, "Longest streams.session.timeout.ms.", check=at_least(1))
    group_streams_max_size = Setting(INT, LARGEST_INT, "Members that a streams group may have.", check=at_least(1))
    group_streams_max_standby_replicas = Setting(INT, 2, "Most streams.num.standby.replicas.", check=at_least(0))
    group_streams_max_warmup_replicas = Setting(INT, 20, "Most streams.num.warmup.replicas.", check=at_least(0), hidden=True)
    group_streams_min_assignment_interval_ms = Setting(INT, 0, "Shortest streams.assignment.interval.ms.", check=at_least(0))
    group_streams_min_heartbeat_interval_ms = Setting(INT, 5000, "Shortest streams.heartbeat.interval.ms.", check=at_least(1))
    group_streams_min_session_timeout_ms = Setting(INT, 45_000, "Shortest streams.session.timeout.ms.", check=at_least(1))
    group_streams_min_task_offset_interval_ms = Setting(
        INT, 15_000, "Shortest streams.task.offset.interval.ms.", check=at_least(1), hidden=True
    )
    group_streams_num_standby_replicas = default_of(GroupConfigs.streams_num_standby_replicas, dynamic=False)
    group_streams_num_warmup_replicas = default_of(GroupConfigs.streams_num_warmup_replicas, dynamic=False)
    group_streams_rack_aware_assignment_tags = default_of(GroupConfigs.streams_rack_aware_assignment_tags, dynamic=False)
    group_streams_session_timeout_ms = default_of(GroupConfigs.streams_session_timeout_ms, dynamic=False)
    group_streams_task_offset_interval_ms = default_of(GroupConfigs.streams_task_offset_interval_ms, dynamic=False)
