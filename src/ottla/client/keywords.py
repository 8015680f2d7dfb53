"""The settings of clients as keyword arguments. Written by `tools/keywords.py`: change the declarations, not this file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence, Set
from typing import Literal, TypedDict

from ottla.client.consumer.assignors import PartitionAssignor, StrategyName
from ottla.client.interceptors import ConsumerInterceptor, ProducerInterceptor
from ottla.client.metrics.registry import MetricsSnapshot
from ottla.client.serializers import Deserialize, FormatName, Serialize
from ottla.schemas.registry_values import RegistrySerializer

Servers = str | Sequence[str] | Set[str]
"""Addresses of brokers, as host:port: separated by commas, or one by one. Type checkers refuse a dict."""


class ClientKeywords(TypedDict, total=False):
    """Settings of every client."""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    """The protocol of connections: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    ssl_truststore_location: str | None
    """The file of certificates to trust, PEM or PKCS#12; without one, the system's are trusted."""
    ssl_truststore_password: str | None
    """The password of a PKCS#12 trust store."""
    ssl_truststore_type: str | None
    """The type of the trust store, PEM or PKCS12; by default that of the file."""
    ssl_truststore_certificates: str | None
    """The certificates to trust, as PEM text."""
    ssl_keystore_location: str | None
    """The file of this client's private key and certificates, PEM or PKCS#12."""
    ssl_keystore_password: str | None
    """The password of a PKCS#12 key store."""
    ssl_keystore_type: str | None
    """The type of the key store, PEM or PKCS12; by default that of the file."""
    ssl_keystore_key: str | None
    """This client's private key, as PEM text."""
    ssl_keystore_certificate_chain: str | None
    """The certificates of that key, as PEM text."""
    ssl_key_password: str | None
    """The password of an encrypted private key."""
    ssl_endpoint_identification_algorithm: Literal["https", ""]
    """https: a broker's certificate must match its host name; "" accepts any host name."""
    ssl_enabled_protocols: str | Iterable[str]
    """The enabled versions of TLS:  TLSv1.2, TLSv1.3."""
    ssl_cipher_suites: str | Iterable[str]
    """The cipher suites of TLS 1.2 to offer, by Java's or OpenSSL's names."""
    ssl_context: object | None
    """An `ssl.SSLContext` that replaces all other ssl_* settings."""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"]
    """The SASL mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI."""
    sasl_username: str | None
    """The name of the user, for PLAIN and SCRAM."""
    sasl_password: str | None
    """The user's password."""
    sasl_jaas_config: str | None
    """The login module with name and password, as in a file for Java clients (--command-config)."""
    sasl_oauthbearer_token_callback: Callable[[], str] | None
    """A function without arguments that returns an OAUTHBEARER token; it is called on another thread."""
    sasl_oauthbearer_token_endpoint_url: str | None
    """The token endpoint, https://host/path (client credentials), or file:///path of a file with a token."""
    sasl_oauthbearer_client_credentials_client_id: str | None
    """The OAuth client id (RFC 6749, client credentials)."""
    sasl_oauthbearer_client_credentials_client_secret: str | None
    """The OAuth client secret."""
    sasl_oauthbearer_scope: str | None
    """The OAuth scope to request."""
    sasl_kerberos_service_name: str | None
    """The service name of the brokers' Kerberos principals, often kafka, for GSSAPI."""
    client_id: str | None
    """The client id, by which brokers log and throttle this client."""
    request_timeout_ms: int
    """The timeout of one request."""
    retry_backoff_ms: int
    """The pause before a failed request is sent again."""
    retry_backoff_max_ms: int
    """The maximum of that pause between the tries of one call, which doubles with each try."""
    reconnect_backoff_ms: int
    """The pause before connecting to a broker again."""
    reconnect_backoff_max_ms: int
    """The maximum of that pause, which grows while a broker is unreachable."""
    metadata_max_age_ms: int
    """The age at which metadata is refreshed."""
    metadata_recovery_strategy: Literal["rebootstrap", "none"]
    """The brokers to contact when all known ones are away: rebootstrap (also bootstrap_servers, resolved again) or none."""
    metadata_recovery_rebootstrap_trigger_ms: int
    """The time without an answer to metadata requests after which all known brokers are forgotten."""
    default_api_timeout_ms: int
    """The timeout of a call, including retries."""
    bootstrap_timeout_ms: int
    """The time for which a call retries refused connections before any broker has answered; 0: its own timeout."""
    enable_metrics_push: bool
    """Push metrics to a broker that has a subscription to this client's (KIP-714)."""
    metrics_sample_window_ms: int
    """The length of a window of rates and averages."""
    metrics_num_samples: int
    """The number of windows that rates and averages cover."""
    api_version: str | None
    """The Kafka release of the brokers, such as 0.9.0; needed before 0.10, which has no ApiVersions."""


