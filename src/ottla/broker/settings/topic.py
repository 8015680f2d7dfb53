"""Every setting of a topic, declared once: Kafka's name, type, default, check, and the broker setting that is its default.

Independent of logs; `ottla.broker.settings.values` converts topic settings into a log's configuration.
"""

from __future__ import annotations

from ottla.broker.settings.kinds import (
    BOOLEAN,
    DOUBLE,
    INT,
    LARGEST_LONG,
    LIST,
    LONG,
    STRING,
    Check,
    at_least,
    between,
    each_of,
    minus_one_or,
    one_of,
    only,
)
from ottla.broker.settings.setting import Setting, SettingsOf, unset

DAY_MS = 86_400_000
WEEK_MS = 7 * DAY_MS

CODECS = one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
TIMESTAMP_TYPES = one_of("CreateTime", "LogAppendTime")
CLEANUP = each_of("compact", "delete")
NO_TIERS = "Ottla keeps no logs on remote storage"


def _throttled(value: tuple[str, ...]) -> bool:
    return value in ((), ("*",)) or all(
        len(pair := item.split(":")) == 2 and pair[0].isdecimal() and pair[1].isdecimal() for item in value
    )


REPLICAS: Check[tuple[str, ...]] = Check(
    _throttled,
    "must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
    "* or partition:broker,…",
)


