"""The names of confluent-kafka, kafka-python and aiokafka, and their equivalents in Ottla's clients.

Errors about unknown settings name the equivalent, and `tools/moving_pages.py` writes the tables of docs/from-*.md. Settings whose
names differ by dots and underscores alone are not listed. The module is data, and imports nothing of Ottla.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Equivalent(NamedTuple):
    """The equivalent of another client's name: `name` in Ottla, or empty if there is none, and a `note` about the difference."""

    name: str = ""
    note: str = ""


CONFLUENT, KAFKA_PYTHON, AIOKAFKA = "confluent-kafka", "kafka-python", "aiokafka"

_SYSTEM = Equivalent(note="The operating system's default is used.")
_METRICS = Equivalent(note="`metrics()` of a client returns the metrics of Java's clients.")
_RETRIES = Equivalent(note="Records are retried for delivery_timeout_ms, calls for default_api_timeout_ms.")
_IDLE = Equivalent(note="Connections stay open until a broker closes them, and are opened again when needed.")
_PROXY = Equivalent(note="Connections use no proxy.")
_HOST = Equivalent(note="The principal's host is the host name of the broker.")
_TOPICS_FIRST = Equivalent(note="Topics come first: Consumer('flights', bootstrap_servers='host:9092').")
_LOOP = Equivalent(note="The running event loop is used.")
_OWN_BROKER = Equivalent(note="Tests start `ottla.Broker()`.")
_CONTEXT = Equivalent("ssl_context", "An `ssl.SSLContext` loads the list of revoked certificates.")
_ONE_STORE = Equivalent("ssl_keystore_location", "One PEM file with the private key and the certificates.")
_CIPHERS = Equivalent("ssl_cipher_suites")
_INTERNAL = Equivalent(note="A pattern never matches internal topics; subscribe to their names.")
_LAST_STEP = Equivalent("max_poll_interval_ms", "Also the time that a rebalance waits for this member.")
_TOKEN = Equivalent("sasl_oauthbearer_token_callback", "A function without arguments that returns the token.")
_READ_TIMEOUT = Equivalent(note="`records(timeout_ms=…)` ends after that time without a record.")

_COMMON_PYTHON: dict[str, Equivalent] = {
    "connections_max_idle_ms": _IDLE,
    "sasl_plain_username": Equivalent("sasl_username"),
    "sasl_plain_password": Equivalent("sasl_password"),
    "sasl_oauth_token_provider": _TOKEN,
    "sasl_kerberos_domain_name": _HOST,
}
"""The settings that kafka-python and aiokafka share."""

