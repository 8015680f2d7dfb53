"""The `kafka.*` options of a job: which there are, what they mean here, and which have another name in Spark.

An option that Kafka's clients know but that has no effect here is accepted and logged once, so that a job can move over
unchanged. One that would change what the job does, and cannot, is an error. Pure.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Mapping

from ottla.client.settings import ACKS, COMPRESSIONS, ConsumerSettings, ProducerSettings, parse
from ottla.spark.errors import OptionError

logger = logging.getLogger("ottla.spark")

SOURCE, SINK = "source", "sink"

REQUEST_TIMEOUT_MS = 30_000
MAX_PARTITION_FETCH_BYTES = 4 * 1024 * 1024
BATCH_SIZE = 1_000_000
"""Sizes larger than a client's defaults: a task reads or writes much at once."""

_BOTH = {"bootstrap.servers", "client.id", "request.timeout.ms", "security.protocol", "group.id"}
_CONSUMER = {"isolation.level", "fetch.max.bytes", "max.partition.fetch.bytes", "fetch.max.wait.ms"}
_PRODUCER = {"acks", "compression.type", "batch.size", "max.request.size", "delivery.timeout.ms", "enable.idempotence"}
_WITHOUT_EFFECT = {
    "api.version.request", "allow.auto.create.topics", "buffer.memory", "check.crcs", "client.dns.lookup", "client.rack",
    "connections.max.idle.ms", "default.api.timeout.ms", "enable.metrics.push", "fetch.min.bytes", "heartbeat.interval.ms",
    "linger.ms", "max.block.ms", "max.in.flight.requests.per.connection", "max.poll.interval.ms", "max.poll.records",
    "metadata.max.age.ms", "metadata.max.idle.ms", "metric.reporters", "metrics.num.samples", "metrics.recording.level",
    "metrics.sample.window.ms", "partition.assignment.strategy", "receive.buffer.bytes", "reconnect.backoff.max.ms",
    "reconnect.backoff.ms", "retries", "retry.backoff.max.ms", "retry.backoff.ms", "send.buffer.bytes", "session.timeout.ms",
    "socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms", "group.instance.id",
}  # fmt: skip
_CAST = "keys and values arrive as binary; cast them in the query, such as col('value').cast('string')"
_GIVEN = "the sink takes binary or string columns; cast or encode them in the query"
REJECTED = {
    SOURCE: {
        "auto.offset.reset": "use option startingOffsets",
        "key.deserializer": _CAST,
        "value.deserializer": _CAST,
        "enable.auto.commit": "Spark keeps the offsets in the query's checkpoint",
        "interceptor.classes": "transform the records in the query",
    },
    SINK: {
        "key.serializer": _GIVEN,
        "value.serializer": _GIVEN,
        "interceptor.classes": "transform the records in the query",
        "transactional.id": "the sink names its own",
        "partitioner.class": "give a column named partition",
    },
}
_KNOWN = _BOTH | _CONSUMER | _PRODUCER | _WITHOUT_EFFECT | REJECTED[SOURCE].keys() | REJECTED[SINK].keys()
_SECURITY = ("ssl.", "sasl.")


def is_kafka_option(name: str) -> bool:
    """Whether Kafka's clients have a setting of this name."""
    return name in _KNOWN or name.startswith(_SECURITY)


def _number(name: str, text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise OptionError(f"Option kafka.{name} must be a whole number above 0, not {text!r}.")
    return int(text)


def _one_of(name: str, text: str, *words: str) -> str:
    if text.strip().lower() not in words:
        raise OptionError(f"Option kafka.{name} must be one of {', '.join(words)}, not {text!r}.")
    return text.strip().lower()


def _check_name(name: str, side: str) -> None:
    if name in REJECTED[side]:
        raise OptionError(f"Option kafka.{name} is not for a {side}: {REJECTED[side][name]}.")
    if name.startswith(_SECURITY):
        raise OptionError(f"Option kafka.{name}: TLS and SASL are not there yet; use a PLAINTEXT listener and leave it out.")
    if name not in _KNOWN:
        close = difflib.get_close_matches(name, sorted(_KNOWN), n=1, cutoff=0.5)
        hint = f"did you mean kafka.{close[0]}?" if close else "see the settings of Kafka's consumer and producer."
        raise OptionError(f"There is no client setting kafka.{name}; {hint}")


Value = str | int | bool


def _stripped(name: str, text: str) -> str:
    return text.strip()


_READ: dict[str, Callable[[str, str], Value]] = {
    "bootstrap.servers": _stripped,
    "client.id": _stripped,
    "isolation.level": lambda name, text: _one_of(name, text, "read_uncommitted", "read_committed"),
    "acks": lambda name, text: _one_of(name, text, *ACKS),
    "compression.type": lambda name, text: _one_of(name, text, *COMPRESSIONS),
    "enable.idempotence": lambda name, text: _one_of(name, text, "true", "false") == "true",
    "security.protocol": lambda name, text: _one_of(name, text, "plaintext").upper(),
}
"""How the text of an option becomes its value; all others are numbers."""


def _values(options: Mapping[str, str], side: str, client_id: str) -> dict[str, Value]:
    """A client's settings by their names in Python. Calls end within the timeout of one request. Raises `OptionError`."""
    for name in options:
        _check_name(name, side)
    if not options.get("bootstrap.servers", "").strip():
        raise OptionError("Option kafka.bootstrap.servers is missing: give it as host:port, several separated by commas.")
    used = _BOTH | (_CONSUMER if side == SOURCE else _PRODUCER)
    unused = sorted(name for name in options if name not in used)
    if unused:
        logger.warning(
            "these settings have no effect on the %s and are ignored: %s", side, ", ".join(f"kafka.{name}" for name in unused)
        )
    values = {name: _READ.get(name, _number)(name, text) for name, text in options.items() if name in used - {"group.id"}}
    named = {name.replace(".", "_"): value for name, value in values.items()}
    named.setdefault("client_id", options.get("group.id") or client_id)
    named.setdefault("request_timeout_ms", REQUEST_TIMEOUT_MS)
    return {**named, "default_api_timeout_ms": named["request_timeout_ms"]}


def consumer_settings(options: Mapping[str, str], *, group_id_prefix: str | None = None) -> ConsumerSettings:
    """The `kafka.*` options of a source, their names without the prefix. Raises `OptionError`."""
    values = _values(options, SOURCE, group_id_prefix or "ottla-spark-source")
    return parse(ConsumerSettings, {"max_partition_fetch_bytes": MAX_PARTITION_FETCH_BYTES, **values})


def producer_settings(options: Mapping[str, str]) -> ProducerSettings:
    """The `kafka.*` options of a sink, their names without the prefix. Raises `OptionError`."""
    values = _values(options, SINK, "ottla-spark-sink")
    # Idempotence needs acks=all: with fewer it is switched off, even where it was asked for.
    wanted = values.pop("enable_idempotence", True) and ACKS[str(values.get("acks", "all"))] == -1
    return parse(ProducerSettings, {"batch_size": BATCH_SIZE, **values, "enable_idempotence": wanted})