class ProducerOptions(ClientKeywords, total=False):
    """Settings of a producer."""

    on_statistics: Callable[[MetricsSnapshot], Awaitable[None] | None] | None
    """A function that gets the client's metrics at intervals, on the thread that polls or flushes, or on the event loop."""
    statistics_interval_ms: int
    """The interval of on_statistics."""
    zookeeper_connect: str | None
    """The ZooKeeper of brokers of Kafka 0.7, as host:2181,host:2181/path; needs api_version=0.7."""
    zookeeper_session_timeout_ms: int
    """The timeout of the session with ZooKeeper, after which other consumers take the partitions."""
    acks: Literal["all", "0", "1", "-1", 0, 1, -1]
    """The replicas that must have a record before it is acknowledged: all (in sync), 1 (the leader), 0 (none)."""
    enable_idempotence: bool
    """Write each batch once, even if it is sent twice; needs acks=all."""
    linger_ms: int
    """The time that a batch waits for more records."""
    batch_size: int
    """The maximum size of a batch."""
    buffer_memory: int
    """The bytes of unsent records beyond which send() waits."""
    max_block_ms: int
    """The timeout of send() for metadata and memory, and of each transactional call."""
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"]
    """The codec of batches: none, gzip, snappy, lz4 or zstd."""
    partitioner: Callable[[str, bytes | None, bytes | None, int], int] | None
    """A function of topic, key, value and number of partitions that returns a partition; by default murmur2 of keys."""
    max_request_size: int
    """The maximum size of a record, and of a request."""
    max_in_flight_requests_per_connection: int
    """The maximum number of unanswered requests to one broker; at most 5 with idempotence."""
    delivery_timeout_ms: int
    """The timeout of a record's acknowledgement, including retries."""
    transactional_id: str | None
    """The id that makes the producer transactional; a newer producer with this id fences this one (KIP-98)."""
    transaction_timeout_ms: int
    """The time after which brokers abort an open transaction."""
    interceptors: Iterable[ProducerInterceptor]
    """Objects that see and may replace each record of send(): on_send, on_acknowledgement."""


class ProducerKeywords(ProducerOptions, total=False):
    """Settings of a producer, with the formats of keys and values."""

    key_serializer: FormatName | Serialize | RegistrySerializer | None
    """The function that makes bytes of keys, or one of bytes, str, bool, int16, int32, int64, float32, float64, uuid, json."""
    value_serializer: FormatName | Serialize | RegistrySerializer | None
    """The function that makes bytes of values, or one of bytes, str, bool, int16, int32, int64, float32, float64, uuid, json."""


class ConsumerOptions(ClientKeywords, total=False):
    """Settings of a consumer."""

    on_statistics: Callable[[MetricsSnapshot], Awaitable[None] | None] | None
    """A function that gets the client's metrics at intervals, on the thread that polls or flushes, or on the event loop."""
    statistics_interval_ms: int
    """The interval of on_statistics."""
    zookeeper_connect: str | None
    """The ZooKeeper of brokers of Kafka 0.7, as host:2181,host:2181/path; needs api_version=0.7."""
    zookeeper_session_timeout_ms: int
    """The timeout of the session with ZooKeeper, after which other consumers take the partitions."""
    group_id: str | None
    """The group whose members share the topics' partitions; without one, all partitions are read."""
    group_instance_id: str | None
    """The id of a static member, which keeps its partitions across restarts (KIP-345)."""
    auto_offset_reset: Literal["earliest", "latest", "none"]
    """The position without a valid committed offset: earliest, latest, or none (an error)."""
    enable_auto_commit: bool
    """Commit the offsets of processed records periodically and on close."""
    enable_auto_offset_store: bool
    """Let commits without offsets include all records handed out. Otherwise, they include what store_offsets() got."""
    auto_commit_interval_ms: int
    """The interval of automatic commits."""
    isolation_level: Literal["read_uncommitted", "read_committed"]
    """read_committed hides records of open and aborted transactions; read_uncommitted shows them."""
    client_rack: str | None
    """The rack of this client. A leader then names a replica in this rack to fetch from (KIP-392)."""
    check_crcs: bool
    """Verify the checksum of each batch."""
    include_control_records: bool
    """Also hand out control records, such as the markers of transactions. A setting of Ottla's clients."""
    fetch_min_bytes: int
    """The amount of data that a broker gathers before it answers a fetch."""
    fetch_max_bytes: int
    """The maximum size of a fetch response."""
    fetch_max_wait_ms: int
    """The time that a broker waits for fetch_min_bytes."""
    max_partition_fetch_bytes: int
    """The maximum size of one partition's data in a fetch response."""
    max_poll_records: int
    """The maximum number of records that poll() returns."""
    max_poll_interval_ms: int
    """The time between polls after which the group removes a member."""
    session_timeout_ms: int
    """The time without a heartbeat after which the group removes a member."""
    heartbeat_interval_ms: int
    """The interval of a member's heartbeats."""
    partition_assignment_strategy: StrategyName | PartitionAssignor | Iterable[StrategyName | PartitionAssignor]
    """The partition assignors, in order of preference: range, roundrobin, sticky, cooperative-sticky, or a `PartitionAssignor`."""
    group_protocol: Literal["classic", "consumer", "auto"]
    """The group's protocol: classic, consumer (KIP-848: the coordinator assigns partitions), or auto (consumer where served)."""
    group_remote_assignor: str | None
    """The coordinator's assignor with group_protocol=consumer; by default the coordinator chooses."""
    rebalance_backoff_ms: int
    """The time that a rebalance of Kafka 0.7 waits for other members' partitions and records being processed."""
    allow_auto_create_topics: bool
    """Allow brokers to create subscribed topics that do not exist."""
    on_bad_record: str
    """The effect of a record that cannot be deserialized or decoded: raise, skip, or a dead-letter topic, which gets a copy."""
    interceptors: Iterable[ConsumerInterceptor]
    """Objects that see and may replace records before the user gets them: on_consume, on_commit."""
    bootstrap_servers: Servers
    """The brokers to contact first, as host:port; several as a list, or separated by commas."""


