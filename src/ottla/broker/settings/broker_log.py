"""The broker's settings for logs: most are the defaults of a topic's settings. Declared only; nothing here reads them."""

from __future__ import annotations

from ottla.broker.settings.kinds import (
    BOOLEAN,
    DOUBLE,
    INT,
    LARGEST_LONG,
    LIST,
    LONG,
    STRING,
    at_least,
    between,
    minus_one_or,
)
from ottla.broker.settings.setting import Setting, SettingsOf, unset
from ottla.broker.settings.topic import CLEANUP, CODECS, DAY_MS, TIMESTAMP_TYPES

MINUTE_MS = 60_000
HOUR_MS = 3_600_000


class LogSettings(SettingsOf):
    """Where logs are kept, when they roll, what is deleted and when they are synced."""

    compression_gzip_level = Setting(INT, -1, "Default of compression.gzip.level.", check=minus_one_or(1, 9), dynamic=True)
    compression_lz4_level = Setting(INT, 9, "Default of compression.lz4.level.", check=between(1, 17), dynamic=True)
    compression_type = Setting(STRING, "producer", "Default of compression.type.", check=CODECS, dynamic=True)
    compression_zstd_level = Setting(INT, 3, "Default of compression.zstd.level.", check=between(-131072, 22), dynamic=True)
    log_cleaner_backoff_ms = Setting(LONG, 15_000, "Time between two looks for logs to compact.", check=at_least(0), dynamic=True)
    log_cleaner_dedupe_buffer_size = Setting(
        LONG,
        32 << 20,
        "Memory for the keys of one pass of compaction; more keys take more passes.",
        check=at_least(1024),
        dynamic=True,
    )
    log_cleaner_delete_retention_ms = Setting(LONG, DAY_MS, "Default of delete.retention.ms.", check=at_least(0), dynamic=True)
    log_cleaner_enable = Setting(BOOLEAN, True, "Whether topics with cleanup.policy=compact are compacted.")
    log_cleaner_max_compaction_lag_ms = Setting(
        LONG, LARGEST_LONG, "Default of max.compaction.lag.ms.", check=at_least(1), dynamic=True
    )
    log_cleaner_min_cleanable_ratio = Setting(
        DOUBLE, 0.5, "Default of min.cleanable.dirty.ratio.", check=between(0, 1), dynamic=True
    )
    log_cleaner_min_compaction_lag_ms = Setting(LONG, 0, "Default of min.compaction.lag.ms.", check=at_least(0), dynamic=True)
    log_cleanup_policy = Setting(LIST, ("delete",), "Default of cleanup.policy.", check=CLEANUP, dynamic=True)
    log_dir = Setting(LIST, ("/tmp/kafka-logs",), "An older name of log.dirs; --data-dir goes before both.")
    log_dirs = unset(LIST, "The data directory; --data-dir sets it.")
    log_flush_interval_messages = Setting(LONG, LARGEST_LONG, "Default of flush.messages.", check=at_least(1), dynamic=True)
    log_flush_interval_ms = unset(LONG, "Default of flush.ms.", dynamic=True, falls_back=("log.flush.scheduler.interval.ms",))
    log_flush_offset_checkpoint_interval_ms = Setting(
        INT,
        MINUTE_MS,
        "Time between two notes of how far each log is on stable storage: what a start after a crash need not read again.",
        check=at_least(0),
    )
    log_flush_scheduler_interval_ms = Setting(LONG, LARGEST_LONG, "Default of flush.ms where log.flush.interval.ms is not set.")
    log_index_interval_bytes = Setting(INT, 4096, "Default of index.interval.bytes.", check=at_least(0), dynamic=True)
    log_index_size_max_bytes = Setting(INT, 10 << 20, "Default of segment.index.bytes.", check=at_least(4), dynamic=True)
    log_local_retention_bytes = Setting(LONG, -2, "Default of local.retention.bytes.", check=at_least(-2), dynamic=True)
    log_local_retention_ms = Setting(LONG, -2, "Default of local.retention.ms.", check=at_least(-2), dynamic=True)
    log_message_timestamp_after_max_ms = Setting(
        LONG, HOUR_MS, "Default of message.timestamp.after.max.ms.", check=at_least(0), dynamic=True
    )
    log_message_timestamp_before_max_ms = Setting(
        LONG, LARGEST_LONG, "Default of message.timestamp.before.max.ms.", check=at_least(0), dynamic=True
    )
    log_message_timestamp_type = Setting(
        STRING, "CreateTime", "Default of message.timestamp.type.", check=TIMESTAMP_TYPES, dynamic=True
    )
    log_preallocate = Setting(BOOLEAN, False, "Default of preallocate.", dynamic=True)
    log_retention_bytes = Setting(LONG, -1, "Default of retention.bytes.", dynamic=True)
    log_retention_check_interval_ms = Setting(LONG, 5 * MINUTE_MS, "Time between two looks for old segments.", check=at_least(1))
    log_retention_hours = Setting(INT, 168, "Default of retention.ms, in hours, where neither minutes nor ms are set.")
    log_retention_minutes = unset(
        INT, "Default of retention.ms, in minutes, where ms is not set.", falls_back=("log.retention.hours",)
    )
    log_retention_ms = unset(
        LONG, "Default of retention.ms.", dynamic=True, falls_back=("log.retention.minutes", "log.retention.hours")
    )
    log_roll_hours = Setting(INT, 168, "Default of segment.ms, in hours, where log.roll.ms is not set.", check=at_least(1))
    log_roll_jitter_hours = Setting(
        INT, 0, "Default of segment.jitter.ms, in hours, where log.roll.jitter.ms is not set.", check=at_least(0)
    )
    log_roll_jitter_ms = unset(LONG, "Default of segment.jitter.ms.", dynamic=True, falls_back=("log.roll.jitter.hours",))
    log_roll_ms = unset(LONG, "Default of segment.ms.", dynamic=True, falls_back=("log.roll.hours",))
    log_segment_bytes = Setting(INT, 1 << 30, "Default of segment.bytes.", check=at_least(1 << 20), dynamic=True)
    log_segment_delete_delay_ms = Setting(LONG, MINUTE_MS, "Default of file.delete.delay.ms.", check=at_least(0), dynamic=True)
    message_max_bytes = Setting(INT, 1_048_588, "Default of max.message.bytes.", check=at_least(0), dynamic=True)
    min_insync_replicas = Setting(INT, 1, "Default of min.insync.replicas.", check=at_least(1), dynamic=True)
    ottla_acks_all_sync = Setting(BOOLEAN, True, "Default of the topic setting ottla.acks.all.sync.", dynamic=True)
    ottla_max_open_files = Setting(
        INT,
        512,
        "Files that are kept open, about; those that were not used lately are closed first, and opened again when they are needed.",
        check=at_least(16),
    )
    producer_id_expiration_ms = Setting(
        INT, DAY_MS, "How long an idle producer's sequence numbers are remembered.", check=at_least(1), dynamic=True
    )
    unclean_leader_election_enable = Setting(BOOLEAN, False, "Default of unclean.leader.election.enable.", dynamic=True)
