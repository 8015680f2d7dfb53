"""The broker's settings for logs; most are the defaults of topic configs. Declarations only."""

from __future__ import annotations

from ottla.broker.settings.kinds import BOOLEAN, INT, LARGEST_LONG, LIST, LONG, Check, at_least
from ottla.broker.settings.setting import Reach, Setting, SettingsOf, default_of, unset
from ottla.broker.settings.topic import DAY_MS, TopicSettings
from ottla.log.producer_state.producer_limit import MOST_BY_DEFAULT

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
LEAST_JOURNAL_BYTES = 1 << 16


class LogSettings(SettingsOf):
    """Log directories, segments, retention and flushes."""

    compression_gzip_level = default_of(TopicSettings.compression_gzip_level)
    compression_lz4_level = default_of(TopicSettings.compression_lz4_level)
    compression_type = default_of(TopicSettings.compression_type)
    compression_zstd_level = default_of(TopicSettings.compression_zstd_level)
    cordoned_log_dirs = Setting(
        LIST,
        (),
        "Entries of log.dirs that get no new partitions; * means all, and then topics cannot be created.",
        dynamic=True,
        reach=Reach.ONE,
    )
    log_cleaner_backoff_ms = Setting(LONG, 15_000, "Time between two checks for logs to compact.", check=at_least(0), dynamic=True)
    log_cleaner_dedupe_buffer_size = Setting(
        LONG,
        32 << 20,
        "Memory for the keys of one pass of compaction; more keys take more passes.",
        check=at_least(1024),
        dynamic=True,
    )
    log_cleaner_delete_retention_ms = default_of(TopicSettings.delete_retention_ms)
    log_cleaner_enable = Setting(BOOLEAN, True, "Whether topics with cleanup.policy=compact are compacted.")
    log_cleaner_max_compaction_lag_ms = default_of(TopicSettings.max_compaction_lag_ms)
    log_cleaner_min_cleanable_ratio = default_of(TopicSettings.min_cleanable_dirty_ratio)
    log_cleaner_min_compaction_lag_ms = default_of(TopicSettings.min_compaction_lag_ms)
    log_cleanup_policy = default_of(TopicSettings.cleanup_policy)
    log_dir = Setting(LIST, ("/tmp/kafka-logs",), "Not used: --data-dir names the data directory, and log.dirs more.")
    log_dirs = unset(
        LIST,
        "Directories of logs in addition to that of --data-dir; a new partition is put where the fewest are. The data directory, "
        "with the registry and the checkpoints, is always the first.",
    )
    log_flush_interval_messages = default_of(TopicSettings.flush_messages)
    log_flush_interval_ms = unset(LONG, "Default of flush.ms.", dynamic=True, falls_back=("log.flush.scheduler.interval.ms",))
    log_flush_offset_checkpoint_interval_ms = Setting(
        INT,
        MINUTE_MS,
        "Time between two checkpoints of how far each log is on stable storage; a start after a crash reads only what follows.",
        check=at_least(0),
    )
    log_flush_scheduler_interval_ms = Setting(LONG, LARGEST_LONG, "Default of flush.ms where log.flush.interval.ms is not set.")
    log_index_interval_bytes = default_of(TopicSettings.index_interval_bytes)
    log_index_size_max_bytes = default_of(TopicSettings.segment_index_bytes)
    log_local_retention_bytes = default_of(TopicSettings.local_retention_bytes)
    log_local_retention_ms = default_of(TopicSettings.local_retention_ms)
    log_message_timestamp_after_max_ms = default_of(TopicSettings.message_timestamp_after_max_ms)
    log_message_timestamp_before_max_ms = default_of(TopicSettings.message_timestamp_before_max_ms)
    log_message_timestamp_type = default_of(TopicSettings.message_timestamp_type)
    log_preallocate = default_of(TopicSettings.preallocate)
    log_retention_bytes = default_of(TopicSettings.retention_bytes)
    log_retention_check_interval_ms = Setting(
        LONG, 5 * MINUTE_MS, "Time between two checks for segments whose retention is over.", check=at_least(1)
    )
    log_retention_hours = Setting(INT, 168, "Default of retention.ms, in hours, where neither minutes nor ms are set.")
    log_retention_minutes = unset(
        INT, "Default of retention.ms, in minutes, where ms is not set.", falls_back=("log.retention.hours",)
    )
    log_retention_ms = unset(
        LONG,
        "Default of retention.ms.",
        check=Check(lambda value: value != 0, "Value must be unlimited (-1) or, equal or greater than 1", "-1, 1 or more"),
        dynamic=True,
        falls_back=("log.retention.minutes", "log.retention.hours"),
    )
    log_roll_hours = Setting(INT, 168, "Default of segment.ms, in hours, where log.roll.ms is not set.", check=at_least(1))
    log_roll_jitter_hours = Setting(
        INT, 0, "Default of segment.jitter.ms, in hours, where log.roll.jitter.ms is not set.", check=at_least(0)
    )
    log_roll_jitter_ms = unset(LONG, "Default of segment.jitter.ms.", dynamic=True, falls_back=("log.roll.jitter.hours",))
    log_roll_ms = unset(LONG, "Default of segment.ms.", check=at_least(1), dynamic=True, falls_back=("log.roll.hours",))
    log_segment_bytes = default_of(TopicSettings.segment_bytes)
    log_segment_delete_delay_ms = default_of(TopicSettings.file_delete_delay_ms)
    message_max_bytes = default_of(TopicSettings.max_message_bytes)
    min_insync_replicas = default_of(TopicSettings.min_insync_replicas)
    ottla_acks_all_sync = default_of(TopicSettings.ottla_acks_all_sync)
    ottla_journal_bytes = Setting(
        LONG,
        64 << 20,
        "Size of each of the two files of a log directory's journal, into which small appends of all partitions are written "
        "together when they have to be on stable storage, rounded down to a multiple of 4096; 0: no journal, each partition's own "
        "file is synced.",
        check=Check(
            lambda value: not value or value >= LEAST_JOURNAL_BYTES, "Value must be 0 or at least 65536", "0, 65536 or more"
        ),
    )
    ottla_journal_max_partition_bytes = Setting(
        INT,
        1 << 20,
        "Most bytes of one partition that are written into the journal at once; of more, the partition's own file is synced.",
        check=at_least(0),
    )
    ottla_max_open_files = Setting(
        INT,
        4096,
        "About how many files are kept open; the least recently used are closed first, and opened again when they are needed.",
        check=at_least(16),
    )
    ottla_max_producer_ids = Setting(
        INT,
        10_000,
        "How many idempotent producers each partition remembers; beyond it the oldest ones without a transaction are forgotten.",
        check=at_least(1),
        dynamic=True,
    )
    ottla_max_producer_ids_per_broker = Setting(
        INT,
        MOST_BY_DEFAULT,
        "How many idempotent producers all partitions of a broker remember together; beyond it the oldest ones without a "
        "transaction of the principal, or of the address of anonymous clients, that has most are forgotten.",
        check=at_least(1),
        dynamic=True,
    )
    ottla_reserve_bytes = Setting(
        LONG,
        16 << 20,
        "Room on the disk, at most a sixteenth of it, kept for stopping, starting and deleting when the disk is full; 0: none.",
        check=at_least(0),
    )
    producer_id_expiration_ms = Setting(
        INT, DAY_MS, "How long an idle producer's sequence numbers are remembered.", check=at_least(1), dynamic=True
    )
    unclean_leader_election_enable = default_of(TopicSettings.unclean_leader_election_enable)
