"""The names of confluent-kafka, kafka-python and aiokafka, and their equivalents in Ottla's clients.

Errors about unknown settings name the equivalent, and `tools/moving_pages.py` writes the tables of docs/from-*.md. Settings whose
names differ by dots and underscores alone are not listed. The module is data, and imports nothing of Ottla.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Here(NamedTuple):
    """The equivalent of another client's name: `name` in Ottla, or empty if there is none, and a `note` about the difference."""

    name: str = ""
    note: str = ""


CONFLUENT, KAFKA_PYTHON, AIOKAFKA = "confluent-kafka", "kafka-python", "aiokafka"

_SYSTEM = Here(note="The operating system's default is used.")
_METRICS = Here(note="`metrics()` of a client returns the metrics of Java's clients.")
_RETRIES = Here(note="Records are retried for delivery_timeout_ms, calls for default_api_timeout_ms.")
_IDLE = Here(note="Connections stay open until a broker closes them, and are opened again when needed.")
_PROXY = Here(note="Connections use no proxy.")
_HOST = Here(note="The principal's host is the host name of the broker.")
_TOPICS_FIRST = Here(note="Topics come first: Consumer('flights', bootstrap_servers='host:9092').")
_LOOP = Here(note="The running event loop is used.")
_OWN_BROKER = Here(note="Tests start `ottla.Broker()`.")
_CONTEXT = Here("ssl_context", "An `ssl.SSLContext` loads the list of revoked certificates.")
_ONE_STORE = Here("ssl_keystore_location", "One PEM file with the private key and the certificates.")
_CIPHERS = Here("ssl_cipher_suites")
_INTERNAL = Here(note="A pattern never matches internal topics; subscribe to their names.")
_LAST_STEP = Here("max_poll_interval_ms", "Also the time that a rebalance waits for this member.")
_TOKEN = Here("sasl_oauthbearer_token_callback", "A function without arguments that returns the token.")
_READ_TIMEOUT = Here(note="`records(timeout_ms=…)` ends after that time without a record.")

_COMMON_PYTHON: dict[str, Here] = {
    "connections_max_idle_ms": _IDLE,
    "sasl_plain_username": Here("sasl_username"),
    "sasl_plain_password": Here("sasl_password"),
    "sasl_oauth_token_provider": _TOKEN,
    "sasl_kerberos_domain_name": _HOST,
}
"""The settings that kafka-python and aiokafka share."""

