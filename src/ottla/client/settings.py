"""The settings of producer, consumer and admin: each declared once, with Kafka's name, default, check and a sentence.

Knows names and values; what a setting does is known where it is used. An unknown name is an error that names the nearest.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any, TypeVar

from ottla.client.addresses import parse_servers
from ottla.client.assignors import STRATEGIES
from ottla.client.errors import SettingError
from ottla.records.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD
from ottla.wire import releases

COMPRESSIONS = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}

IDEMPOTENCE, ZSTD_SINCE = "0.11.0", "2.1"
LONG_SESSIONS, LONGEST_SESSION_MS = "0.10.1", 30_000
"""Until that release a broker refuses sessions longer than this."""

Check = Callable[[str, Any], Any]
Settings = TypeVar("Settings", bound="ClientSettings")


def _number(least: int) -> Check:
    def check(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise SettingError(f"{name} must be a whole number of at least {least}, not {value!r}.")
        return value

    return check


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise SettingError(f"{name} must be True or False, not {value!r}.")
    return value


def _text(name: str, value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise SettingError(f"{name} must be a string, not {value!r}.")
    return value


def _one_of(choices: Iterable[str]) -> Check:
    allowed = list(choices)

    def check(name: str, value: Any) -> str:
        if str(value) not in allowed:
            raise SettingError(f"{name} must be one of {', '.join(allowed)}, not {value!r}.")
        return str(value)

    return check


def _assignors(name: str, value: Any) -> tuple[str, ...]:
    names = tuple(word.strip() for word in value.split(",")) if isinstance(value, str) else tuple(value)
    for word in names:
        _one_of(STRATEGIES)(name, word)
    if not names:
        raise SettingError(f"{name} is empty: name at least one of {', '.join(STRATEGIES)}.")
    return names


def _release(name: str, value: Any) -> str | None:
    if value is None:
        return None
    try:
        return releases.named(str(value))
    except releases.UnknownRelease as error:
        raise SettingError(f"{name}: {error}") from None


def _servers(name: str, value: Any) -> str:
    joined = value if isinstance(value, str) else ",".join(value)
    parse_servers(joined)
    return joined


def setting(default: Any, check: Check, sentence: str) -> Any:
    """A setting: its default, what turns a given value into the one kept (or raises `SettingError`), and what it is for."""
    return field(default=default, metadata={"check": check, "sentence": sentence})


@dataclass(frozen=True, kw_only=True)
class ClientSettings:
    """What every client needs. Times in ms, sizes in bytes."""

    bootstrap_servers: str = setting("localhost:9092", _servers, "Brokers to begin with, as host:port, separated by commas.")
    client_id: str | None = setting("ottla", _text, "The name that brokers log and count by.")
    request_timeout_ms: int = setting(30_000, _number(1), "How long one request may take.")
    retry_backoff_ms: int = setting(100, _number(0), "The pause before a request is tried again.")
    reconnect_backoff_ms: int = setting(50, _number(0), "The pause before a broken connection is opened again.")
    reconnect_backoff_max_ms: int = setting(1_000, _number(0), "What that pause grows to while a broker stays unreachable.")
    metadata_max_age_ms: int = setting(300_000, _number(1), "When metadata is asked for anew though nothing failed.")
    default_api_timeout_ms: int = setting(60_000, _number(1), "How long a call may take with all its retries.")
    api_version: str | None = setting(
        None, _release, "The release of Kafka to hold to, such as 0.9.0; none: brokers are asked, as is possible since 0.10."
    )
    security_protocol: str = setting(
        "PLAINTEXT", _one_of(["PLAINTEXT"]), "How connections are secured; TLS and SASL are not there yet."
    )


@dataclass(frozen=True, kw_only=True)
class ProducerSettings(ClientSettings):
    """A producer's settings. `batch_size` is larger than Kafka's 16384: a batch costs more here than a record."""

    acks: str | int = setting(
        "all", _one_of(ACKS), "Who must have a record before it counts as written: all, 1 (the leader), 0 (nobody)."
    )
    enable_idempotence: bool = setting(True, _flag, "Whether a batch sent twice is written once; needs acks=all.")
    linger_ms: int = setting(5, _number(0), "How long a batch waits for more records.")
    batch_size: int = setting(262_144, _number(1), "When a batch is full.")
    buffer_memory: int = setting(67_108_864, _number(1), "How much may wait to be written before send() waits.")
    max_block_ms: int = setting(60_000, _number(0), "How long send() may wait for metadata or memory.")
    compression_type: str = setting("none", _one_of(COMPRESSIONS), "The codec of batches.")
    max_request_size: int = setting(1_048_576, _number(1), "The largest record or request.")
    max_in_flight_requests_per_connection: int = setting(
        5, _number(1), "How many requests may be unanswered; idempotence allows 5."
    )
    delivery_timeout_ms: int = setting(120_000, _number(1), "How long a record may take to be acknowledged, with all retries.")

    @property
    def acks_code(self) -> int:
        """As a Produce request has it: 0, 1, or -1 for all."""
        return ACKS[str(self.acks)]


@dataclass(frozen=True, kw_only=True)
class ConsumerSettings(ClientSettings):
    """A consumer's settings."""

    group_id: str | None = setting(None, _text, "The group that shares the topics' partitions; none: all partitions are read.")
    group_instance_id: str | None = setting(None, _text, "A name that outlives restarts: a static member (KIP-345).")
    auto_offset_reset: str = setting(
        "latest", _one_of(["earliest", "latest", "none"]), "Where to begin where no offset is committed, or it is gone."
    )
    enable_auto_commit: bool = setting(True, _flag, "Whether the offsets of records handed out are committed by themselves.")
    auto_commit_interval_ms: int = setting(5_000, _number(1), "How often they are.")
    isolation_level: str = setting(
        "read_uncommitted",
        _one_of(["read_uncommitted", "read_committed"]),
        "Whether records of open and aborted transactions show.",
    )
    check_crcs: bool = setting(True, _flag, "Whether each batch's checksum is compared.")
    fetch_min_bytes: int = setting(1, _number(0), "How much a broker gathers before it answers.")
    fetch_max_bytes: int = setting(52_428_800, _number(1), "The most that one answer holds.")
    fetch_max_wait_ms: int = setting(500, _number(0), "How long a broker gathers at most.")
    max_partition_fetch_bytes: int = setting(1_048_576, _number(1), "The most that one answer holds of one partition.")
    max_poll_records: int = setting(500, _number(1), "The most that poll() hands out.")
    max_poll_interval_ms: int = setting(
        300_000, _number(1), "How long a member may be busy with records before the group goes on without it."
    )
    session_timeout_ms: int = setting(45_000, _number(1), "How long a silent member counts as alive.")
    heartbeat_interval_ms: int = setting(3_000, _number(1), "How often a member says that it is.")
    partition_assignment_strategy: tuple[str, ...] = setting(
        ("range", "cooperative-sticky"), _assignors, "How partitions are shared out, the preferred way first."
    )
    allow_auto_create_topics: bool = setting(True, _flag, "Whether subscribing may create a topic, where brokers do that.")

    @property
    def read_committed(self) -> bool:
        return self.isolation_level == "read_committed"