SETTINGS: Final[Mapping[str, Mapping[str, Equivalent]]] = {
    CONFLUENT: {
        "metadata.broker.list": Equivalent("bootstrap_servers"),
        "message.max.bytes": Equivalent("max_request_size"),
        "queue.buffering.max.ms": Equivalent("linger_ms"),
        "queue.buffering.max.kbytes": Equivalent(
            "buffer_memory", "In bytes. `send` waits while it is full, and raises no BufferError."
        ),
        "queue.buffering.max.messages": Equivalent("buffer_memory", "In bytes: records are not counted."),
        "batch.num.messages": Equivalent("batch_size", "In bytes: records are not counted."),
        "request.required.acks": Equivalent("acks"),
        "message.timeout.ms": Equivalent("delivery_timeout_ms"),
        "message.send.max.retries": _RETRIES,
        "retries": _RETRIES,
        "socket.timeout.ms": Equivalent("request_timeout_ms"),
        "socket.connection.setup.timeout.ms": Equivalent("request_timeout_ms"),
        "compression.codec": Equivalent("compression_type"),
        "compression.level": Equivalent(note="Each codec uses its default level."),
        "sticky.partitioning.linger.ms": Equivalent(note="Records without a key stay in a partition until its batch is complete."),
        "max.in.flight": Equivalent("max_in_flight_requests_per_connection"),
        "enable.gapless.guarantee": Equivalent(note="`flush` and the end of `with` raise DeliveryFailed if a record was lost."),
        "queuing.strategy": Equivalent(note="Records of a partition are sent in the order of `send`."),
        "dr_cb": Equivalent(note="`send(…, on_delivery=f)`."),
        "on_delivery": Equivalent(note="`send(…, on_delivery=f)`."),
        "delivery.report.only.error": Equivalent(note="`flush` and the end of `with` raise DeliveryFailed for failed records."),
        "fetch.wait.max.ms": Equivalent("fetch_max_wait_ms"),
        "fetch.message.max.bytes": Equivalent("max_partition_fetch_bytes"),
        "fetch.error.backoff.ms": Equivalent("retry_backoff_ms"),
        "fetch.queue.backoff.ms": Equivalent(
            "max_partition_fetch_bytes", "A partition is fetched again once its records are read."
        ),
        "queued.min.messages": Equivalent("max_partition_fetch_bytes", "A partition is fetched again once its records are read."),
        "queued.max.messages.kbytes": Equivalent("fetch_max_bytes", "In bytes."),
        "enable.partition.eof": Equivalent(note="`records(until=consumer.end_offsets(partitions))` ends there."),
        "group.protocol.type": Equivalent("group_protocol", "classic, consumer (KIP-848) or auto."),
        "coordinator.query.interval.ms": Equivalent("retry_backoff_ms"),
        "on_commit": Equivalent(note="`commit_soon(on_commit=f)`."),
        "error_cb": Equivalent(note="Calls raise errors, and the logger `ottla.client` reports lost connections."),
        "stats_cb": Equivalent("on_statistics", "A function of a snapshot with the names of Java's metrics, not of JSON."),
        "throttle_cb": _METRICS,
        "oauth_cb": _TOKEN,
        "logger": Equivalent(note="`logging.getLogger('ottla.client')`."),
        "log_level": Equivalent(note="`logging.getLogger('ottla.client').setLevel(…)`."),
        "debug": Equivalent(note="`logging.getLogger('ottla.client').setLevel(logging.DEBUG)`."),
        "log.connection.close": Equivalent(note="The logger `ottla.client` reports lost connections at INFO."),
        "topic.metadata.refresh.interval.ms": Equivalent("metadata_max_age_ms"),
        "topic.metadata.refresh.fast.interval.ms": Equivalent("retry_backoff_ms"),
        "topic.metadata.refresh.sparse": Equivalent(note="Only topics in use are refreshed."),
        "topic.metadata.propagation.max.ms": Equivalent("max_block_ms"),
        "default.topic.config": Equivalent(note="All settings are keyword arguments of the client."),
        "plugin.library.paths": Equivalent("interceptors", "Objects of Python."),
        "socket.max.fails": Equivalent(note="A request that times out ends its connection."),
        "topic.blacklist": Equivalent(note="A pattern can exclude topics."),
        "api.version.request": Equivalent("api_version", "Versions are requested, unless api_version is set."),
        "api.version.request.timeout.ms": Equivalent("request_timeout_ms"),
        "broker.version.fallback": Equivalent("api_version"),
        "broker.address.ttl": Equivalent(note="Names are resolved for each connection."),
        "broker.address.family": Equivalent(note="Addresses of both families are tried."),
        "client.dns.lookup": Equivalent(note="All addresses of a name are tried."),
        "socket.keepalive.enable": _SYSTEM,
        "socket.nagle.disable": Equivalent(note="Nagle's algorithm is always off."),
        "socket.send.buffer.bytes": _SYSTEM,
        "socket.receive.buffer.bytes": _SYSTEM,
        "connections.max.idle.ms": _IDLE,
        "receive.message.max.bytes": Equivalent("fetch_max_bytes"),
        "sasl.mechanisms": Equivalent("sasl_mechanism"),
        "sasl.kerberos.keytab": Equivalent("sasl_jaas_config", "The login module of Java, with `keyTab`."),
        "sasl.kerberos.kinit.cmd": Equivalent(note="Tickets come from `kinit`, or from a keytab in sasl_jaas_config."),
        "sasl.kerberos.min.time.before.relogin": Equivalent(note="A ticket is renewed when it is needed."),
        "sasl.oauthbearer.method": Equivalent("sasl_oauthbearer_token_endpoint_url", "With it, tokens come from an issuer."),
        "sasl.kerberos.principal": Equivalent("sasl_jaas_config", "The login module of Java, with `principal`."),
        "sasl.oauthbearer.config": _TOKEN,
        "sasl.oauthbearer.client.id": Equivalent("sasl_oauthbearer_client_credentials_client_id"),
        "sasl.oauthbearer.client.secret": Equivalent("sasl_oauthbearer_client_credentials_client_secret"),
        "ssl.ca.location": Equivalent("ssl_truststore_location", "PEM or PKCS#12; without it, the system's certificates."),
        "ssl.ca.pem": Equivalent("ssl_truststore_certificates"),
        "ssl.certificate.location": _ONE_STORE,
        "ssl.certificate.pem": Equivalent("ssl_keystore_certificate_chain"),
        "ssl.key.location": _ONE_STORE,
        "ssl.key.pem": Equivalent("ssl_keystore_key"),
        "ssl.crl.location": _CONTEXT,
        "enable.ssl.certificate.verification": Equivalent(
            "ssl_context", "Certificates are verified, unless an `ssl.SSLContext` does not."
        ),
    },
    KAFKA_PYTHON: _COMMON_PYTHON
    | {
        "retries": _RETRIES,
        "consumer_timeout_ms": _READ_TIMEOUT,
        "default_offset_commit_callback": Equivalent(note="`commit_soon(on_commit=f)`."),
        "enable_incremental_fetch_sessions": Equivalent(note="Each fetch names its partitions: sessions (KIP-227) are not used."),
        "exclude_internal_topics": _INTERNAL,
        "client_dns_lookup": Equivalent(note="All addresses of a name are tried."),
        "receive_message_max_bytes": Equivalent("fetch_max_bytes"),
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
        "ssl_cafile": Equivalent("ssl_truststore_location", "PEM or PKCS#12."),
        "ssl_certfile": _ONE_STORE,
        "ssl_keyfile": _ONE_STORE,
        "ssl_password": Equivalent("ssl_key_password"),
        "ssl_check_hostname": Equivalent("ssl_endpoint_identification_algorithm", "An empty string for False."),
        "ssl_ciphers": _CIPHERS,
        "ssl_crlfile": _CONTEXT,
    },
    AIOKAFKA: _COMMON_PYTHON
    | {
        "loop": _LOOP,
        "max_batch_size": Equivalent("batch_size"),
        "consumer_timeout_ms": _READ_TIMEOUT,
        "exclude_internal_topics": _INTERNAL,
        "rebalance_timeout_ms": _LAST_STEP,
        "topics": _TOPICS_FIRST,
    },
}
"""Settings by client library, in the library's own spelling."""

