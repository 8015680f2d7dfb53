"""The settings of producer, consumer and admin client: each declared once, with Kafka's name, default, check and explanation.

The module declares names and values, not their effects. `tools/keywords.py` generates `ottla.client.keywords` from it.
"""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self, TypeVar

from ottla.client.arguments import short_repr, topic_name
from ottla.client.connection.metadata_recovery import NONE as NO_REBOOTSTRAP
from ottla.client.connection.metadata_recovery import REBOOTSTRAP
from ottla.client.consumer.assignors import STRATEGIES, PartitionAssignor
from ottla.client.errors import SettingError
from ottla.client.interceptors import (
    CONSUMER_METHODS,
    PRODUCER_METHODS,
    ConsumerInterceptor,
    ProducerInterceptor,
    check_interceptors,
)
from ottla.client.metrics.registry import MetricsSnapshot
from ottla.client.serializers import FORMATS, deserializer, serializer
from ottla.client.settings.addresses import parse_servers
from ottla.client.settings.declaration import OneOf, at_least, check_name, declare, flag, function, short_text, words
from ottla.client.settings.security import SecureSettings
from ottla.records.compression.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD
from ottla.schemas.registry_values import RegistrySerializer
from ottla.wire import releases

COMPRESSIONS = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
COMPRESSIONS_OF_0_7 = ("none", "gzip", "snappy")
LARGEST_MESSAGE_OF_0_7 = 1_000_000
"""The default limit on a message, in bytes. Brokers of Kafka 0.7 drop larger ones silently, unless their max.message.size differs.
"""
ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}

KAFKA07 = "0.7"
FIRST_RELEASES = ("0.6", KAFKA07, "0.7.0", "0.7.1", "0.7.2")
"""The names of releases without protocol versions. Clients treat them all as 0.7."""
IDEMPOTENCE, ZSTD_SINCE = "0.11.0", "2.1"
LONG_SESSIONS, LONGEST_SESSION_MS = "0.10.1", 30_000
"""The release before which brokers accept only short session timeouts, and their longest session timeout in ms."""

SHARE_GROUPS = "4.1"
"""The first release with share groups for all (KIP-932)."""

RAISE, SKIP = "raise", "skip"
"""The values of on_bad_record that are not names of topics."""

IMPLICIT, EXPLICIT = "implicit", "explicit"
"""The values of share_acknowledgement_mode."""

CLIENT_ID: str | None = "ottla"

_FORMATS = ", ".join(FORMATS)
_SERIALIZER, _DESERIALIZER = "FormatName | Serialize | RegistrySerializer | None", "FormatName | Deserialize | None"

ALL_NAMES = "the names are Kafka's, with underscores for dots: ottla.client.keywords lists them."
Settings = TypeVar("Settings", bound="ClientSettings")


def _strategies(name: str, value: object) -> tuple[str | PartitionAssignor, ...]:
    given = (value,) if isinstance(value, PartitionAssignor) else value
    found: tuple[str | PartitionAssignor, ...] = ()
    if isinstance(given, list | tuple):
        for each in given:
            found += (each,) if isinstance(each, PartitionAssignor) else words(name, [each])
    else:
        found = words(name, given)
    for each in found:
        if isinstance(each, PartitionAssignor):
            check_name("The name of an assignor", each.name)
        else:
            OneOf(STRATEGIES)(name, each)
    if not found:
        raise SettingError(f"{name} is empty: name at least one of {', '.join(STRATEGIES)}.")
    return found


def _release(name: str, value: object) -> str | None:
    if value is None:
        return None
    if str(value) in FIRST_RELEASES:
        return KAFKA07
    try:
        return releases.match_release(str(value), (KAFKA07, *releases.NAMES))
    except releases.UnknownRelease as error:
        raise SettingError(f"{name}: {error}") from None


def _bad_record(name: str, value: object) -> str:
    """Return raise, skip, or the name of a topic. Refuse a misspelling of the first two, which would create a topic."""
    found = check_name(name, value)
    if found is None or (found not in (RAISE, SKIP) and difflib.get_close_matches(found.lower(), (RAISE, SKIP), cutoff=0.7)):
        raise SettingError(f"{name} must be {RAISE}, {SKIP} or the name of a topic, not {value!r}.")
    try:
        return topic_name(found)
    except SettingError as error:
        raise SettingError(f"{name} must be {RAISE}, {SKIP} or the name of a topic: {error}") from None