@dataclass(frozen=True, kw_only=True)
class AdminSettings(ClientSettings):
    """An admin client's settings."""


def parse(kind: type[Settings], given: Mapping[str, Any]) -> Settings:
    """Settings from keyword arguments. Raises `SettingError`, which names the nearest known setting."""
    known: dict[str, Field[Any]] = {declared.name: declared for declared in fields(kind)}
    values = {name: _known(kind, known, name).metadata["check"](name, value) for name, value in given.items()}
    made = kind(**values)
    if isinstance(made, ProducerSettings):
        return _consistent(made, values)  # type: ignore[return-value]  # kind is ProducerSettings here
    if isinstance(made, ConsumerSettings) and _before(made.api_version, LONG_SESSIONS) and "session_timeout_ms" not in values:
        return kind(**{**values, "session_timeout_ms": LONGEST_SESSION_MS})
    return made


def _before(release: str | None, other: str) -> bool:
    return release is not None and releases.NAMES.index(release) < releases.NAMES.index(other)


def _known(kind: type, known: Mapping[str, Field[Any]], name: str) -> Field[Any]:
    found = known.get(name)
    if found is None or found.default is MISSING:
        close = difflib.get_close_matches(name.replace(".", "_"), list(known), n=1, cutoff=0.4)
        hint = f"did you mean {close[0]}?" if close else f"it knows {', '.join(sorted(known))}."
        raise SettingError(f"{kind.__name__.removesuffix('Settings')} has no setting {name}; {hint}")
    return found


def _consistent(made: ProducerSettings, given: Mapping[str, Any]) -> ProducerSettings:
    too_many = made.max_in_flight_requests_per_connection > 5
    too_old = _before(made.api_version, IDEMPOTENCE)
    if made.compression_type == "zstd" and _before(made.api_version, ZSTD_SINCE):
        raise SettingError(f"compression_type=zstd needs Kafka {ZSTD_SINCE}, and api_version={made.api_version}: choose lz4.")
    if not made.enable_idempotence or (made.acks_code == -1 and not too_many and not too_old):
        return made
    if "enable_idempotence" in given:
        if too_old:
            raise SettingError(f"enable_idempotence needs Kafka {IDEMPOTENCE}, and api_version={made.api_version}: leave it out.")
        raise SettingError(
            "enable_idempotence needs acks='all' and max_in_flight_requests_per_connection of at most 5: leave one of them out."
        )
    return ProducerSettings(**{**given, "enable_idempotence": False})
