"""The kinds of topics: their settings, who writes them, what may go from them and when. Knows no client and no broker."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Flag, auto
from typing import NamedTuple

SEGMENT_BYTES = 1 << 20
"""The smallest that a topic may have."""

WEEK_MS = 7 * 24 * 3600 * 1000
LONG_AGO_MS = 1000
"""A timestamp that every retention has passed."""


class Goes(Flag):
    """For what reasons an acknowledged record may go."""

    NEVER = 0
    BY_TIME = auto()
    BY_SIZE = auto()
    BY_REQUEST = auto()
    BY_KEY = auto()


class Kind(NamedTuple):
    """One topic. `rate` is in records a second for each partition, sent `burst` at a time with a rest before the next ones."""

    name: str
    writer: str
    partitions: int
    rate: float
    settings: Mapping[str, str]
    goes: Goes = Goes.NEVER
    retention_ms: int = -1
    retention_bytes: int = -1
    size: int = 100
    keys: int = 0
    burst: int = 1
    is_ancient: bool = False
    is_exact: bool = True
    """Whether its producer is idempotent, so that each record is there once and in the order of sending."""

    def key(self, number: int) -> bytes | None:
        return b"key-%d" % (number % self.keys) if self.keys else None

    def value(self, number: int) -> bytes | None:
        """What the record of this number says; every eleventh of a topic with keys deletes its key."""
        if self.writer == "java":
            return b"%d" % number
        if self.keys and number % 11 == 10:
            return None
        head = b"%s %d " % (self.name.encode(), number)
        return (head + head[-8:] * (self.size // 8))[: max(self.size, len(head))]

    def number(self, value: bytes) -> int:
        """The number of the record with this value. Raises ValueError."""
        return int(value if self.writer == "java" else value.split(b" ", 2)[1])


def _kept(**settings: object) -> dict[str, str]:
    """Settings of a topic that nothing is to be deleted from, unless they say otherwise."""
    return {"retention.ms": "-1"} | {name.replace("_", "."): str(value) for name, value in settings.items()}


COMPACTED = {"min_cleanable_dirty_ratio": 0.01, "segment_ms": 1000, "delete_retention_ms": 2000, "file_delete_delay_ms": 1000}
QUICK = {"segment_ms": 1000, "file_delete_delay_ms": 1000}

KINDS = (
    Kind("plain", "confluent", 3, 20, _kept(compression_type="zstd")),
    Kind("tiny", "confluent", 1, 10, _kept(segment_ms=300, retention_ms=30_000), Goes.BY_TIME, retention_ms=30_000),
    Kind("compacted", "confluent", 2, 20, _kept(cleanup_policy="compact", **COMPACTED), Goes.BY_KEY, keys=40),
    Kind("aged", "kafka-python", 2, 10, _kept(retention_ms=8000, flush_messages=25, **QUICK), Goes.BY_TIME, retention_ms=8000),
    Kind(
        "both",
        "kafka-python",
        2,
        10,
        _kept(cleanup_policy="compact,delete", retention_ms=15_000, **COMPACTED),
        Goes.BY_TIME | Goes.BY_KEY,
        retention_ms=15_000,
        keys=30,
    ),
    Kind("stamped", "aiokafka", 2, 10, _kept(message_timestamp_type="LogAppendTime", preallocate="true", segment_ms=20_000)),
    Kind("cut", "aiokafka", 2, 15, _kept(**QUICK), Goes.BY_REQUEST, burst=120),
    Kind(
        "sized",
        "ottla",
        1,
        50,
        _kept(segment_bytes=SEGMENT_BYTES, retention_bytes=3 * SEGMENT_BYTES, flush_ms=500),
        Goes.BY_SIZE,
        retention_bytes=3 * SEGMENT_BYTES,
        size=8000,
    ),
    # Producers are forgotten by their records' time (producer.id.expiration.ms), as in Apache Kafka: this one at once, so that what
    # it sends again after a kill may be there twice.
    Kind(
        "idle",
        "ottla",
        1,
        0.5,
        {},
        Goes.BY_TIME,
        retention_ms=WEEK_MS,
        burst=5,
        is_ancient=True,
        is_exact=False,
    ),
    Kind("rare", "ottla", 1, 0.2, {}, Goes.BY_TIME, retention_ms=WEEK_MS, burst=3),
    Kind("format-0", "format-0", 1, 10, _kept(), is_exact=False),
    Kind(
        "format-1",
        "format-1",
        1,
        10,
        _kept(cleanup_policy="compact", **COMPACTED),
        Goes.BY_KEY,
        keys=20,
        is_exact=False,
    ),
    Kind("java", "java", 1, 20, _kept(), is_exact=False),
)

RENEWED = "renewed"
"""The topic that is deleted and made anew, by `tests.torture.soak.changes`."""