def _bad_record_of_group(name: str, value: object) -> str:
    if value not in (RAISE, SKIP):
        raise SettingError(f"{name} of a share consumer must be {RAISE} or {SKIP}, not {value!r}: the group has the dead letters.")
    return str(value)


def _servers(name: str, value: object) -> str:
    joined = ",".join(words(name, value))
    parse_servers(joined)
    return joined


@dataclass(frozen=True, kw_only=True)
class ClientSettings(SecureSettings):
    """The settings shared by all clients. Times are in ms, sizes in bytes. `KIND` begins the names of their metrics' groups."""

    KIND: ClassVar[str] = "client"

    bootstrap_servers: str = declare(
        "localhost:9092",
        _servers,
        "The brokers to contact first, as host:port; several as a list, or separated by commas.",
        given="Servers",
    )
    client_id: str | None = declare(CLIENT_ID, short_text, "The client id, by which brokers log and throttle this client.")
    request_timeout_ms: int = declare(30_000, at_least(1), "The timeout of one request.")
    retry_backoff_ms: int = declare(100, at_least(0), "The pause before a failed request is sent again.")
    retry_backoff_max_ms: int = declare(
        1_000, at_least(0), "The maximum of that pause between the tries of one call, which doubles with each try."
    )
    reconnect_backoff_ms: int = declare(50, at_least(0), "The pause before connecting to a broker again.")
    reconnect_backoff_max_ms: int = declare(
        1_000, at_least(0), "The maximum of that pause, which grows while a broker is unreachable."
    )
    metadata_max_age_ms: int = declare(300_000, at_least(1), "The age at which metadata is refreshed.")
    metadata_recovery_strategy: str = declare(
        REBOOTSTRAP,
        OneOf([REBOOTSTRAP, NO_REBOOTSTRAP]),
        "The brokers to contact when all known ones are away: rebootstrap (also bootstrap_servers, resolved again) or none.",
    )
    metadata_recovery_rebootstrap_trigger_ms: int = declare(
        300_000, at_least(0), "The time without an answer to metadata requests after which all known brokers are forgotten."
    )
    default_api_timeout_ms: int = declare(60_000, at_least(1), "The timeout of a call, including retries.")
    bootstrap_timeout_ms: int = declare(
        0, at_least(0), "The time for which a call retries refused connections before any broker has answered; 0: its own timeout."
    )
    enable_metrics_push: bool = declare(True, flag, "Push metrics to a broker that has a subscription to this client's (KIP-714).")
    metrics_sample_window_ms: int = declare(30_000, at_least(1), "The length of a window of rates and averages.")
    metrics_num_samples: int = declare(2, at_least(1), "The number of windows that rates and averages cover.")
    api_version: str | None = declare(
        None, _release, "The Kafka release of the brokers, such as 0.9.0; needed before 0.10, which has no ApiVersions."
    )

    @property
    def is_of_0_7(self) -> bool:
        return self.api_version == KAFKA07

    def consistent(self, given: Collection[str]) -> Self:
        """Return these settings with defaults that fit the settings in `given`. Raises `SettingError` if two settings conflict."""
        return self


@dataclass(frozen=True, kw_only=True)
class ObservedSettings(ClientSettings):
    """The settings of clients that report what they do: producers and consumers."""

    on_statistics: Callable[[MetricsSnapshot], Awaitable[None] | None] | None = declare(
        None,
        function,
        "A function that gets the client's metrics at intervals, on the thread that polls or flushes, or on the event loop.",
    )
    statistics_interval_ms: int = declare(60_000, at_least(1), "The interval of on_statistics.")