SETTINGS: Final[Mapping[str, Mapping[str, Here]]] = {
    CONFLUENT: {
        "metadata.broker.list": Here("bootstrap_servers"),
        "message.max.bytes": Here("max_request_size"),
        "queue.buffering.max.ms": Here("linger_ms"),
        "queue.buffering.max.kbytes": Here("buffer_memory", "In bytes. `send` waits while it is full, and raises no BufferError."),
        "queue.buffering.max.messages": Here("buffer_memory", "In bytes: records are not counted."),
        "batch.num.messages": Here("batch_size", "In bytes: records are not counted."),
        "request.required.acks": Here("acks"),
        "message.timeout.ms": Here("delivery_timeout_ms"),
        "message.send.max.retries": _RETRIES,
        "retries": _RETRIES,
        "retry.backoff.max.ms": Here("retry_backoff_ms", "The pause does not grow."),
        "socket.timeout.ms": Here("request_timeout_ms"),
        "socket.connection.setup.timeout.ms": Here("request_timeout_ms"),
        "compression.codec": Here("compression_type"),
        "compression.level": Here(note="Each codec uses its default level."),
        "sticky.partitioning.linger.ms": Here(note="Records without a key stay in a partition until its batch is complete."),
        "max.in.flight": Here("max_in_flight_requests_per_connection"),
        "enable.gapless.guarantee": Here(note="`flush` and the end of `with` raise DeliveryFailed if a record was lost."),
        "queuing.strategy": Here(note="Records of a partition are sent in the order of `send`."),
        "dr_cb": Here(note="`send(…, on_delivery=f)`."),
        "on_delivery": Here(note="`send(…, on_delivery=f)`."),
        "delivery.report.only.error": Here(note="`flush` and the end of `with` raise DeliveryFailed for failed records."),
        "fetch.wait.max.ms": Here("fetch_max_wait_ms"),
        "fetch.message.max.bytes": Here("max_partition_fetch_bytes"),
        "fetch.error.backoff.ms": Here("retry_backoff_ms"),
        "fetch.queue.backoff.ms": Here("max_partition_fetch_bytes", "A partition is fetched again once its records are read."),
        "queued.min.messages": Here("max_partition_fetch_bytes", "A partition is fetched again once its records are read."),
        "queued.max.messages.kbytes": Here("fetch_max_bytes", "In bytes."),
        "enable.partition.eof": Here(note="`records(until=consumer.end_offsets(partitions))` ends there."),
        "group.protocol.type": Here("group_protocol", "classic, consumer (KIP-848) or auto."),
        "coordinator.query.interval.ms": Here("retry_backoff_ms"),
        "on_commit": Here(note="`commit_soon(on_commit=f)`."),
        "error_cb": Here(note="Calls raise errors, and the logger `ottla.client` reports lost connections."),
        "stats_cb": Here("on_statistics", "A function of a snapshot with the names of Java's metrics, not of JSON."),
        "throttle_cb": _METRICS,
        "oauth_cb": _TOKEN,
        "logger": Here(note="`logging.getLogger('ottla.client')`."),
        "log_level": Here(note="`logging.getLogger('ottla.client').setLevel(…)`."),
        "debug": Here(note="`logging.getLogger('ottla.client').setLevel(logging.DEBUG)`."),
        "log.connection.close": Here(note="The logger `ottla.client` reports lost connections at INFO."),
        "topic.metadata.refresh.interval.ms": Here("metadata_max_age_ms"),
        "topic.metadata.refresh.fast.interval.ms": Here("retry_backoff_ms"),
        "topic.metadata.refresh.sparse": Here(note="Only topics in use are refreshed."),
        "topic.metadata.propagation.max.ms": Here("max_block_ms"),
        "default.topic.config": Here(note="All settings are keyword arguments of the client."),
        "plugin.library.paths": Here("interceptors", "Objects of Python."),
        "socket.max.fails": Here(note="A request that times out ends its connection."),
        "topic.blacklist": Here(note="A pattern can exclude topics."),
        "api.version.request": Here("api_version", "Versions are requested, unless api_version is set."),
        "api.version.request.timeout.ms": Here("request_timeout_ms"),
        "broker.version.fallback": Here("api_version"),
        "broker.address.ttl": Here(note="Names are resolved for each connection."),
        "broker.address.family": Here(note="Addresses of both families are tried."),
        "client.dns.lookup": Here(note="All addresses of a name are tried."),
        "socket.keepalive.enable": _SYSTEM,
        "socket.nagle.disable": Here(note="Nagle's algorithm is always off."),
        "socket.send.buffer.bytes": _SYSTEM,
        "socket.receive.buffer.bytes": _SYSTEM,
        "connections.max.idle.ms": _IDLE,
        "receive.message.max.bytes": Here("fetch_max_bytes"),
        "sasl.mechanisms": Here("sasl_mechanism"),
        "sasl.kerberos.keytab": Here("sasl_jaas_config", "The login module of Java, with `keyTab`."),
        "sasl.kerberos.kinit.cmd": Here(note="Tickets come from `kinit`, or from a keytab in sasl_jaas_config."),
        "sasl.kerberos.min.time.before.relogin": Here(note="A ticket is renewed when it is needed."),
        "sasl.oauthbearer.method": Here("sasl_oauthbearer_token_endpoint_url", "With it, tokens come from an issuer."),
        "sasl.kerberos.principal": Here("sasl_jaas_config", "The login module of Java, with `principal`."),
        "sasl.oauthbearer.config": _TOKEN,
        "sasl.oauthbearer.client.id": Here("sasl_oauthbearer_client_credentials_client_id"),
        "sasl.oauthbearer.client.secret": Here("sasl_oauthbearer_client_credentials_client_secret"),
        "ssl.ca.location": Here("ssl_truststore_location", "PEM or PKCS#12; without it, the system's certificates."),
        "ssl.ca.pem": Here("ssl_truststore_certificates"),
        "ssl.certificate.location": _ONE_STORE,
        "ssl.certificate.pem": Here("ssl_keystore_certificate_chain"),
        "ssl.key.location": _ONE_STORE,
        "ssl.key.pem": Here("ssl_keystore_key"),
        "ssl.crl.location": _CONTEXT,
        "enable.ssl.certificate.verification": Here(
            "ssl_context", "Certificates are verified, unless an `ssl.SSLContext` does not."
        ),
    },
    KAFKA_PYTHON: _COMMON_PYTHON
    | {
        "retries": _RETRIES,
        "consumer_timeout_ms": _READ_TIMEOUT,
        "default_offset_commit_callback": Here(note="`commit_soon(on_commit=f)`."),
        "enable_incremental_fetch_sessions": Here(note="Each fetch names its partitions: sessions (KIP-227) are not used."),
        "exclude_internal_topics": _INTERNAL,
        "client_dns_lookup": Here(note="All addresses of a name are tried."),
        "receive_message_max_bytes": Here("fetch_max_bytes"),
        "receive_buffer_bytes": _SYSTEM,
        "send_buffer_bytes": _SYSTEM,
        "socket_options": _SYSTEM,
        "selector": _LOOP,
        "kafka_client": _OWN_BROKER,
        "proxy_url": _PROXY,
        "socks5_proxy": _PROXY,
        "metric_group_prefix": _METRICS,
        "metric_reporters": _METRICS,
        "metrics_enabled": _METRICS,
        "sasl_kerberos_name": _HOST,
        "ssl_cafile": Here("ssl_truststore_location", "PEM or PKCS#12."),
        "ssl_certfile": _ONE_STORE,
        "ssl_keyfile": _ONE_STORE,
        "ssl_password": Here("ssl_key_password"),
        "ssl_check_hostname": Here("ssl_endpoint_identification_algorithm", "An empty string for False."),
        "ssl_ciphers": _CIPHERS,
        "ssl_crlfile": _CONTEXT,
    },
    AIOKAFKA: _COMMON_PYTHON
    | {
        "loop": _LOOP,
        "max_batch_size": Here("batch_size"),
        "consumer_timeout_ms": _READ_TIMEOUT,
        "exclude_internal_topics": _INTERNAL,
        "rebalance_timeout_ms": _LAST_STEP,
        "topics": _TOPICS_FIRST,
    },
}
"""Settings by client library, in the library's own spelling."""