class ConsumerKeywords(ConsumerOptions, total=False):
    """Settings of a consumer, with the formats of keys and values."""

    key_deserializer: FormatName | Deserialize | None
    """The function that reads keys, or one of bytes, str, bool, int16, int32, int64, float32, float64, uuid, json."""
    value_deserializer: FormatName | Deserialize | None
    """The function that reads values, or one of bytes, str, bool, int16, int32, int64, float32, float64, uuid, json."""


class ShareConsumerOptions(ClientKeywords, total=False):
    """Settings of a share consumer."""

    on_statistics: Callable[[MetricsSnapshot], Awaitable[None] | None] | None
    """A function that gets the client's metrics at intervals, on the thread that polls or flushes, or on the event loop."""
    statistics_interval_ms: int
    """The interval of on_statistics."""
    group_id: str | None
    """The share group whose members take turns at the topics' records."""
    share_acknowledgement_mode: Literal["implicit", "explicit"]
    """implicit accepts records once the next ones are requested; explicit requires acknowledge() for each record."""
    share_acquire_mode: Literal["batch_optimized", "record_limit"]
    """batch_optimized acquires whole batches; record_limit at most max_poll_records, from one broker at a time (KIP-1206)."""
    client_rack: str | None
    """The rack of this client, which the coordinator shows."""
    check_crcs: bool
    """Verify the checksum of each batch."""
    fetch_min_bytes: int
    """The amount of data that a broker gathers before it answers a fetch."""
    fetch_max_bytes: int
    """The maximum size of a fetch response."""
    fetch_max_wait_ms: int
    """The time that a broker waits for fetch_min_bytes."""
    max_poll_records: int
    """The maximum number of records that poll() returns."""
    max_poll_interval_ms: int
    """The time between polls after which the member leaves the group."""
    allow_auto_create_topics: bool
    """Allow brokers to create subscribed topics that do not exist."""
    on_bad_record: Literal["raise", "skip"]
    """The effect of a record that cannot be deserialized or decoded: raise, which also releases it, or skip, which rejects it."""
    interceptors: Iterable[ConsumerInterceptor]
    """Objects that see and may replace records before the user gets them: on_consume."""
    bootstrap_servers: Servers
    """The brokers to contact first, as host:port; several as a list, or separated by commas."""


class ShareConsumerKeywords(ShareConsumerOptions, total=False):
    """Settings of a share consumer, with the formats of keys and values."""

    key_deserializer: FormatName | Deserialize | None
    """The function that reads keys, or one of bytes, str, bool, int16, int32, int64, float32, float64, uuid, json."""
    value_deserializer: FormatName | Deserialize | None
    """The function that reads values, or one of bytes, str, bool, int16, int32, int64, float32, float64, uuid, json."""


class AdminKeywords(ClientKeywords, total=False):
    """Settings of an admin."""
