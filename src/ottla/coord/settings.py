"""The settings of groups and offsets: values only, with the names and defaults of the broker's settings."""

from __future__ import annotations

from dataclasses import dataclass

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The settings of a group coordinator."""

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2_147_483_647
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_regex_refresh_interval_ms: int = 10 * MINUTE_MS
    group_consumer_max_size: int = 2_147_483_647
    group_consumer_migration_policy: str = "bidirectional"
    group_share_session_timeout_ms: int = 45_000
    group_share_heartbeat_interval_ms: int = 5_000
    group_share_assignment_interval_ms: int = 1_000
    group_share_initialize_retry_interval_ms: int = 30_000
    group_share_max_size: int = 200
    group_streams_session_timeout_ms: int = 45_000
    group_streams_heartbeat_interval_ms: int = 5_000
    group_streams_assignment_interval_ms: int = 1_000
    group_streams_initial_rebalance_delay_ms: int = 3_000
    group_streams_num_standby_replicas: int = 0
    group_streams_num_warmup_replicas: int = 2
    group_streams_acceptable_recovery_lag: int = 10_000
    group_streams_rack_aware_assignment_tags: tuple[str, ...] = ()
    group_streams_task_offset_interval_ms: int = 60_000
    group_streams_max_size: int = 2_147_483_647
    ottla_max_group_bytes: int = 100 << 20
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 10_080 * MINUTE_MS
    offsets_retention_check_interval_ms: int = 10 * MINUTE_MS
    stores_topic_ids: bool = True
    """Whether all brokers that can load a stored offset support the version with a topic id."""


NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * MINUTE_MS
"""The longest wait of a new member's join, in ms. It replaces the session timeout, because the member sends no heartbeats."""
