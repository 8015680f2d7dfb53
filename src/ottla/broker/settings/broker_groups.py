"""The broker's settings for groups, their offsets and transactions. Declarations only."""

from __future__ import annotations

from ottla.broker.settings.group import GroupConfigs
from ottla.broker.settings.kinds import BOOLEAN, INT, LARGEST_INT, LIST, LONG, SHORT, Check, Kind, at_least, between, one_of
from ottla.broker.settings.setting import Setting, SettingsOf, default_of
from ottla.broker.settings.topic import TopicSettings
from ottla.cluster.topics import MOST_PARTITIONS

BUILT_IN_ASSIGNORS = ("uniform", "range")
"""The names of the built-in assignors (`ottla.coord.consumer.assign.built_in`)."""

MINUTE_MS = 60_000

LOWER: Kind[str] = Kind("string", 2, lambda text: text.strip().lower(), str)
"""A string that is converted to lower case, because Kafka accepts upper case too."""

ASSIGNORS: Check[tuple[str, ...]] = Check(
    lambda names: bool(names) and all(name in BUILT_IN_ASSIGNORS or all(name.partition(":")) for name in names),
    "Value must list uniform, range, or your own as module:Class",
    "uniform, range, module:Class",
)


_NAMES = ("consumer", "classic", "share", "streams")
PROTOCOLS: Check[tuple[str, ...]] = Check(
    lambda names: "classic" in names and set(names) <= set(_NAMES),
    lambda names: (
        f"String must be one of: {', '.join(_NAMES)}"
        if "classic" in names
        else "Disabling the 'classic' protocol is not supported: list it, too"
    ),
    f"list of {', '.join(_NAMES)}, classic among them",
    lambda names: next((name for name in names if name not in _NAMES), ",".join(names)),
)


