"""The `kafka.*` options of a job: names, effects, and replacements. Pure.

A setting of Kafka's clients that has no effect here is accepted and logged once, so that jobs can move to Ottla unchanged. A
setting that would have to change the job's behaviour, and does not here, is an error.
"""

from __future__ import annotations

import difflib
import logging
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ottla.client.errors import SettingError
from ottla.client.settings.clients import ACKS, COMPRESSIONS, ConsumerSettings, ProducerSettings, parse
from ottla.client.settings.properties import names_of, values_of
from ottla.client.settings.security import SecureSettings
from ottla.spark.errors import OptionError
from ottla.spark.texts import integer, one_of

logger = logging.getLogger("ottla.spark")

SOURCE, SINK = "source", "sink"
Parsed = TypeVar("Parsed", ConsumerSettings, ProducerSettings)

REQUEST_TIMEOUT_MS = 30_000
MAX_PARTITION_FETCH_BYTES = 4 * 1024 * 1024
BATCH_SIZE = 1_000_000
"""The size of a batch in bytes. It is larger than a client's default, because a task writes many records at once."""

SECURED = set(names_of(SecureSettings))
"""The security settings, which apply to the connections of the driver and of executors."""
USED = {
    SOURCE: SECURED | {
        "bootstrap.servers", "client.id", "fetch.max.bytes", "fetch.max.wait.ms", "group.id", "isolation.level",
        "max.partition.fetch.bytes", "request.timeout.ms",
    },
    SINK: SECURED | {
        "acks", "batch.size", "bootstrap.servers", "client.id", "compression.type", "delivery.timeout.ms", "enable.idempotence",
        "max.request.size", "request.timeout.ms",
    },
}  # fmt: skip
"""The settings of Kafka's clients that have the same effect here, for the source and the sink."""
WITHOUT_EFFECT = {
    "allow.auto.create.topics", "api.version.request", "auto.commit.interval.ms", "auto.include.jmx.reporter", "buffer.memory",
    "check.crcs", "client.dns.lookup", "client.rack", "compression.gzip.level", "compression.lz4.level", "compression.zstd.level",
    "connections.max.idle.ms", "default.api.timeout.ms", "enable.metrics.push", "exclude.internal.topics", "fetch.min.bytes",
    "group.instance.id", "group.protocol", "group.remote.assignor", "heartbeat.interval.ms", "linger.ms", "max.block.ms",
    "max.in.flight.requests.per.connection", "max.poll.interval.ms", "max.poll.records", "metadata.max.age.ms",
    "metadata.max.idle.ms", "metadata.recovery.rebootstrap.trigger.ms", "metadata.recovery.strategy", "metric.reporters",
    "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms", "partition.assignment.strategy",
    "partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms", "receive.buffer.bytes",
    "reconnect.backoff.max.ms", "reconnect.backoff.ms", "retries", "retry.backoff.max.ms", "retry.backoff.ms",
    "sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin", "sasl.kerberos.ticket.renew.jitter",
    "sasl.kerberos.ticket.renew.window.factor", "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms",
    "sasl.login.refresh.buffer.seconds", "sasl.login.refresh.min.period.seconds", "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter", "sasl.login.retry.backoff.max.ms", "sasl.login.retry.backoff.ms", "send.buffer.bytes",
    "session.timeout.ms", "socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms",
    "ssl.keymanager.algorithm", "ssl.protocol", "ssl.provider", "ssl.secure.random.implementation", "ssl.trustmanager.algorithm",
    "transaction.timeout.ms", "transaction.two.phase.commit.enable",
}  # fmt: skip
"""The settings that have no effect here. They only change how a client waits, measures or divides its work."""
_CAST = "keys and values arrive as binary; cast them in the query, such as col('value').cast('string')"
_GIVEN = "the sink takes binary or string columns; cast or encode them in the query"
_TRANSFORM = "transform the records in the query"
_PARTITION = "give a column named partition"
_JAVA = "it names a class of Java, and there is none here: leave it out"
LOGIN_CALLBACK = "sasl.login.callback.handler.class"
_PACKAGE = "org.apache.kafka.common.security.oauthbearer"
OWN_CALLBACKS = {f"{_PACKAGE}.OAuthBearerLoginCallbackHandler", f"{_PACKAGE}.secured.OAuthBearerLoginCallbackHandler"}
"""Kafka's classes that request tokens from an issuer. OAUTHBEARER with a URL does this here (KIP-768)."""
_CLASSES = dict.fromkeys(
    (
        "sasl.client.callback.handler.class",
        LOGIN_CALLBACK,
        "sasl.login.class",
        "security.providers",
        "ssl.engine.factory.class",
    ),
    _JAVA,
)
REJECTED = {
    SOURCE: {
        **_CLASSES,
        "auto.offset.reset": "use option startingOffsets",
        "key.deserializer": _CAST,
        "value.deserializer": _CAST,
        "enable.auto.commit": "Spark keeps the offsets in the query's checkpoint",
        "interceptor.classes": _TRANSFORM,
        "config.providers": "give the values themselves",
    },
    SINK: {
        **_CLASSES,
        "key.serializer": _GIVEN,
        "value.serializer": _GIVEN,
        "interceptor.classes": _TRANSFORM,
        "transactional.id": "the sink names its own",
        "partitioner.class": _PARTITION,
        "partitioner.ignore.keys": _PARTITION,
        "config.providers": "give the values themselves",
    },
}
"""The settings that would change a job's behaviour and are not supported, with what to do instead."""
_KNOWN = USED[SOURCE] | USED[SINK] | WITHOUT_EFFECT | REJECTED[SOURCE].keys() | REJECTED[SINK].keys()