_CALLS_DIRECTLY = Here(note="Not needed: clients read the responses of brokers by themselves.")
_PASSWORD = Here(note="Close the client, and create another one with the new password.")
_CLUSTER_ID = Here(note="`Admin.describe_cluster().cluster_id`.")
_TOPIC_LIST = Here("partitions_for", "Of one topic; `Admin.list_topics` lists all.")
_OWN_BATCH = Here("send_values", "Values alone; `send_table` sends columns of keys, values and headers.")

METHODS: Final[Mapping[str, Mapping[str, Here]]] = {
    "confluent_kafka.Producer": {
        "produce": Here("send", "Waits while `buffer_memory` is full, and returns a `Delivery`."),
        "produce_batch": _OWN_BATCH,
        "poll": Here("poll", "In ms, and only needed for callbacks."),
        "flush": Here("flush", "In ms; raises FlushTimedOut with the records left, and DeliveryFailed."),
        "purge": Here("purge", "Drops records that were not sent yet, and returns their number."),
        "list_topics": _TOPIC_LIST,
        "cluster_id": _CLUSTER_ID,
        "init_transactions": Here("init_transactions"),
        "begin_transaction": Here("begin_transaction"),
        "commit_transaction": Here("commit_transaction"),
        "abort_transaction": Here("abort_transaction"),
        "send_offsets_to_transaction": Here("send_offsets", "Pass `consumer.positions()` and the consumer."),
        "set_sasl_credentials": _PASSWORD,
        "close": Here("close"),
    },
    "confluent_kafka.Consumer": {
        "subscribe": Here("subscribe", "`subscribe(*topics)` or `subscribe(pattern=…)`; listeners are given to the constructor."),
        "unsubscribe": Here("unsubscribe"),
        "poll": Here("poll", "Returns a list, perhaps empty; iterate over the consumer for one record after the other."),
        "consume": Here("poll", "`poll(timeout_ms, max_records)`."),
        "commit": Here("commit", "Waits for the broker, as with asynchronous=False; `commit_soon` does not."),
        "store_offsets": Here("store_offsets", "Offsets are stored by partition: `store_offsets({(topic, partition): offset})`."),
        "committed": Here("committed", "Of one partition; None without an offset."),
        "position": Here("position", "Of one partition; `positions` returns all."),
        "assign": Here("assign", "Offsets are set by `seek`."),
        "unassign": Here("unsubscribe"),
        "assignment": Here("assignment", "A set."),
        "incremental_assign": Here("incremental_assign"),
        "incremental_unassign": Here("incremental_unassign"),
        "pause": Here("pause", "`pause(*partitions)`."),
        "resume": Here("resume", "`resume(*partitions)`."),
        "seek": Here("seek", "`seek(partition, offset)`."),
        "offsets_for_times": Here("offsets_for_times", "Maps partitions to times; offset -1 means that no record is that recent."),
        "get_watermark_offsets": Here("end_offsets", "And `beginning_offsets`, of several partitions."),
        "consumer_group_metadata": Here("group_metadata", "`send_offsets` also takes the consumer itself."),
        "memberid": Here("group_metadata", "Its `member_id`."),
        "list_topics": _TOPIC_LIST,
        "cluster_id": _CLUSTER_ID,
        "set_sasl_credentials": _PASSWORD,
        "close": Here("close"),
    },
    "confluent_kafka.admin.AdminClient": {
        "create_topics": Here("create_topics"),
        "delete_topics": Here("delete_topics"),
        "create_partitions": Here("create_partitions", "Maps topics to numbers of partitions."),
        "list_topics": Here("list_topics", "Names; `describe_topics` returns partitions."),
        "describe_topics": Here("describe_topics"),
        "describe_cluster": Here("describe_cluster"),
        "cluster_id": Here("describe_cluster", "Its `cluster_id`."),
        "describe_configs": Here("describe_configs"),
        "alter_configs": Here("alter_configs", "Changes single settings alone."),
        "incremental_alter_configs": Here("alter_configs"),
        "create_acls": Here("create_acls"),
        "delete_acls": Here("delete_acls"),
        "describe_acls": Here("list_acls"),
        "list_groups": Here("list_groups"),
        "list_consumer_groups": Here("list_groups"),
        "describe_consumer_groups": Here("describe_groups"),
        "delete_consumer_groups": Here("delete_groups"),
        "list_consumer_group_offsets": Here("list_group_offsets"),
        "alter_consumer_group_offsets": Here("alter_group_offsets"),
        "list_offsets": Here("list_offsets"),
        "delete_records": Here("delete_records"),
        "elect_leaders": Here("elect_leaders"),
        "describe_user_scram_credentials": Here("list_users"),
        "alter_user_scram_credentials": Here("set_user_password", "And `remove_user`."),
        "poll": _CALLS_DIRECTLY,
        "set_sasl_credentials": _PASSWORD,
    },
    "kafka.KafkaProducer": {
        "send": Here("send", "Key and partition are keywords; headers may be of any iterable of pairs."),
        "flush": Here("flush", "In ms; raises FlushTimedOut, and DeliveryFailed for records that were lost."),
        "close": Here("close", "In ms."),
        "partitions_for": Here("partitions_for", "A list of `TopicPartition`."),
        "init_transactions": Here("init_transactions"),
        "begin_transaction": Here("begin_transaction"),
        "commit_transaction": Here("commit_transaction"),
        "abort_transaction": Here("abort_transaction"),
        "send_offsets_to_transaction": Here("send_offsets", "Pass `consumer.positions()` and the consumer."),
        "bootstrap_connected": Here("partitions_for", "Raises if no broker is reached."),
        "max_usable_produce_magic": _CALLS_DIRECTLY,
        "metrics": Here("metrics"),
    },
    "kafka.KafkaConsumer": {
        "subscribe": Here("subscribe", "`subscribe(*topics)` or `subscribe(pattern=…)`; listeners are given to the constructor."),
        "unsubscribe": Here("unsubscribe"),
        "subscription": Here("subscription"),
        "poll": Here("poll", "Returns a list of records, not a dict by partition."),
        "commit": Here("commit", "Offsets may be integers."),
        "commit_async": Here("commit_soon", "`commit_soon(offsets, on_commit=f)`."),
        "committed": Here("committed", "An `OffsetAndMetadata`, or None."),
        "position": Here("position"),
        "highwater": Here("current_lag", "Or `end_offsets`."),
        "assign": Here("assign"),
        "assignment": Here("assignment"),
        "pause": Here("pause"),
        "resume": Here("resume"),
        "paused": Here("paused"),
        "seek": Here("seek"),
        "seek_to_beginning": Here("seek_to_beginning"),
        "seek_to_end": Here("seek_to_end"),
        "beginning_offsets": Here("beginning_offsets"),
        "end_offsets": Here("end_offsets"),
        "offsets_for_times": Here("offsets_for_times", "Offset -1, not None, if no record is that recent."),
        "partitions_for_topic": Here("partitions_for", "A list of `TopicPartition`; raises UnknownTopic."),
        "topics": Here(note="`Admin.list_topics()`."),
        "group_metadata": Here("group_metadata", "`send_offsets` also takes the consumer itself."),
        "bootstrap": Here("partitions_for", "Raises if no broker is reached."),
        "bootstrap_connected": Here("partitions_for", "Raises if no broker is reached."),
        "metrics": Here("metrics"),
        "close": Here("close"),
    },
    "kafka.KafkaAdminClient": {
        "create_topics": Here("create_topics"),
        "delete_topics": Here("delete_topics"),
        "create_partitions": Here("create_partitions", "Maps topics to numbers of partitions."),
        "list_topics": Here("list_topics"),
        "describe_topics": Here("describe_topics"),
        "wait_for_topics": Here("describe_topics", "Raises UnknownTopic until a topic exists."),
        "describe_topic_partitions": Here("describe_topics"),
        "describe_cluster": Here("describe_cluster"),
        "api_versions": Here("supports_api"),
        "get_broker_version_data": Here("supports_api"),
        "describe_configs": Here("describe_configs"),
        "alter_configs": Here("alter_configs", "Changes single settings alone."),
        "reset_configs": Here("alter_configs", "`delete=[…]`."),
        "list_config_resources": Here("list_config_resources"),
        "create_acls": Here("create_acls"),
        "delete_acls": Here("delete_acls"),
        "describe_acls": Here("list_acls"),
        "list_groups": Here("list_groups"),
        "describe_groups": Here("describe_groups"),
        "delete_groups": Here("delete_groups"),
        "list_group_offsets": Here("list_group_offsets", "`list_offsets_of_groups` for several."),
        "alter_group_offsets": Here("alter_group_offsets"),
        "reset_group_offsets": Here("alter_group_offsets", "With offsets of `list_offsets`."),
        "delete_group_offsets": Here("delete_group_offsets"),
        "remove_group_members": Here("remove_members"),
        "list_partition_offsets": Here("list_offsets"),
        "delete_records": Here("delete_records"),
        "elect_leaders": Here("elect_leaders"),
        "describe_log_dirs": Here("describe_log_dirs"),
        "alter_replica_log_dirs": Here("alter_replica_log_dirs"),
        "alter_partition_reassignments": Here("alter_partition_reassignments"),
        "list_partition_reassignments": Here("list_partition_reassignments"),
        "describe_metadata_quorum": Here("describe_quorum"),
        "describe_features": Here("describe_features"),
        "update_features": Here("update_features"),
        "describe_user_scram_credentials": Here("list_users"),
        "alter_user_scram_credentials": Here("set_user_password", "And `remove_user`."),
        "list_transactions": Here("list_transactions"),
        "describe_transactions": Here("describe_transactions"),
        "describe_producers": Here("describe_producers"),
        "find_hanging_transactions": Here("find_hanging_transactions"),
        "abort_transaction": Here("abort_transaction"),
        "close": Here("close"),
    },
    "aiokafka.AIOKafkaProducer": {
        "start": Here("start", "Or `async with`."),
        "stop": Here("close", "Or `async with`."),
        "send": Here("send", "`await` of the returned `Delivery` waits for the broker."),
        "send_and_wait": Here("send", "`await (await producer.send(…))`."),
        "create_batch": _OWN_BATCH,
        "send_batch": _OWN_BATCH,
        "flush": Here("flush"),
        "partitions_for": Here("partitions_for", "A list of `TopicPartition`."),
        "begin_transaction": Here("begin_transaction"),
        "commit_transaction": Here("commit_transaction"),
        "abort_transaction": Here("abort_transaction"),
        "transaction": Here("transaction"),
        "send_offsets_to_transaction": Here("send_offsets", "Pass `consumer.positions()` and the consumer."),
    },
    "aiokafka.AIOKafkaConsumer": {
        "start": Here("start", "Or `async with`."),
        "stop": Here("close", "Or `async with`."),
        "subscribe": Here("subscribe", "A coroutine; listeners are given to the constructor."),
        "unsubscribe": Here("unsubscribe", "A coroutine."),
        "subscription": Here("subscription"),
        "getone": Here("poll", "`poll(timeout_ms, 1)`, or `async for`."),
        "getmany": Here("poll", "Returns a list of records, not a dict by partition."),
        "commit": Here("commit", "Offsets may be integers."),
        "committed": Here("committed", "An `OffsetAndMetadata`, or None."),
        "position": Here("position"),
        "highwater": Here("current_lag", "Or `end_offsets`."),
        "last_stable_offset": Here("current_lag", "With read_committed; or `end_offsets`."),
        "last_poll_timestamp": Here("metrics", "`last-poll-seconds-ago`."),
        "assign": Here("assign", "A coroutine."),
        "assignment": Here("assignment"),
        "pause": Here("pause"),
        "resume": Here("resume"),
        "paused": Here("paused"),
        "seek": Here("seek"),
        "seek_to_beginning": Here("seek_to_beginning", "No coroutine."),
        "seek_to_end": Here("seek_to_end", "No coroutine."),
        "seek_to_committed": Here("seek_to_committed"),
        "beginning_offsets": Here("beginning_offsets"),
        "end_offsets": Here("end_offsets"),
        "offsets_for_times": Here("offsets_for_times", "Offset -1, not None, if no record is that recent."),
        "partitions_for_topic": Here("partitions_for", "A coroutine, which raises UnknownTopic."),
        "topics": Here(note="`AsyncAdmin.list_topics()`."),
    },
    "aiokafka.admin.AIOKafkaAdminClient": {
        "start": Here("start", "Or `async with`."),
        "close": Here("close", "Or `async with`."),
        "create_topics": Here("create_topics"),
        "delete_topics": Here("delete_topics"),
        "create_partitions": Here("create_partitions", "Maps topics to numbers of partitions."),
        "list_topics": Here("list_topics"),
        "describe_topics": Here("describe_topics"),
        "describe_cluster": Here("describe_cluster"),
        "describe_configs": Here("describe_configs"),
        "alter_configs": Here("alter_configs", "Changes single settings alone."),
        "list_consumer_groups": Here("list_groups"),
        "describe_consumer_groups": Here("describe_groups"),
        "list_consumer_group_offsets": Here("list_group_offsets"),
        "find_coordinator": Here("describe_group", "Its `coordinator_id`."),
        "delete_records": Here("delete_records"),
    },
}
"""Methods by class of a client library. The class here is `CLASSES` of it."""