class CoordinatorSettings(SettingsOf):
    """Limits for members of groups, and the retention of offsets."""

    group_consumer_assignment_interval_ms = default_of(GroupConfigs.consumer_assignment_interval_ms)
    group_consumer_assignors = Setting(
        LIST,
        BUILT_IN_ASSIGNORS,
        "Assignors that members of consumer groups may choose: built-in ones, or your own as module:Class. The first is the "
        "default.",
        check=ASSIGNORS,
    )
    group_consumer_heartbeat_interval_ms = default_of(GroupConfigs.consumer_heartbeat_interval_ms, dynamic=False)
    group_consumer_max_assignment_interval_ms = Setting(
        INT, 15_000, "Longest consumer.assignment.interval.ms that may be set for one group.", check=at_least(0)
    )
    group_consumer_max_heartbeat_interval_ms = Setting(
        INT, 15_000, "Longest consumer.heartbeat.interval.ms that may be set for one group.", check=at_least(1)
    )
    group_consumer_max_session_timeout_ms = Setting(
        INT, 60_000, "Longest consumer.session.timeout.ms that may be set for one group.", check=at_least(1)
    )
    group_consumer_max_size = Setting(INT, LARGEST_INT, "Members that a consumer group may have.", check=at_least(1))
    group_consumer_migration_policy = Setting(
        LOWER,
        "bidirectional",
        "Which way groups may change between the classic and the consumer protocol while they have members.",
        check=one_of("bidirectional", "upgrade", "downgrade", "disabled"),
    )
    group_consumer_min_assignment_interval_ms = Setting(
        INT, 0, "Shortest consumer.assignment.interval.ms that may be set for one group.", check=at_least(0)
    )
    group_consumer_min_heartbeat_interval_ms = Setting(
        INT, 5000, "Shortest consumer.heartbeat.interval.ms that may be set for one group.", check=at_least(1)
    )
    group_consumer_min_session_timeout_ms = Setting(
        INT, 45_000, "Shortest consumer.session.timeout.ms that may be set for one group.", check=at_least(1)
    )
    group_consumer_regex_refresh_interval_ms = Setting(
        INT,
        10 * MINUTE_MS,
        "How often patterns are matched against all topics again, even if no topic was created or deleted.",
        check=at_least(10_000),
        hidden=True,
    )
    group_consumer_session_timeout_ms = default_of(GroupConfigs.consumer_session_timeout_ms, dynamic=False)
    group_coordinator_rebalance_protocols = Setting(
        LIST,
        ("classic", "consumer", "streams"),
        "Group protocols that are served: without consumer or streams, members of that protocol are refused. share has no effect.",
        check=PROTOCOLS,
    )
    group_initial_rebalance_delay_ms = Setting(
        INT, 3000, "How long a new group waits for more members before its first rebalance completes.", check=at_least(0)
    )
    group_max_session_timeout_ms = Setting(INT, 30 * MINUTE_MS, "Longest session timeout of a member.")
    group_max_size = Setting(INT, LARGEST_INT, "Members that a group may have.", check=at_least(1))
    group_min_session_timeout_ms = Setting(INT, 6000, "Shortest session timeout of a member.")
    offset_metadata_max_bytes = Setting(INT, 4096, "Largest size of the text that may be committed with an offset.")
    offsets_commit_timeout_ms = Setting(
        INT, 5000, "How long commits and other news of groups wait for replicas before they are refused.", check=at_least(1)
    )
    offsets_retention_check_interval_ms = Setting(
        LONG, 10 * MINUTE_MS, "Time between two checks for expired offsets.", check=at_least(1)
    )
    offsets_retention_minutes = Setting(
        INT, 10_080, "How long the offsets of a group without members are kept, in minutes.", check=at_least(1)
    )
    offsets_topic_num_partitions = Setting(
        INT, 50, "Partitions of __consumer_offsets; has no effect once the topic exists.", check=between(1, MOST_PARTITIONS)
    )
    offsets_topic_replication_factor = Setting(
        SHORT,
        3,
        "Replicas of __consumer_offsets, which is not created in a cluster of fewer brokers; a single broker has one.",
        check=at_least(1),
    )
    offsets_topic_segment_bytes = Setting(
        INT, 100 << 20, "Size of a segment of __consumer_offsets.", check=TopicSettings.segment_bytes.check
    )
    ottla_max_group_bytes = Setting(
        LONG,
        100 << 20,
        "Approximate maximum memory of the members of all groups, with what they subscribe to and are assigned. Beyond it new "
        "ones are refused with GROUP_MAX_SIZE_REACHED.",
        check=at_least(0),
    )
    ottla_max_transactional_id_bytes = Setting(
        LONG,
        64 << 20,
        "About how much memory transactional ids may take, with the partitions of open transactions. Beyond it new ones are "
        "refused with POLICY_VIOLATION until others expire.",
        check=at_least(0),
    )
    transaction_state_log_min_isr = Setting(
        INT,
        2,
        "min.insync.replicas of __transaction_state; has no effect once the topic exists, and demands no more than its replicas.",
        check=at_least(1),
    )
    transaction_state_log_num_partitions = Setting(
        INT, 50, "Partitions of __transaction_state; has no effect once the topic exists.", check=between(1, MOST_PARTITIONS)
    )
    transaction_state_log_replication_factor = Setting(
        SHORT,
        3,
        "Replicas of __transaction_state, which is not created in a cluster of fewer brokers; a single broker has one.",
        check=at_least(1),
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms = Setting(
        INT, 10_000, "Time between two checks for transactions that exceeded their timeout.", check=at_least(1)
    )
    transaction_max_timeout_ms = Setting(INT, 15 * MINUTE_MS, "Longest timeout of a transactional producer.", check=at_least(1))
    add_partitions_to_txn_retry_backoff_max_ms = Setting(
        INT,
        100,
        "How long what begins a transaction waits for the markers of the one before, before its producer is told to come back.",
        check=at_least(0),
    )
    transaction_partition_verification_enable = Setting(
        BOOLEAN,
        True,
        "Whether records of a transaction are refused in partitions that are no part of it (KIP-890).",
        dynamic=True,
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = Setting(
        INT, 60 * MINUTE_MS, "Time between two checks for expired transactional ids.", check=at_least(1)
    )
    transaction_state_log_segment_bytes = Setting(
        INT, 100 << 20, "Size of a segment of __transaction_state.", check=TopicSettings.segment_bytes.check
    )
    transaction_two_phase_commit_enable = Setting(
        BOOLEAN,
        False,
        "Whether an outside coordinator may decide about transactions (KIP-939): they have no timeout then, and the next producer "
        "with the same transactional.id may keep them. InitProducerId is served up to version 6.",
    )
    transactional_id_expiration_ms = Setting(
        INT, 7 * 24 * 60 * MINUTE_MS, "Time after which an unused transactional id expires.", check=at_least(1)
    )
