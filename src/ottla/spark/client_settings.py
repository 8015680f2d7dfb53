"""Which `kafka.*` settings a job may give, what they mean here, and which belong elsewhere.

A setting that Kafka's clients know but that has nothing to act on here is accepted and named once in the log, so that a job
moves over unchanged. A setting that would change what the job does, and cannot, is an error. Pure.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ottla.spark.errors import OptionError

logger = logging.getLogger("ottla.spark")

SOURCE, SINK = "source", "sink"


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """How tasks reach the brokers: picklable. Sizes are bytes, times milliseconds, names Kafka's."""

    bootstrap_servers: str
    client_id: str
    security_protocol: str = "PLAINTEXT"
    request_timeout_ms: int = 30_000
    read_committed: bool = False
    fetch_max_bytes: int = 50 * 1024 * 1024
    max_partition_fetch_bytes: int = 4 * 1024 * 1024
    fetch_max_wait_ms: int = 500
    acks: int = -1
    compression_type: str = "none"
    batch_size: int = 1_000_000
    max_request_size: int = 1024 * 1024
    delivery_timeout_ms: int = 120_000
    enable_idempotence: bool = True


COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
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


def known_setting(name: str) -> bool:
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


_ACKS = {"all": -1, "-1": -1, "1": 1, "0": 0}
_READ: dict[str, Callable[[str, str], Value]] = {
    "bootstrap.servers": _stripped,
    "client.id": _stripped,
    "isolation.level": lambda name, text: _one_of(name, text, "read_uncommitted", "read_committed") == "read_committed",
    "acks": lambda name, text: _ACKS[_one_of(name, text, *_ACKS)],
    "compression.type": lambda name, text: _one_of(name, text, *COMPRESSIONS),
    "enable.idempotence": lambda name, text: _one_of(name, text, "true", "false") == "true",
    "security.protocol": lambda name, text: _one_of(name, text, "plaintext").upper(),
}
"""How the text of a setting becomes its value; all others are numbers."""
_FIELDS = {"isolation.level": "read_committed"}
"""Where a field is not called as its setting."""


def _convert(settings: Mapping[str, str]) -> dict[str, Value]:
    """Fields of `ClientSettings` by name."""
    values = {name: _READ.get(name, _number)(name, text) for name, text in settings.items() if name != "group.id"}
    return {_FIELDS.get(name) or name.replace(".", "_"): value for name, value in values.items()}


def parse_settings(settings: Mapping[str, str], side: str, *, group_id_prefix: str | None = None) -> ClientSettings:
    """The `kafka.*` options of one side, names without the prefix. Raises `OptionError`."""
    for name in settings:
        _check_name(name, side)
    if not settings.get("bootstrap.servers", "").strip():
        raise OptionError("Option kafka.bootstrap.servers is missing: give it as host:port, several separated by commas.")
    mine = _BOTH | (_CONSUMER if side == SOURCE else _PRODUCER)
    idle = sorted(name for name in settings if name not in mine)
    if idle:
        logger.warning(
            "these settings have no effect on the %s and are left aside: %s", side, ", ".join(f"kafka.{name}" for name in idle)
        )
    taken = _convert({name: text for name, text in settings.items() if name in mine})
    default = settings.get("group.id") or group_id_prefix or f"ottla-spark-{side}"
    return ClientSettings(**{"client_id": default, **taken})  # type: ignore[arg-type]  # the table above gives each field its type