_CALLS_DIRECTLY = Equivalent(note="Not needed: clients read the responses of brokers by themselves.")
_PASSWORD = Equivalent(note="Close the client, and create another one with the new password.")
_CLUSTER_ID = Equivalent(note="`Admin.describe_cluster().cluster_id`.")
_TOPIC_LIST = Equivalent("partitions_for", "Of one topic; `Admin.list_topics` lists all.")
_OWN_BATCH = Equivalent("send_values", "Values alone; `send_table` sends columns of keys, values and headers.")

METHODS: Final[Mapping[str, Mapping[str, Equivalent]]] = {
    "confluent_kafka.Producer": {
        "produce": Equivalent("send", "Waits while `buffer_memory` is full, and returns a `Delivery`."),
        "produce_batch": _OWN_BATCH,
        "poll": Equivalent("poll", "In ms, and only needed for callbacks."),
        "flush": Equivalent("flush", "In ms; raises FlushTimedOut with the records left, and DeliveryFailed."),
        "purge": Equivalent("purge", "Drops records that were not sent yet, and returns their number."),
        "list_topics": _TOPIC_LIST,
        "cluster_id": _CLUSTER_ID,
        "init_transactions": Equivalent("init_transactions"),
        "begin_transaction": Equivalent("begin_transaction"),
        "commit_transaction": Equivalent("commit_transaction"),
        "abort_transaction": Equivalent("abort_transaction"),
        "send_offsets_to_transaction": Equivalent("send_offsets", "Pass `consumer.positions()` and the consumer."),
        "set_sasl_credentials": _PASSWORD,
        "close": Equivalent("close"),
    },
    "confluent_kafka.Consumer": {
        "subscribe": Equivalent(
            "subscribe", "`subscribe(*topics)` or `subscribe(pattern=…)`; listeners are given to the constructor."
        ),
        "unsubscribe": Equivalent("unsubscribe"),
        "poll": Equivalent("poll", "Returns a list, perhaps empty; iterate over the consumer for one record after the other."),
        "consume": Equivalent("poll", "`poll(timeout_ms, max_records)`."),
        "commit": Equivalent("commit", "Waits for the broker, as with asynchronous=False; `commit_soon` does not."),
        "store_offsets": Equivalent(
            "store_offsets", "Offsets are stored by partition: `store_offsets({(topic, partition): offset})`."
        ),
        "committed": Equivalent("committed", "Of one partition; None without an offset."),
        "position": Equivalent("position", "Of one partition; `positions` returns all."),
        "assign": Equivalent("assign", "Offsets are set by `seek`."),
        "unassign": Equivalent("unsubscribe"),
        "assignment": Equivalent("assignment", "A set."),
        "incremental_assign": Equivalent("incremental_assign"),
        "incremental_unassign": Equivalent("incremental_unassign"),
        "pause": Equivalent("pause", "`pause(*partitions)`."),
        "resume": Equivalent("resume", "`resume(*partitions)`."),
        "seek": Equivalent("seek", "`seek(partition, offset)`."),
        "offsets_for_times": Equivalent(
            "offsets_for_times", "Maps partitions to times; offset -1 means that no record is that recent."
        ),
        "get_watermark_offsets": Equivalent("end_offsets", "And `beginning_offsets`, of several partitions."),
        "consumer_group_metadata": Equivalent("group_metadata", "`send_offsets` also takes the consumer itself."),
        "memberid": Equivalent("group_metadata", "Its `member_id`."),
        "list_topics": _TOPIC_LIST,
        "cluster_id": _CLUSTER_ID,
        "set_sasl_credentials": _PASSWORD,
        "close": Equivalent("close"),
    },
    "confluent_kafka.admin.AdminClient": {
        "create_topics": Equivalent("create_topics"),
        "delete_topics": Equivalent("delete_topics"),
        "create_partitions": Equivalent("create_partitions", "Maps topics to numbers of partitions."),
        "list_topics": Equivalent("list_topics", "Names; `describe_topics` returns partitions."),
        "describe_topics": Equivalent("describe_topics"),
        "describe_cluster": Equivalent("describe_cluster"),
        "cluster_id": Equivalent("describe_cluster", "Its `cluster_id`."),
        "describe_configs": Equivalent("describe_configs"),
        "alter_configs": Equivalent("alter_configs", "Changes single settings alone."),
        "incremental_alter_configs": Equivalent("alter_configs"),
        "create_acls": Equivalent("create_acls"),
        "delete_acls": Equivalent("delete_acls"),
        "describe_acls": Equivalent("list_acls"),
        "list_groups": Equivalent("list_groups"),
        "list_consumer_groups": Equivalent("list_groups"),
        "describe_consumer_groups": Equivalent("describe_groups"),
        "delete_consumer_groups": Equivalent("delete_groups"),
        "list_consumer_group_offsets": Equivalent("list_group_offsets"),
        "alter_consumer_group_offsets": Equivalent("alter_group_offsets"),
        "list_offsets": Equivalent("list_offsets"),
        "delete_records": Equivalent("delete_records"),
        "elect_leaders": Equivalent("elect_leaders"),
        "describe_user_scram_credentials": Equivalent("list_users"),
        "alter_user_scram_credentials": Equivalent("set_user_password", "And `remove_user`."),
        "poll": _CALLS_DIRECTLY,
        "set_sasl_credentials": _PASSWORD,
    },
    "kafka.KafkaProducer": {
        "send": Equivalent("send", "Key and partition are keywords; headers may be of any iterable of pairs."),
        "flush": Equivalent("flush", "In ms; raises FlushTimedOut, and DeliveryFailed for records that were lost."),
        "close": Equivalent("close", "In ms."),
        "partitions_for": Equivalent("partitions_for", "A list of `TopicPartition`."),
        "init_transactions": Equivalent("init_transactions"),
        "begin_transaction": Equivalent("begin_transaction"),
        "commit_transaction": Equivalent("commit_transaction"),
        "abort_transaction": Equivalent("abort_transaction"),
        "send_offsets_to_transaction": Equivalent("send_offsets", "Pass `consumer.positions()` and the consumer."),
        "bootstrap_connected": Equivalent("partitions_for", "Raises if no broker is reached."),
        "max_usable_produce_magic": _CALLS_DIRECTLY,
        "metrics": Equivalent("metrics"),
    },
    "kafka.KafkaConsumer": {
        "subscribe": Equivalent(
            "subscribe", "`subscribe(*topics)` or `subscribe(pattern=…)`; listeners are given to the constructor."
        ),
        "unsubscribe": Equivalent("unsubscribe"),
        "subscription": Equivalent("subscription"),
        "poll": Equivalent("poll", "Returns a list of records, not a dict by partition."),
        "commit": Equivalent("commit", "Offsets may be integers."),
        "commit_async": Equivalent("commit_soon", "`commit_soon(offsets, on_commit=f)`."),
        "committed": Equivalent("committed", "An `OffsetAndMetadata`, or None."),
        "position": Equivalent("position"),
        "highwater": Equivalent("current_lag", "Or `end_offsets`."),
        "assign": Equivalent("assign"),
        "assignment": Equivalent("assignment"),
        "pause": Equivalent("pause"),
        "resume": Equivalent("resume"),
        "paused": Equivalent("paused"),
        "seek": Equivalent("seek"),
        "seek_to_beginning": Equivalent("seek_to_beginning"),
        "seek_to_end": Equivalent("seek_to_end"),
        "beginning_offsets": Equivalent("beginning_offsets"),
        "end_offsets": Equivalent("end_offsets"),
        "offsets_for_times": Equivalent("offsets_for_times", "Offset -1, not None, if no record is that recent."),
        "partitions_for_topic": Equivalent("partitions_for", "A list of `TopicPartition`; raises UnknownTopic."),
        "topics": Equivalent(note="`Admin.list_topics()`."),
        "group_metadata": Equivalent("group_metadata", "`send_offsets` also takes the consumer itself."),
        "bootstrap": Equivalent("partitions_for", "Raises if no broker is reached."),
        "bootstrap_connected": Equivalent("partitions_for", "Raises if no broker is reached."),
        "metrics": Equivalent("metrics"),
        "close": Equivalent("close"),
    },
    "kafka.KafkaAdminClient": {
        "create_topics": Equivalent("create_topics"),
        "delete_topics": Equivalent("delete_topics"),
        "create_partitions": Equivalent("create_partitions", "Maps topics to numbers of partitions."),
        "list_topics": Equivalent("list_topics"),
        "describe_topics": Equivalent("describe_topics"),
        "wait_for_topics": Equivalent("describe_topics", "Raises UnknownTopic until a topic exists."),
        "describe_topic_partitions": Equivalent("describe_topics"),
        "describe_cluster": Equivalent("describe_cluster"),
        "api_versions": Equivalent("supports_api"),
        "get_broker_version_data": Equivalent("supports_api"),
        "describe_configs": Equivalent("describe_configs"),
        "alter_configs": Equivalent("alter_configs", "Changes single settings alone."),
        "reset_configs": Equivalent("alter_configs", "`delete=[…]`."),
        "list_config_resources": Equivalent("list_config_resources"),
        "create_acls": Equivalent("create_acls"),
        "delete_acls": Equivalent("delete_acls"),
        "describe_acls": Equivalent("list_acls"),
        "list_groups": Equivalent("list_groups"),
        "describe_groups": Equivalent("describe_groups"),
        "delete_groups": Equivalent("delete_groups"),
        "list_group_offsets": Equivalent("list_group_offsets", "`list_offsets_of_groups` for several."),
        "alter_group_offsets": Equivalent("alter_group_offsets"),
        "reset_group_offsets": Equivalent("alter_group_offsets", "With offsets of `list_offsets`."),
        "delete_group_offsets": Equivalent("delete_group_offsets"),
        "remove_group_members": Equivalent("remove_members"),
        "list_partition_offsets": Equivalent("list_offsets"),
        "delete_records": Equivalent("delete_records"),
        "elect_leaders": Equivalent("elect_leaders"),
        "describe_log_dirs": Equivalent("describe_log_dirs"),
        "alter_replica_log_dirs": Equivalent("alter_replica_log_dirs"),
        "alter_partition_reassignments": Equivalent("alter_partition_reassignments"),
        "list_partition_reassignments": Equivalent("list_partition_reassignments"),
        "describe_metadata_quorum": Equivalent("describe_quorum"),
        "describe_features": Equivalent("describe_features"),
        "update_features": Equivalent("update_features"),
        "describe_user_scram_credentials": Equivalent("list_users"),
        "alter_user_scram_credentials": Equivalent("set_user_password", "And `remove_user`."),
        "list_transactions": Equivalent("list_transactions"),
        "describe_transactions": Equivalent("describe_transactions"),
        "describe_producers": Equivalent("describe_producers"),
        "find_hanging_transactions": Equivalent("find_hanging_transactions"),
        "abort_transaction": Equivalent("abort_transaction"),
        "close": Equivalent("close"),
    },
    "aiokafka.AIOKafkaProducer": {
        "start": Equivalent("start", "Or `async with`."),
        "stop": Equivalent("close", "Or `async with`."),
        "send": Equivalent("send", "`await` of the returned `Delivery` waits for the broker."),
        "send_and_wait": Equivalent("send", "`await (await producer.send(…))`."),
        "create_batch": _OWN_BATCH,
        "send_batch": _OWN_BATCH,
        "flush": Equivalent("flush"),
        "partitions_for": Equivalent("partitions_for", "A list of `TopicPartition`."),
        "begin_transaction": Equivalent("begin_transaction"),
        "commit_transaction": Equivalent("commit_transaction"),
        "abort_transaction": Equivalent("abort_transaction"),
        "transaction": Equivalent("transaction"),
        "send_offsets_to_transaction": Equivalent("send_offsets", "Pass `consumer.positions()` and the consumer."),
    },
    "aiokafka.AIOKafkaConsumer": {
        "start": Equivalent("start", "Or `async with`."),
        "stop": Equivalent("close", "Or `async with`."),
        "subscribe": Equivalent("subscribe", "A coroutine; listeners are given to the constructor."),
        "unsubscribe": Equivalent("unsubscribe", "A coroutine."),
        "subscription": Equivalent("subscription"),
        "getone": Equivalent("poll", "`poll(timeout_ms, 1)`, or `async for`."),
        "getmany": Equivalent("poll", "Returns a list of records, not a dict by partition."),
        "commit": Equivalent("commit", "Offsets may be integers."),
        "committed": Equivalent("committed", "An `OffsetAndMetadata`, or None."),
        "position": Equivalent("position"),
        "highwater": Equivalent("current_lag", "Or `end_offsets`."),
        "last_stable_offset": Equivalent("current_lag", "With read_committed; or `end_offsets`."),
        "last_poll_timestamp": Equivalent("metrics", "`last-poll-seconds-ago`."),
        "assign": Equivalent("assign", "A coroutine."),
        "assignment": Equivalent("assignment"),
        "pause": Equivalent("pause"),
        "resume": Equivalent("resume"),
        "paused": Equivalent("paused"),
        "seek": Equivalent("seek"),
        "seek_to_beginning": Equivalent("seek_to_beginning", "No coroutine."),
        "seek_to_end": Equivalent("seek_to_end", "No coroutine."),
        "seek_to_committed": Equivalent("seek_to_committed"),
        "beginning_offsets": Equivalent("beginning_offsets"),
        "end_offsets": Equivalent("end_offsets"),
        "offsets_for_times": Equivalent("offsets_for_times", "Offset -1, not None, if no record is that recent."),
        "partitions_for_topic": Equivalent("partitions_for", "A coroutine, which raises UnknownTopic."),
        "topics": Equivalent(note="`AsyncAdmin.list_topics()`."),
    },
    "aiokafka.admin.AIOKafkaAdminClient": {
        "start": Equivalent("start", "Or `async with`."),
        "close": Equivalent("close", "Or `async with`."),
        "create_topics": Equivalent("create_topics"),
        "delete_topics": Equivalent("delete_topics"),
        "create_partitions": Equivalent("create_partitions", "Maps topics to numbers of partitions."),
        "list_topics": Equivalent("list_topics"),
        "describe_topics": Equivalent("describe_topics"),
        "describe_cluster": Equivalent("describe_cluster"),
        "describe_configs": Equivalent("describe_configs"),
        "alter_configs": Equivalent("alter_configs", "Changes single settings alone."),
        "list_consumer_groups": Equivalent("list_groups"),
        "describe_consumer_groups": Equivalent("describe_groups"),
        "list_consumer_group_offsets": Equivalent("list_group_offsets"),
        "find_coordinator": Equivalent("describe_group", "Its `coordinator_id`."),
        "delete_records": Equivalent("delete_records"),
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

_ARGUMENT = Equivalent("SettingError", "A wrong type raises TypeError.")
_ORDER = Equivalent("TransactionError", "For calls of a transaction in the wrong order.")
_LONE_ERROR = Equivalent("BrokerError", "`error.name` is Kafka's name of the code.")

ERRORS: Final[Mapping[str, Mapping[str, Equivalent]]] = {
    CONFLUENT: {
        "KafkaException": Equivalent("KafkaError", "Its `code`, `retriable`; there is no error object in `args`."),
        "KafkaError._MSG_TIMED_OUT": Equivalent("TimedOut"),
        "KafkaError._TIMED_OUT": Equivalent("TimedOut"),
        "KafkaError._TIMED_OUT_QUEUE": Equivalent("TimedOut"),
        "KafkaError._TRANSPORT": Equivalent("ConnectionFailed"),
        "KafkaError._ALL_BROKERS_DOWN": Equivalent("ConnectionFailed"),
        "KafkaError._RESOLVE": Equivalent("ConnectionFailed"),
        "KafkaError._AUTHENTICATION": Equivalent("AuthenticationFailed"),
        "KafkaError._SSL": Equivalent("AuthenticationFailed"),
        "KafkaError._QUEUE_FULL": Equivalent("TimedOut", "After `max_block_ms`: `send` waits for memory first."),
        "KafkaError._PARTITION_EOF": Equivalent(note="`records(until=…)` ends at these offsets."),
        "KafkaError._UNKNOWN_TOPIC": Equivalent("UnknownTopic"),
        "KafkaError._UNKNOWN_PARTITION": Equivalent("UnknownTopic"),
        "KafkaError._AUTO_OFFSET_RESET": Equivalent("OffsetOutOfRange"),
        "KafkaError._MAX_POLL_EXCEEDED": Equivalent("CommitFailed", "Of the next commit; the next poll joins the group again."),
        "KafkaError._ASSIGNMENT_LOST": Equivalent("CommitFailed"),
        "KafkaError._FENCED": Equivalent("ProducerFenced"),
        "KafkaError._FATAL": Equivalent("TransactionFailed"),
        "KafkaError._PURGE_QUEUE": Equivalent("Purged"),
        "KafkaError._STATE": _ORDER,
        "KafkaError._UNSUPPORTED_FEATURE": Equivalent("NotSupported"),
        "KafkaError._INVALID_ARG": _ARGUMENT,
        "KafkaError._NO_OFFSET": Equivalent(note="`commit` without positions commits nothing, and returns."),
        "KafkaError.TOPIC_ALREADY_EXISTS": _LONE_ERROR,
        "KafkaError._KEY_SERIALIZATION": Equivalent("SerializationFailed", "Its `field` is key."),
        "KafkaError._VALUE_SERIALIZATION": Equivalent("SerializationFailed", "Its `field` is value."),
        "KafkaError._KEY_DESERIALIZATION": Equivalent("DeserializationFailed", "Its `field` is key."),
        "KafkaError._VALUE_DESERIALIZATION": Equivalent("DeserializationFailed", "Its `field` is value."),
    },
    KAFKA_PYTHON: {
        "KafkaError": Equivalent("KafkaError"),
        "KafkaTimeoutError": Equivalent("TimedOut"),
        "KafkaConnectionError": Equivalent("ConnectionFailed"),
        "NodeNotReadyError": Equivalent("ConnectionFailed"),
        "SaslAuthenticationFailedError": Equivalent("AuthenticationFailed"),
        "KafkaConfigurationError": Equivalent("SettingError"),
        "IllegalArgumentError": _ARGUMENT,
        "IllegalStateError": _ORDER,
        "CommitFailedError": Equivalent("CommitFailed"),
        "NoOffsetForPartitionError": Equivalent(
            "OffsetOutOfRange", "With auto_offset_reset='none'; without a commit a KafkaError."
        ),
        "OffsetOutOfRangeError": Equivalent("OffsetOutOfRange"),
        "UnknownTopicOrPartitionError": Equivalent("UnknownTopic"),
        "TopicAlreadyExistsError": _LONE_ERROR,
        "MessageSizeTooLargeError": Equivalent("BrokerError", "MESSAGE_TOO_LARGE, raised by `send`."),
        "UnsupportedCodecError": Equivalent("SettingError"),
        "UnrecognizedBrokerVersion": Equivalent("NotSupported"),
        "IncompatibleBrokerVersion": Equivalent("NotSupported"),
        "ProducerFencedError": Equivalent("ProducerFenced"),
        "TransactionAbortedError": Equivalent("TransactionAbortable"),
        "Cancelled": Equivalent("Closed"),
    },
    AIOKAFKA: {
        "KafkaError": Equivalent("KafkaError"),
        "KafkaTimeoutError": Equivalent("TimedOut"),
        "KafkaConnectionError": Equivalent("ConnectionFailed"),
        "NodeNotReadyError": Equivalent("ConnectionFailed"),
        "AuthenticationFailedError": Equivalent("AuthenticationFailed"),
        "KafkaConfigurationError": Equivalent("SettingError"),
        "IllegalArgumentError": _ARGUMENT,
        "IllegalStateError": _ORDER,
        "IllegalOperation": _ORDER,
        "CommitFailedError": Equivalent("CommitFailed"),
        "ConsumerStoppedError": Equivalent("Closed"),
        "ProducerClosed": Equivalent("Closed"),
        "ProducerFenced": Equivalent("ProducerFenced"),
        "OutOfOrderSequenceNumber": Equivalent("DeliveryFailed", "Its cause."),
        "NoOffsetForPartitionError": Equivalent(
            "OffsetOutOfRange", "With auto_offset_reset='none'; without a commit a KafkaError."
        ),
        "OffsetOutOfRangeError": Equivalent("OffsetOutOfRange"),
        "RecordTooLargeError": Equivalent("BrokerError", "One record that exceeds `max_partition_fetch_bytes` is read."),
        "MessageSizeTooLargeError": Equivalent("BrokerError", "MESSAGE_TOO_LARGE, raised by `send`."),
        "UnknownTopicOrPartitionError": Equivalent("UnknownTopic"),
        "TopicAlreadyExistsError": _LONE_ERROR,
        "UnsupportedCodecError": Equivalent("SettingError"),
        "UnrecognizedBrokerVersion": Equivalent("NotSupported"),
        "IncompatibleBrokerVersion": Equivalent("NotSupported"),
    },
}
"""Exceptions by client library, by their names in its module of errors."""


_MISTAKES = {"topic": _TOPICS_FIRST}
"""Names that no client has, but that programs use by mistake."""


def find_method(kind: str, name: str) -> Equivalent:
    """Return the equivalent of a method of another client, for a class of `ottla`.

    Of several clients with this method, the one with the same kind of class, blocking or asynchronous, is preferred.
    """
    plain = kind.removeprefix("Async")
    found = [(ours, METHODS[theirs][name]) for theirs, ours in CLASSES.items() if ours.endswith(plain) and name in METHODS[theirs]]
    return next((here for ours, here in found if ours == kind), found[0][1])


def find_setting(name: str) -> Equivalent | None:
    """Return the equivalent of another client's setting, with dots or underscores in its name, or None for an unknown name."""
    plain = name.replace(".", "_")
    for names in (*SETTINGS.values(), _MISTAKES):
        for theirs, here in names.items():
            if theirs.replace(".", "_") == plain:
                return here
    return None