@dataclass(frozen=True, kw_only=True)
class DiscoverySettings(ObservedSettings):
    """The settings by which producers and consumers find brokers of Kafka 0.7."""

    zookeeper_connect: str | None = declare(
        None, check_name, "The ZooKeeper of brokers of Kafka 0.7, as host:2181,host:2181/path; needs api_version=0.7."
    )
    zookeeper_session_timeout_ms: int = declare(
        6_000, at_least(1), "The timeout of the session with ZooKeeper, after which other consumers take the partitions."
    )

    def check_discovery(self, given: Collection[str], never: Mapping[str, object]) -> None:
        """Raise `SettingError` for settings that Kafka 0.7 does not have, or that only Kafka 0.7 has.

        `never` maps some settings to the one value that is possible with 0.7.
        """
        if not self.is_of_0_7:
            if self.zookeeper_connect is not None:
                raise SettingError(
                    "zookeeper_connect is for brokers of Kafka 0.7: add api_version='0.7', or give bootstrap_servers."
                )
            return
        for name, value in never.items():
            if getattr(self, name) != value and name in given:
                raise SettingError(f"Kafka 0.7 has no {name}={getattr(self, name)}: leave it out.")
        if self.security_protocol != "PLAINTEXT":
            raise SettingError(f"Kafka 0.7 has no security_protocol={self.security_protocol}: leave it out.")


@dataclass(frozen=True, kw_only=True)
class ProducerSettings(DiscoverySettings):
    """A producer's settings. `batch_size` is larger than Kafka's 16384: here a batch costs more than a record."""

    KIND: ClassVar[str] = "producer"

    acks: str = declare(
        "all",
        OneOf(ACKS),
        "The replicas that must have a record before it is acknowledged: all (in sync), 1 (the leader), 0 (none).",
        given='Literal["all", "0", "1", "-1", 0, 1, -1]',
    )
    enable_idempotence: bool = declare(True, flag, "Write each batch once, even if it is sent twice; needs acks=all.")
    linger_ms: int = declare(5, at_least(0), "The time that a batch waits for more records.")
    batch_size: int = declare(262_144, at_least(1), "The maximum size of a batch.")
    buffer_memory: int = declare(67_108_864, at_least(1), "The bytes of unsent records beyond which send() waits.")
    max_block_ms: int = declare(
        60_000, at_least(0), "The timeout of send() for metadata and memory, and of each transactional call."
    )
    compression_type: str = declare("none", OneOf(COMPRESSIONS), "The codec of batches: none, gzip, snappy, lz4 or zstd.")
    partitioner: Callable[[str, bytes | None, bytes | None, int], int] | None = declare(
        None,
        function,
        "A function of topic, key, value and number of partitions that returns a partition; by default murmur2 of keys.",
    )
    max_request_size: int = declare(1_048_576, at_least(1), "The maximum size of a record, and of a request.")
    max_in_flight_requests_per_connection: int = declare(
        5, at_least(1), "The maximum number of unanswered requests to one broker; at most 5 with idempotence."
    )
    delivery_timeout_ms: int = declare(120_000, at_least(1), "The timeout of a record's acknowledgement, including retries.")
    transactional_id: str | None = declare(
        None, check_name, "The id that makes the producer transactional; a newer producer with this id fences this one (KIP-98)."
    )
    transaction_timeout_ms: int = declare(60_000, at_least(1), "The time after which brokers abort an open transaction.")
    key_serializer: Callable[[Any], bytes | None] | RegistrySerializer | None = declare(
        None, serializer, f"The function that makes bytes of keys, or one of {_FORMATS}.", given=_SERIALIZER
    )
    value_serializer: Callable[[Any], bytes | None] | RegistrySerializer | None = declare(
        None, serializer, f"The function that makes bytes of values, or one of {_FORMATS}.", given=_SERIALIZER
    )

    interceptors: tuple[ProducerInterceptor, ...] = declare(
        (),
        lambda name, value: check_interceptors(name, value, PRODUCER_METHODS),
        "Objects that see and may replace each record of send(): on_send, on_acknowledgement.",
        given="Iterable[ProducerInterceptor]",
    )

    @property
    def acks_code(self) -> int:
        """Return `acks` as in a Produce request: 0, 1, or -1 for all."""
        return ACKS[self.acks]

    def consistent(self, given: Collection[str]) -> Self:
        """Return these settings, without idempotence if others exclude it. Raises `SettingError` if `given` enables it."""
        self.check_discovery(given, {"transactional_id": None, "partitioner": None})
        if self.is_of_0_7 and self.compression_type not in COMPRESSIONS_OF_0_7:
            raise SettingError(f"Kafka 0.7 has no compression_type={self.compression_type}: choose gzip or snappy.")
        if self.compression_type == "zstd" and _before(self.api_version, ZSTD_SINCE):
            raise SettingError(f"compression_type=zstd needs Kafka {ZSTD_SINCE}, and api_version={self.api_version}: choose lz4.")
        if self.delivery_timeout_ms < self.linger_ms:
            raise SettingError("delivery_timeout_ms is shorter than linger_ms, so that no record could be sent: raise it.")
        if self.transactional_id is not None and not self.enable_idempotence:
            raise SettingError("transactional_id needs enable_idempotence: leave one of them out.")
        too_old = _before(self.api_version, IDEMPOTENCE)
        possible = self.acks_code == -1 and self.max_in_flight_requests_per_connection <= 5 and not too_old
        fitting = self
        if self.is_of_0_7 and "max_request_size" not in given:
            fitting = replace(self, max_request_size=LARGEST_MESSAGE_OF_0_7)
        if not self.enable_idempotence or possible:
            return fitting
        if "enable_idempotence" not in given and self.transactional_id is None:
            return replace(fitting, enable_idempotence=False)
        who = "enable_idempotence" if self.transactional_id is None else "transactional_id"
        if too_old:
            raise SettingError(f"{who} needs Kafka {IDEMPOTENCE}, and api_version={self.api_version}: leave it out.")
        raise SettingError(f"{who} needs acks='all' and max_in_flight_requests_per_connection of at most 5: leave one of them out.")