def is_kafka_option(name: str) -> bool:
    """Return whether Kafka's clients have a setting of this name."""
    return name in _KNOWN


def _is_own_callback(name: str, text: str) -> bool:
    return name == LOGIN_CALLBACK and text.strip() in OWN_CALLBACKS


def _check_name(name: str, text: str, side: str) -> None:
    if name in REJECTED[side] and not _is_own_callback(name, text):
        raise OptionError(f"Option kafka.{name} is not for a {side}: {REJECTED[side][name]}.")
    if name not in _KNOWN:
        close = difflib.get_close_matches(name, sorted(_KNOWN), n=1, cutoff=0.5)
        hint = f"did you mean kafka.{close[0]}?" if close else "see the settings of Kafka's consumer and producer."
        raise OptionError(f"There is no client setting kafka.{name}; {hint}")


Value = str | int | bool


def _strip(name: str, text: str) -> str:
    return text.strip()


_READ: dict[str, Callable[[str, str], Value]] = {
    "bootstrap.servers": _strip,
    "client.id": _strip,
    "isolation.level": lambda name, text: one_of(name, text, "read_uncommitted", "read_committed"),
    "acks": lambda name, text: one_of(name, text, *ACKS),
    "compression.type": lambda name, text: one_of(name, text, *COMPRESSIONS),
    "enable.idempotence": lambda name, text: one_of(name, text, "true", "false") == "true",
}
"""The parser of each option's text. Options that are not here are numbers."""


def _values(options: Mapping[str, str], side: str, client_id: str) -> dict[str, Value]:
    """Return a client's keyword arguments. The timeout of a call is the timeout of one request. Raises `OptionError`."""
    for name, text in options.items():
        _check_name(name, text, side)
    if not options.get("bootstrap.servers", "").strip():
        raise OptionError("Option kafka.bootstrap.servers is missing: give it as host:port, several separated by commas.")
    used = USED[side]
    unused = sorted(name for name in options if name not in used and name != LOGIN_CALLBACK)
    if unused:
        logger.warning(
            "these settings have no effect on the %s and are ignored: %s", side, ", ".join(f"kafka.{name}" for name in unused)
        )
    plain = {name: text for name, text in options.items() if name in used - {"group.id"} - SECURED}
    values = {name: _READ.get(name, integer)(f"kafka.{name}", text) for name, text in plain.items()}
    named = {name.replace(".", "_"): value for name, value in values.items()}
    named.setdefault("client_id", client_id)
    named.setdefault("request_timeout_ms", REQUEST_TIMEOUT_MS)
    return {**named, **security(options), "default_api_timeout_ms": named["request_timeout_ms"]}


def security(options: Mapping[str, str]) -> dict[str, Any]:
    """Return a client's security settings, as keyword arguments, from options whose prefix `kafka.` was removed.

    Raises `OptionError`.
    """
    given = {
        name: text.strip().upper() if name == "security.protocol" else text for name, text in options.items() if name in SECURED
    }
    try:
        return values_of(SecureSettings, given)
    except SettingError as error:
        raise OptionError(name_options(str(error))) from None


def security_of(options: Mapping[str, str]) -> dict[str, str]:
    """Return the security options of a job, with the prefix `kafka.`."""
    return {name: text for name, text in options.items() if name.lower().removeprefix("kafka.") in SECURED}


def security_settings(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the security settings of a job's options as keyword arguments for another client. Raises `OptionError`."""
    return security({name.lower().removeprefix("kafka."): text for name, text in security_of(options).items()})


def name_options(sentence: str) -> str:
    """Return a sentence about client settings in which the names of options replace the names of settings."""
    return re.sub(r"\b(security|ssl|sasl)_[a-z_]+", lambda name: "kafka." + name[0].replace("_", "."), sentence)


def _parse(kind: type[Parsed], values: Mapping[str, object]) -> Parsed:
    try:
        return parse(kind, values)
    except SettingError as error:
        raise OptionError(name_options(str(error))) from None


def consumer_settings(options: Mapping[str, str], *, group_id_prefix: str | None = None) -> ConsumerSettings:
    """Parse the `kafka.*` options of a source, whose prefix was removed. Raises `OptionError`."""
    values = _values(options, SOURCE, options.get("group.id") or group_id_prefix or "ottla-spark-source")
    return _parse(ConsumerSettings, {"max_partition_fetch_bytes": MAX_PARTITION_FETCH_BYTES, **values})


def producer_settings(options: Mapping[str, str]) -> ProducerSettings:
    """Parse the `kafka.*` options of a sink, whose prefix was removed. Raises `OptionError`."""
    values = _values(options, SINK, "ottla-spark-sink")
    # Idempotence needs acks=all. With fewer acks it is off, even if an option requests it.
    wanted = values.pop("enable_idempotence", True) and ACKS[str(values.get("acks", "all"))] == -1
    batch_size = min(int(values.pop("batch_size", BATCH_SIZE)), int(values.get("max_request_size", sys.maxsize)))
    return _parse(ProducerSettings, {**values, "batch_size": batch_size, "enable_idempotence": wanted})