class TopicSettings(SettingsOf):
    """The settings of one topic. The constructor validates the given strings, and raises `SettingError`."""

    UNKNOWN = "Unknown topic config name: {}"

    cleanup_policy = Setting(
        LIST,
        ("delete",),
        "What happens to old records: delete whole segments by time and size, compact by key, both, or (empty) neither.",
        check=CLEANUP,
        broker="log.cleanup.policy",
    )
    compression_gzip_level = Setting(
        INT,
        -1,
        "Level for compression.type=gzip; -1 is the codec's own.",
        check=minus_one_or(1, 9),
        broker="compression.gzip.level",
    )
    compression_lz4_level = Setting(
        INT,
        9,
        "Level for compression.type=lz4; 9 is its fast compressor, as in Apache Kafka, and every other level the thorough one.",
        check=between(1, 17),
        broker="compression.lz4.level",
    )
    compression_type = Setting(
        STRING,
        "producer",
        "Codec of the batches on disk; producer keeps each batch as it was sent.",
        check=CODECS,
        broker="compression.type",
    )
    compression_zstd_level = Setting(
        INT, 3, "Level for compression.type=zstd.", check=between(-131072, 22), broker="compression.zstd.level"
    )
    delete_retention_ms = Setting(
        LONG,
        DAY_MS,
        "How long a compacted topic keeps tombstones, the records that delete keys.",
        check=at_least(0),
        broker="log.cleaner.delete.retention.ms",
    )
    file_delete_delay_ms = Setting(
        LONG, 60_000, "How long a deleted segment's files stay on disk.", check=at_least(0), broker="log.segment.delete.delay.ms"
    )
    flush_messages = Setting(
        LONG,
        LARGEST_LONG,
        "Sync the log after this many records.",
        check=at_least(1),
        broker="log.flush.interval.messages",
    )
    flush_ms = Setting(
        LONG,
        LARGEST_LONG,
        "Sync records that have waited for this long.",
        check=at_least(0),
        broker="log.flush.interval.ms",
    )
    follower_replication_throttled_replicas = Setting(
        LIST, (), "Replicas whose replication is throttled on the follower.", check=REPLICAS
    )
    index_interval_bytes = Setting(
        INT, 4096, "Bytes of the log between two entries of an index.", check=at_least(0), broker="log.index.interval.bytes"
    )
    internal_segment_bytes = unset(
        INT, "Size of a segment without the lower limit of segment.bytes, for tests.", check=at_least(1), hidden=True
    )
    leader_replication_throttled_replicas = Setting(
        LIST, (), "Replicas whose replication is throttled on the leader.", check=REPLICAS
    )
    local_retention_bytes = Setting(
        LONG,
        -2,
        "Accepted for tools; it has no effect without remote storage.",
        check=at_least(-2),
        broker="log.local.retention.bytes",
        later=True,
    )
    local_retention_ms = Setting(
        LONG,
        -2,
        "Accepted for tools; it has no effect without remote storage.",
        check=at_least(-2),
        broker="log.local.retention.ms",
        later=True,
    )
    max_compaction_lag_ms = Setting(
        LONG,
        LARGEST_LONG,
        "Longest time until a record becomes eligible for compaction.",
        check=at_least(1),
        broker="log.cleaner.max.compaction.lag.ms",
    )
    max_message_bytes = Setting(
        INT, 1_048_588, "Size of the largest batch that is accepted.", check=at_least(0), broker="message.max.bytes"
    )
    message_timestamp_after_max_ms = Setting(
        LONG,
        3_600_000,
        "How far a record's timestamp may be ahead of the broker's clock.",
        check=at_least(0),
        broker="log.message.timestamp.after.max.ms",
    )
    message_timestamp_before_max_ms = Setting(
        LONG,
        LARGEST_LONG,
        "How far a record's timestamp may be behind the broker's clock.",
        check=at_least(0),
        broker="log.message.timestamp.before.max.ms",
    )
    message_timestamp_type = Setting(
        STRING,
        "CreateTime",
        "Whether records keep the producer's timestamps (CreateTime) or get the broker's (LogAppendTime).",
        check=TIMESTAMP_TYPES,
        broker="log.message.timestamp.type",
    )
    min_cleanable_dirty_ratio = Setting(
        DOUBLE,
        0.5,
        "Share of a log that must be uncompacted before compaction begins.",
        check=between(0, 1),
        broker="log.cleaner.min.cleanable.ratio",
    )
    min_compaction_lag_ms = Setting(
        LONG,
        0,
        "Shortest time until a record becomes eligible for compaction.",
        check=at_least(0),
        broker="log.cleaner.min.compaction.lag.ms",
    )
    min_insync_replicas = Setting(
        INT,
        1,
        "In-sync replicas that acks=all requires, or all where there are fewer.",
        check=at_least(1),
        broker="min.insync.replicas",
    )
    ottla_acks_all_sync = Setting(
        BOOLEAN,
        True,
        "Whether acks=all waits until the records are on stable storage; false promises the page cache only, as Apache Kafka does.",
        broker="ottla.acks.all.sync",
    )
    preallocate = Setting(
        BOOLEAN,
        False,
        "Give a new segment's file its full size at once; the rest is cut off when the segment is closed.",
        broker="log.preallocate",
    )
    remote_log_copy_disable = Setting(BOOLEAN, False, "Accepted for tools; it has no effect without remote storage.", later=True)
    remote_log_delete_on_disable = Setting(
        BOOLEAN, False, "Accepted for tools; it has no effect without remote storage.", later=True
    )
    remote_storage_enable = Setting(BOOLEAN, False, "Whether old segments move to remote storage.", check=only(False, NO_TIERS))
    retention_bytes = Setting(
        LONG,
        -1,
        "Size that a partition may reach before its oldest segments are deleted; -1: no limit.",
        broker="log.retention.bytes",
    )
    retention_ms = Setting(
        LONG, WEEK_MS, "Age at which a segment is deleted; -1: never.", check=at_least(-1), broker="log.retention.ms"
    )
    segment_bytes = Setting(
        INT, 1 << 30, "Size at which a new segment is started.", check=at_least(1 << 20), broker="log.segment.bytes"
    )
    segment_index_bytes = Setting(
        INT, 10 << 20, "Largest size of a segment's index.", check=at_least(4), broker="log.index.size.max.bytes"
    )
    segment_jitter_ms = Setting(
        LONG,
        0,
        "Most that is subtracted from segment.ms, at random for each segment, so that logs do not all roll at once.",
        check=at_least(0),
        broker="log.roll.jitter.ms",
    )
    segment_ms = Setting(
        LONG, WEEK_MS, "Age at which a segment that holds records is closed.", check=at_least(1), broker="log.roll.ms"
    )
    unclean_leader_election_enable = Setting(
        BOOLEAN,
        False,
        "Whether an out-of-sync replica may become leader when no other is left, which loses records.",
        broker="unclean.leader.election.enable",
        later=True,
    )
