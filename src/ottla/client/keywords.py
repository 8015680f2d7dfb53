"""The settings of clients as keyword arguments. Written by `tools/keywords.py`: change the declarations, not this file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypedDict


class ClientKeywords(TypedDict, total=False):
    """Settings of every client."""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    """How connections are secured: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    ssl_truststore_location: str | None
    """The file of certificates to trust, PEM or PKCS#12; without one, the system's are trusted."""
    ssl_truststore_password: str | None
    """The password of a PKCS#12 trust store."""
    ssl_truststore_type: str | None
    """PEM or PKCS12; the file itself says it where this does not."""
    ssl_truststore_certificates: str | None
    """The certificates to trust, as text in PEM."""
    ssl_keystore_location: str | None
    """The file of this client's private key and certificates, PEM or PKCS#12."""
    ssl_keystore_password: str | None
    """The password of a PKCS#12 key store."""
    ssl_keystore_type: str | None
    """PEM or PKCS12; the file itself says it where this does not."""
    ssl_keystore_key: str | None
    """This client's private key, as text in PEM."""
    ssl_keystore_certificate_chain: str | None
    """The certificates of that key, as text in PEM."""
    ssl_key_password: str | None
    """The password of an encrypted private key."""
    ssl_endpoint_identification_algorithm: str
    """https: a broker's certificate must be that of its host; "" accepts one of any host."""
    ssl_enabled_protocols: str | Iterable[str]
    """The versions of TLS to speak: TLSv1.2, TLSv1.3."""
    ssl_cipher_suites: str | Iterable[str]
    """The ciphers of TLS 1.2 to offer, by Java's or OpenSSL's names."""
    ssl_context: object | None
    """An `ssl.SSLContext` of one's own in place of all other ssl_* settings."""
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI"]
    """How to log in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI."""
    sasl_username: str | None
    """The name of the user, for PLAIN and SCRAM."""
    sasl_password: str | None
    """The user's password."""
    sasl_jaas_config: str | None
    """Name and password as Java's clients have them, such as in a file for --command-config."""
    sasl_oauthbearer_token_callback: object | None
    """A function without arguments that returns a token for OAUTHBEARER; it is called when one is needed, on another thread."""
    sasl_oauthbearer_token_endpoint_url: str | None
    """Where to get tokens: https://host/path by client credentials, or file:///path with one."""
    sasl_oauthbearer_client_credentials_client_id: str | None
    """Who asks at that URL for tokens (RFC 6749, client credentials)."""
    sasl_oauthbearer_client_credentials_client_secret: str | None
    """The secret of who asks."""
    sasl_oauthbearer_scope: str | None
    """The scope to ask for there."""
    sasl_kerberos_service_name: str | None
    """The service of the brokers' principals, often kafka, for GSSAPI."""
    client_id: str | None
    """The name under which brokers log this client."""
    request_timeout_ms: int
    """How long one request may take."""
    retry_backoff_ms: int
    """The pause before a failed request is sent again."""
    reconnect_backoff_ms: int
    """The pause before connecting to a broker again."""
    reconnect_backoff_max_ms: int
    """The longest that pause grows while a broker stays unreachable."""
    metadata_max_age_ms: int
    """How old metadata may grow before it is refreshed."""
    default_api_timeout_ms: int
    """How long a call may take, retries included."""
    api_version: str | None
    """The Kafka release of the brokers, such as 0.9.0; needed before 0.10, where brokers cannot be asked."""


class ProducerKeywords(ClientKeywords, total=False):
    """Settings of a producer."""

    zookeeper_connect: str | None
    """Where brokers of Kafka 0.7 are registered, as host:2181,host:2181/path; it needs api_version=0.7."""
    zookeeper_session_timeout_ms: int
    """How long ZooKeeper may not hear of this client before its partitions are free for others."""
    acks: Literal["all", "0", "1", "-1", 0, 1, -1]
    """Who must have a record before it counts as written: all, 1 (the leader), 0 (nobody)."""
    enable_idempotence: bool
    """Write each batch once even if it is sent twice; needs acks=all."""
    linger_ms: int
    """How long a batch waits for more records."""
    batch_size: int
    """The size at which a batch is full."""
    buffer_memory: int
    """The bytes of unsent records beyond which send() waits."""
    max_block_ms: int
    """How long send() may wait for metadata or for memory, and a step of a transaction for brokers."""
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"]
    """The codec of batches: none, gzip, snappy, lz4 or zstd."""
    max_request_size: int
    """The largest record and the largest request."""
    max_in_flight_requests_per_connection: int
    """How many requests to one broker may be unanswered; at most 5 with idempotence."""
    delivery_timeout_ms: int
    """How long a record may take to be acknowledged, retries included."""
    transactional_id: str | None
    """The name that makes records part of transactions; a newer producer of that name fences this one (KIP-98)."""
    transaction_timeout_ms: int
    """How long a transaction may be open before brokers abort it."""


class ConsumerKeywords(ClientKeywords, total=False):
    """Settings of a consumer."""

    zookeeper_connect: str | None
    """Where brokers of Kafka 0.7 are registered, as host:2181,host:2181/path; it needs api_version=0.7."""
    zookeeper_session_timeout_ms: int
    """How long ZooKeeper may not hear of this client before its partitions are free for others."""
    group_id: str | None
    """The group whose members share the topics' partitions; without one, all partitions are read."""
    group_instance_id: str | None
    """A name that survives restarts: makes this a static member (KIP-345)."""
    auto_offset_reset: Literal["earliest", "latest", "none"]
    """Where to start without a valid committed offset: earliest, latest, or none (an error)."""
    enable_auto_commit: bool
    """Commit the offsets of processed records periodically and on close."""
    auto_commit_interval_ms: int
    """How often offsets are committed automatically."""
    isolation_level: Literal["read_uncommitted", "read_committed"]
    """read_committed hides records of open and aborted transactions; read_uncommitted shows them."""
    check_crcs: bool
    """Verify the checksum of each batch."""
    fetch_min_bytes: int
    """How much data a broker gathers before it answers a fetch."""
    fetch_max_bytes: int
    """The most data in one answer."""
    fetch_max_wait_ms: int
    """How long a broker waits for fetch_min_bytes."""
    max_partition_fetch_bytes: int
    """The most data of one partition in one answer."""
    max_poll_records: int
    """The most records that poll() returns."""
    max_poll_interval_ms: int
    """How long a member may take between polls before the group goes on without it."""
    session_timeout_ms: int
    """How long a member may be silent before the group goes on without it."""
    heartbeat_interval_ms: int
    """How often a member sends a heartbeat."""
    partition_assignment_strategy: str | Iterable[str]
    """How partitions are assigned to members, in order of preference: range, roundrobin, sticky, cooperative-sticky."""
    rebalance_backoff_ms: int
    """How long a consumer of Kafka 0.7 waits for partitions that others have yet, and for records in hand."""
    allow_auto_create_topics: bool
    """Let brokers create a topic that is subscribed to but does not exist."""
    bootstrap_servers: str | Iterable[str]
    """The brokers to contact first, as host:port; several as a list, or separated by commas."""


class AdminKeywords(ClientKeywords, total=False):
    """Settings of an admin."""