CLASSES: Final[Mapping[str, str]] = {
    name: ("Async" if name.startswith(AIOKAFKA) else "") + kind
    for name in METHODS
    for kind in ("Producer", "Consumer", "Admin")
    if kind in name.rpartition(".")[2]
}
"""The class of `ottla` that takes the place of a class of another client library."""

_ARGUMENT = Here("SettingError", "A wrong type raises TypeError.")
_ORDER = Here("TransactionError", "For calls of a transaction in the wrong order.")
_LONE_ERROR = Here("BrokerError", "`error.name` is Kafka's name of the code.")

ERRORS: Final[Mapping[str, Mapping[str, Here]]] = {
    CONFLUENT: {
        "KafkaException": Here("KafkaError", "Its `code`, `retriable`; there is no error object in `args`."),
        "KafkaError._MSG_TIMED_OUT": Here("TimedOut"),
        "KafkaError._TIMED_OUT": Here("TimedOut"),
        "KafkaError._TIMED_OUT_QUEUE": Here("TimedOut"),
        "KafkaError._TRANSPORT": Here("ConnectionFailed"),
        "KafkaError._ALL_BROKERS_DOWN": Here("ConnectionFailed"),
        "KafkaError._RESOLVE": Here("ConnectionFailed"),
        "KafkaError._AUTHENTICATION": Here("AuthenticationFailed"),
        "KafkaError._SSL": Here("AuthenticationFailed"),
        "KafkaError._QUEUE_FULL": Here("TimedOut", "After `max_block_ms`: `send` waits for memory first."),
        "KafkaError._PARTITION_EOF": Here(note="`records(until=…)` ends at these offsets."),
        "KafkaError._UNKNOWN_TOPIC": Here("UnknownTopic"),
        "KafkaError._UNKNOWN_PARTITION": Here("UnknownTopic"),
        "KafkaError._AUTO_OFFSET_RESET": Here("OffsetOutOfRange"),
        "KafkaError._MAX_POLL_EXCEEDED": Here("CommitFailed", "Of the next commit; the next poll joins the group again."),
        "KafkaError._ASSIGNMENT_LOST": Here("CommitFailed"),
        "KafkaError._FENCED": Here("ProducerFenced"),
        "KafkaError._FATAL": Here("TransactionFailed"),
        "KafkaError._PURGE_QUEUE": Here("Purged"),
        "KafkaError._STATE": _ORDER,
        "KafkaError._UNSUPPORTED_FEATURE": Here("NotSupported"),
        "KafkaError._INVALID_ARG": _ARGUMENT,
        "KafkaError._NO_OFFSET": Here(note="`commit` without positions commits nothing, and returns."),
        "KafkaError.TOPIC_ALREADY_EXISTS": _LONE_ERROR,
        "KafkaError._KEY_SERIALIZATION": Here("SerializationFailed", "Its `field` is key."),
        "KafkaError._VALUE_SERIALIZATION": Here("SerializationFailed", "Its `field` is value."),
        "KafkaError._KEY_DESERIALIZATION": Here("DeserializationFailed", "Its `field` is key."),
        "KafkaError._VALUE_DESERIALIZATION": Here("DeserializationFailed", "Its `field` is value."),
    },
    KAFKA_PYTHON: {
        "KafkaError": Here("KafkaError"),
        "KafkaTimeoutError": Here("TimedOut"),
        "KafkaConnectionError": Here("ConnectionFailed"),
        "NodeNotReadyError": Here("ConnectionFailed"),
        "SaslAuthenticationFailedError": Here("AuthenticationFailed"),
        "KafkaConfigurationError": Here("SettingError"),
        "IllegalArgumentError": _ARGUMENT,
        "IllegalStateError": _ORDER,
        "CommitFailedError": Here("CommitFailed"),
        "NoOffsetForPartitionError": Here("OffsetOutOfRange", "With auto_offset_reset='none'; without a commit a KafkaError."),
        "OffsetOutOfRangeError": Here("OffsetOutOfRange"),
        "UnknownTopicOrPartitionError": Here("UnknownTopic"),
        "TopicAlreadyExistsError": _LONE_ERROR,
        "MessageSizeTooLargeError": Here("BrokerError", "MESSAGE_TOO_LARGE, raised by `send`."),
        "UnsupportedCodecError": Here("SettingError"),
        "UnrecognizedBrokerVersion": Here("NotSupported"),
        "IncompatibleBrokerVersion": Here("NotSupported"),
        "ProducerFencedError": Here("ProducerFenced"),
        "TransactionAbortedError": Here("TransactionAbortable"),
        "Cancelled": Here("Closed"),
    },
    AIOKAFKA: {
        "KafkaError": Here("KafkaError"),
        "KafkaTimeoutError": Here("TimedOut"),
        "KafkaConnectionError": Here("ConnectionFailed"),
        "NodeNotReadyError": Here("ConnectionFailed"),
        "AuthenticationFailedError": Here("AuthenticationFailed"),
        "KafkaConfigurationError": Here("SettingError"),
        "IllegalArgumentError": _ARGUMENT,
        "IllegalStateError": _ORDER,
        "IllegalOperation": _ORDER,
        "CommitFailedError": Here("CommitFailed"),
        "ConsumerStoppedError": Here("Closed"),
        "ProducerClosed": Here("Closed"),
        "ProducerFenced": Here("ProducerFenced"),
        "OutOfOrderSequenceNumber": Here("DeliveryFailed", "Its cause."),
        "NoOffsetForPartitionError": Here("OffsetOutOfRange", "With auto_offset_reset='none'; without a commit a KafkaError."),
        "OffsetOutOfRangeError": Here("OffsetOutOfRange"),
        "RecordTooLargeError": Here("BrokerError", "One record that exceeds `max_partition_fetch_bytes` is read."),
        "MessageSizeTooLargeError": Here("BrokerError", "MESSAGE_TOO_LARGE, raised by `send`."),
        "UnknownTopicOrPartitionError": Here("UnknownTopic"),
        "TopicAlreadyExistsError": _LONE_ERROR,
        "UnsupportedCodecError": Here("SettingError"),
        "UnrecognizedBrokerVersion": Here("NotSupported"),
        "IncompatibleBrokerVersion": Here("NotSupported"),
    },
}
"""Exceptions by client library, by their names in its module of errors."""


_MISTAKES = {"topic": _TOPICS_FIRST}
"""Names that no client has, but that programs use by mistake."""


def find_method(kind: str, name: str) -> Here:
    """Return the equivalent of a method of another client, for a class of `ottla`.

    Of several clients with this method, the one with the same kind of class, blocking or asynchronous, is preferred.
    """
    plain = kind.removeprefix("Async")
    found = [(ours, METHODS[theirs][name]) for theirs, ours in CLASSES.items() if ours.endswith(plain) and name in METHODS[theirs]]
    return next((here for ours, here in found if ours == kind), found[0][1])


def find_setting(name: str) -> Here | None:
    """Return the equivalent of another client's setting, with dots or underscores in its name, or None for an unknown name."""
    plain = name.replace(".", "_")
    for names in (*SETTINGS.values(), _MISTAKES):
        for theirs, here in names.items():
            if theirs.replace(".", "_") == plain:
                return here
    return None
