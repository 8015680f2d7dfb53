"""The broker's settings for inter-broker requests and for replicas. Declarations only; a single broker needs none."""

from __future__ import annotations

from ottla.broker.releases.interbroker_versions import NAMES, ProtocolVersion
from ottla.broker.settings.kinds import INT, LARGEST_LONG, LONG, STRING, BadValue, Kind, at_least, one_of
from ottla.broker.settings.setting import Setting, SettingsOf, unset


def _protocol_version(text: str) -> ProtocolVersion:
    try:
        return ProtocolVersion(text)
    except ValueError as refused:
        raise BadValue(str(refused)) from None


PROTOCOL_VERSION: Kind[ProtocolVersion] = Kind("string", STRING.code, _protocol_version, str)


class ReplicationSettings(SettingsOf):
    """Settings for inter-broker requests and for replicas."""

    follower_replication_throttled_rate = Setting(
        LONG,
        LARGEST_LONG,
        "Bytes that this broker fetches in each second for the replicas in follower.replication.throttled.replicas.",
        check=at_least(0),
        dynamic=True,
        hidden=True,
    )
    inter_broker_listener_name = unset(
        STRING, "The listener at which brokers reach each other; without it, that of security.inter.broker.protocol."
    )
    inter_broker_protocol_version = Setting(
        PROTOCOL_VERSION,
        ProtocolVersion(NAMES[-1]),
        "The protocol version between brokers of a cluster, the same for all: that of the oldest release "
        "among them, until all are upgraded.",
        hidden=True,
    )
    leader_replication_throttled_rate = Setting(
        LONG,
        LARGEST_LONG,
        "Bytes that this broker sends in each second to the replicas in leader.replication.throttled.replicas.",
        check=at_least(0),
        dynamic=True,
        hidden=True,
    )
    num_replica_alter_log_dirs_threads = unset(
        INT, "How many replicas move between log directories at the same time; by default, one for each directory."
    )
    num_replica_fetchers = Setting(
        INT, 1, "Connections to each other broker over which this one fetches.", check=at_least(1), dynamic=True
    )
    replica_alter_log_dirs_io_max_bytes_per_second = Setting(
        LONG,
        LARGEST_LONG,
        "Bytes that this broker copies in each second for replicas that move between its log directories.",
        check=at_least(0),
        dynamic=True,
        hidden=True,
    )
    replica_fetch_backoff_ms = Setting(INT, 1000, "How long a partition rests that could not be fetched.", check=at_least(0))
    replica_fetch_max_bytes = Setting(
        INT, 1 << 20, "Maximum bytes of one partition in the response to a replica's fetch.", check=at_least(0)
    )
    replica_fetch_min_bytes = Setting(INT, 1, "Fewest bytes that a leader answers a replica with before the time is over.")
    replica_fetch_response_max_bytes = Setting(
        INT, 10 << 20, "Maximum bytes in the response to a replica's fetch.", check=at_least(0)
    )
    replica_fetch_wait_max_ms = Setting(INT, 500, "How long a leader may wait for records before it answers a replica.")
    replica_high_watermark_checkpoint_interval_ms = Setting(
        LONG, 5000, "Time between two checkpoints of what readers of each replica may see.", check=at_least(1)
    )
    replica_lag_time_max_ms = Setting(
        LONG, 30_000, "How long a replica may be behind its leader and still count as in sync.", check=at_least(1)
    )
    replica_selector_class = unset(
        STRING,
        "Where consumers may read: org.apache.kafka.common.replica.RackAwareReplicaSelector names a replica in their rack; "
        "without it they read from leaders.",
        check=one_of("org.apache.kafka.common.replica.RackAwareReplicaSelector", "org.apache.kafka.common.replica.LeaderSelector"),
    )
    replica_socket_receive_buffer_bytes = Setting(
        INT, -1, "Size of the receive buffer of a replica's connection to its leader; -1 leaves it to the system."
    )
    replica_socket_timeout_ms = Setting(INT, 30_000, "Timeout of a replica's fetch.")
    replication_quota_window_num = Setting(
        INT, 11, "Windows over which the rates of throttled replicas are measured.", check=at_least(1)
    )
    replication_quota_window_size_seconds = Setting(INT, 1, "The length of such a window.", check=at_least(1))
    request_timeout_ms = Setting(INT, 30_000, "How long this broker waits for the answer of another one.", check=at_least(0))
    security_inter_broker_protocol = Setting(
        STRING,
        "PLAINTEXT",
        "The security protocol between brokers, if inter.broker.listener.name is not set.",
        check=one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    )