@dataclass(frozen=True, kw_only=True)
class ConsumerSettings(DiscoverySettings):
    """A consumer's settings."""

    KIND: ClassVar[str] = "consumer"

    group_id: str | None = declare(
        None, check_name, "The group whose members share the topics' partitions; without one, all partitions are read."
    )
    group_instance_id: str | None = declare(
        None, short_text, "The id of a static member, which keeps its partitions across restarts (KIP-345)."
    )
    auto_offset_reset: str = declare(
        "latest",
        OneOf(["earliest", "latest", "none"]),
        "The position without a valid committed offset: earliest, latest, or none (an error).",
    )
    enable_auto_commit: bool = declare(True, flag, "Commit the offsets of processed records periodically and on close.")
    enable_auto_offset_store: bool = declare(
        True,
        flag,
        "Let commits without offsets include all records handed out. Otherwise, they include what store_offsets() got.",
    )
    auto_commit_interval_ms: int = declare(5_000, at_least(1), "The interval of automatic commits.")
    isolation_level: str = declare(
        "read_uncommitted",
        OneOf(["read_uncommitted", "read_committed"]),
        "read_committed hides records of open and aborted transactions; read_uncommitted shows them.",
    )
    client_rack: str | None = declare(
        None, short_text, "The rack of this client. A leader then names a replica in this rack to fetch from (KIP-392)."
    )
    check_crcs: bool = declare(True, flag, "Verify the checksum of each batch.")
    include_control_records: bool = declare(
        False, flag, "Also hand out control records, such as the markers of transactions. A setting of Ottla's clients."
    )
    fetch_min_bytes: int = declare(1, at_least(0), "The amount of data that a broker gathers before it answers a fetch.")
    fetch_max_bytes: int = declare(52_428_800, at_least(1), "The maximum size of a fetch response.")
    fetch_max_wait_ms: int = declare(500, at_least(0), "The time that a broker waits for fetch_min_bytes.")
    max_partition_fetch_bytes: int = declare(
        1_048_576, at_least(1), "The maximum size of one partition's data in a fetch response."
    )
    max_poll_records: int = declare(500, at_least(1), "The maximum number of records that poll() returns.")
    max_poll_interval_ms: int = declare(300_000, at_least(1), "The time between polls after which the group removes a member.")
    session_timeout_ms: int = declare(45_000, at_least(1), "The time without a heartbeat after which the group removes a member.")
    heartbeat_interval_ms: int = declare(3_000, at_least(1), "The interval of a member's heartbeats.")
    partition_assignment_strategy: tuple[str | PartitionAssignor, ...] = declare(
        ("range", "cooperative-sticky"),
        _strategies,
        "The partition assignors, in order of preference: range, roundrobin, sticky, cooperative-sticky, or a `PartitionAssignor`.",
        given="StrategyName | PartitionAssignor | Iterable[StrategyName | PartitionAssignor]",
    )
    group_protocol: str = declare(
        "classic",
        OneOf(["classic", "consumer", "auto"]),
        "The group's protocol: classic, consumer (KIP-848: the coordinator assigns partitions), or auto (consumer where served).",
    )
    group_remote_assignor: str | None = declare(
        None, short_text, "The coordinator's assignor with group_protocol=consumer; by default the coordinator chooses."
    )
    rebalance_backoff_ms: int = declare(
        2_000,
        at_least(1),
        "The time that a rebalance of Kafka 0.7 waits for other members' partitions and records being processed.",
    )
    allow_auto_create_topics: bool = declare(True, flag, "Allow brokers to create subscribed topics that do not exist.")
    key_deserializer: Callable[[bytes], Any] | None = declare(
        None, deserializer, f"The function that reads keys, or one of {_FORMATS}.", given=_DESERIALIZER
    )
    value_deserializer: Callable[[bytes], Any] | None = declare(
        None, deserializer, f"The function that reads values, or one of {_FORMATS}.", given=_DESERIALIZER
    )

    @property
    def read_committed(self) -> bool:
        return self.isolation_level == "read_committed"

    on_bad_record: str = declare(
        RAISE,
        _bad_record,
        "The effect of a record that cannot be deserialized or decoded: raise, skip, or a dead-letter topic, which gets a copy.",
    )

    interceptors: tuple[ConsumerInterceptor, ...] = declare(
        (),
        lambda name, value: check_interceptors(name, value, CONSUMER_METHODS),
        "Objects that see and may replace records before the user gets them: on_consume, on_commit.",
        given="Iterable[ConsumerInterceptor]",
    )

    @property
    def deserializes(self) -> bool:
        return self.key_deserializer is not None or self.value_deserializer is not None

    def consistent(self, given: Collection[str]) -> Self:
        """Return these settings with defaults that fit: brokers before 0.10.1 refuse today's session timeout."""
        if self.include_control_records and self.deserializes:
            raise SettingError("include_control_records returns records that no deserializer can read: leave one of them out.")
        if "on_bad_record" in given:
            self._check_bad_record()
        self.check_discovery(given, {"isolation_level": "read_uncommitted", "group_instance_id": None})
        if self.is_of_0_7 and self.group_id is not None and self.zookeeper_connect is None:
            raise SettingError("Kafka 0.7 keeps groups in ZooKeeper: give zookeeper_connect, or leave out group_id.")
        self._check_protocol(given)
        self._check_times(given)
        fitting = self
        if _before(self.api_version, LONG_SESSIONS) and "session_timeout_ms" not in given:
            fitting = replace(self, session_timeout_ms=LONGEST_SESSION_MS)
        if self.session_timeout_ms <= self.heartbeat_interval_ms and "heartbeat_interval_ms" not in given:
            fitting = replace(fitting, heartbeat_interval_ms=max(1, self.session_timeout_ms // 3))
        if self.request_timeout_ms <= self.fetch_max_wait_ms and "fetch_max_wait_ms" not in given:
            fitting = replace(fitting, fetch_max_wait_ms=self.request_timeout_ms // 2)
        return fitting

    def _check_bad_record(self) -> None:
        if self.on_bad_record not in (RAISE, SKIP) and _before(self.api_version, IDEMPOTENCE):
            raise SettingError(f"A dead letter has headers, which need Kafka {IDEMPOTENCE}: set on_bad_record to raise or skip.")

    def _check_times(self, given: Collection[str]) -> None:
        """Raise `SettingError` for times that exclude each other, if one of them is in `given`."""
        rules = (
            ("fetch_max_wait_ms", "request_timeout_ms", "each fetch would time out"),
            ("heartbeat_interval_ms", "session_timeout_ms", "the group would remove this member"),
        )
        for shorter, longer, effect in rules:
            if shorter in given and getattr(self, shorter) >= getattr(self, longer):
                raise SettingError(
                    f"{shorter}={getattr(self, shorter)} is not below {longer}={getattr(self, longer)}: {effect}; lower the former."
                )

    def _check_protocol(self, given: Collection[str]) -> None:
        """Raise `SettingError` for settings of the other group protocol (KIP-848)."""
        if self.group_instance_id is not None and self.group_id is None:
            raise SettingError("group_instance_id names a member of a group: add group_id, or leave it out.")
        if self.group_protocol == "classic" and self.group_remote_assignor is not None:
            raise SettingError("group_remote_assignor is for group_protocol=consumer: add that, or leave it out.")
        if self.group_protocol == "consumer":
            for name in ("partition_assignment_strategy", "session_timeout_ms", "heartbeat_interval_ms"):
                if name in given:
                    raise SettingError(f"The coordinator decides on {name} with group_protocol=consumer: leave it out.")


@dataclass(frozen=True, kw_only=True)
class ShareConsumerSettings(ObservedSettings):
    """The settings of a share consumer (KIP-932). The group has the others, such as `share.record.lock.duration.ms`."""

    KIND: ClassVar[str] = "consumer-share"

    group_id: str | None = declare(None, check_name, "The share group whose members take turns at the topics' records.")
    share_acknowledgement_mode: str = declare(
        IMPLICIT,
        OneOf([IMPLICIT, EXPLICIT]),
        "implicit accepts records once the next ones are requested; explicit requires acknowledge() for each record.",
    )
    share_acquire_mode: str = declare(
        "batch_optimized",
        OneOf(["batch_optimized", "record_limit"]),
        "batch_optimized acquires whole batches; record_limit at most max_poll_records, from one broker at a time (KIP-1206).",
    )
    client_rack: str | None = declare(None, short_text, "The rack of this client, which the coordinator shows.")
    check_crcs: bool = declare(True, flag, "Verify the checksum of each batch.")
    fetch_min_bytes: int = declare(1, at_least(0), "The amount of data that a broker gathers before it answers a fetch.")
    fetch_max_bytes: int = declare(52_428_800, at_least(1), "The maximum size of a fetch response.")
    fetch_max_wait_ms: int = declare(500, at_least(0), "The time that a broker waits for fetch_min_bytes.")
    max_poll_records: int = declare(500, at_least(1), "The maximum number of records that poll() returns.")
    max_poll_interval_ms: int = declare(300_000, at_least(1), "The time between polls after which the member leaves the group.")
    allow_auto_create_topics: bool = declare(True, flag, "Allow brokers to create subscribed topics that do not exist.")
    key_deserializer: Callable[[bytes], Any] | None = declare(
        None, deserializer, f"The function that reads keys, or one of {_FORMATS}.", given=_DESERIALIZER
    )
    value_deserializer: Callable[[bytes], Any] | None = declare(
        None, deserializer, f"The function that reads values, or one of {_FORMATS}.", given=_DESERIALIZER
    )
    on_bad_record: str = declare(
        RAISE,
        _bad_record_of_group,
        "The effect of a record that cannot be deserialized or decoded: raise, which also releases it, or skip, which rejects it.",
        given='Literal["raise", "skip"]',
    )
    interceptors: tuple[ConsumerInterceptor, ...] = declare(
        (),
        lambda name, value: check_interceptors(name, value, CONSUMER_METHODS[:1]),
        "Objects that see and may replace records before the user gets them: on_consume.",
        given="Iterable[ConsumerInterceptor]",
    )

    @property
    def is_explicit(self) -> bool:
        return self.share_acknowledgement_mode == EXPLICIT

    @property
    def deserializes(self) -> bool:
        return self.key_deserializer is not None or self.value_deserializer is not None

    def consistent(self, given: Collection[str]) -> Self:
        """Return these settings with defaults that fit. Raises `SettingError` without a group, or with an older release."""
        if self.group_id is None:
            raise SettingError("A share consumer belongs to a group: give it a group_id.")
        if _before(self.api_version, SHARE_GROUPS):
            raise SettingError(f"Share groups need Kafka {SHARE_GROUPS}, and api_version={self.api_version}: leave it out.")
        if self.request_timeout_ms > self.fetch_max_wait_ms:
            return self
        if "fetch_max_wait_ms" in given:
            times = f"fetch_max_wait_ms={self.fetch_max_wait_ms} is not below request_timeout_ms={self.request_timeout_ms}"
            raise SettingError(f"{times}: each fetch would time out; lower the former.")
        return replace(self, fetch_max_wait_ms=self.request_timeout_ms // 2)


@dataclass(frozen=True, kw_only=True)
class AdminSettings(ClientSettings):
    """An admin client's settings."""

    KIND: ClassVar[str] = "admin-client"

    enable_metrics_push: bool = declare(False, flag, "Push metrics to a broker that has a subscription to this client's (KIP-714).")

    def consistent(self, given: Collection[str]) -> Self:
        if self.is_of_0_7:
            raise SettingError("Kafka 0.7 has no admin requests: only Producer and Consumer take api_version='0.7'.")
        return self


def parse(kind: type[Settings], given: Mapping[str, object]) -> Settings:
    """Return settings from keyword arguments. Raises `SettingError`, which suggests a setting for an unknown name."""
    if isinstance(given.get("bootstrap_servers"), Mapping):
        refuse_dict(kind, given["bootstrap_servers"])
    checks = {declared.name: declared.metadata["check"] for declared in fields(kind)}
    values: dict[str, Any] = {}  # each check returns the value to store in its field
    for name, value in given.items():
        if name not in checks:
            raise SettingError(_unknown(kind, checks, name))
        values[name] = checks[name](name, value)
    made = kind(**values)
    made.check_security(values)
    return made.consistent(values)


def refuse_dict(kind: type[ClientSettings], given: object) -> None:
    """Raise `SettingError` for a dict of settings, as other clients take them, with the same settings as keyword arguments."""
    if not isinstance(given, Mapping):
        return
    from ottla.client.other_clients import find_setting  # of no use to a program without mistakes

    declared = {each.name: each.metadata["secret"] for each in fields(kind)}
    keywords, unknown = [], []
    for theirs, value in given.items():
        here = find_setting(str(theirs))
        name = here.name if here is not None and here.name else str(theirs).replace(".", "_")
        if name not in declared:
            unknown.append(str(theirs))
        else:
            shown = short_repr(value) if isinstance(value, str | int | float) and not declared[name] else "…"
            keywords.append(f"{name}={shown}")
    text = f"Settings are keyword arguments, not a dict: {kind.__name__.removesuffix('Settings')}({', '.join(keywords)})"
    raise SettingError(f"{text}, without {', '.join(unknown)}." if unknown else f"{text}.")


def _unknown(kind: type[ClientSettings], known: Collection[str], name: str) -> str:
    who = kind.__name__.removesuffix("Settings")
    if (elsewhere := _elsewhere(known, name)) is not None:
        return f"{who} has no setting {name}; {elsewhere}"
    hint = f"did you mean {close}?" if (close := _nearest(name.replace(".", "_"), known)) else ALL_NAMES
    return f"{who} has no setting {name}; {hint}"


def _elsewhere(known: Collection[str], name: str) -> str | None:
    """Return the equivalent of a setting of another client as the end of an error message, or None for an unknown name."""
    from ottla.client.other_clients import find_setting  # of no use to a program without mistakes

    here = find_setting(name)
    if here is None or (here.name and here.name not in known):
        return None
    note = here.note.replace("`", "")
    return f"it is called {here.name} here. {note}".rstrip() if here.name else note[:1].lower() + note[1:]


def _nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the setting that `name` misspells, or else a setting whose name has a few more or fewer words."""
    known = list(known)
    words = [each for each in known if f"_{name}_" in f"_{each}_" or ("_" in each and f"_{each}_" in f"_{name}_")]
    close = difflib.get_close_matches(name, known, 1, 0.85) or difflib.get_close_matches(name, words, 1, 0.5) or words
    return close[0] if close else None


def _before(release: str | None, other: str) -> bool:
    return release == KAFKA07 or (release is not None and releases.NAMES.index(release) < releases.NAMES.index(other))
