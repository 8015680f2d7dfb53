"""A topic's settings for its logs, with Kafka's names and defaults."""

from __future__ import annotations

from ottla.values import dataclass

FOREVER = 2**63 - 1
CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Topic settings, with underscores for dots and with Kafka's defaults. -1 means "no limit", as in Kafka.

    Settings that begin with `ottla_` do not exist in Kafka.
    """

    cleanup_policy: str = "delete"
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = FOREVER
    flush_ms: int = FOREVER
    follower_replication_throttled_replicas: str = ""
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: str = ""
    max_compaction_lag_ms: int = FOREVER
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = FOREVER
    message_timestamp_type: str = CREATE_TIME
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    ottla_acks_all_sync: bool = True
    ottla_max_producer_ids: int = 10_000
    preallocate: bool = False
    producer_id_expiration_ms: int = 86_400_000
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False

    @property
    def compacts(self) -> bool:
        """Return whether only the newest record of each key is kept, so that offsets may have gaps."""
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        """Return whether retention by time and size applies."""
        return "delete" in self.cleanup_policy
