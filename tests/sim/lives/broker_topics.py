"""The topics of a simulated broker's life: their kinds, their settings, and what is known of their partitions."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import NamedTuple

from tests.sim.lives.broker_ledger import DAY_MS, CleanupRules, PartitionLedger

HOUR_MS = DAY_MS // 24
SEGMENT = "internal.segment.bytes"

KINDS: Mapping[str, Mapping[str, str]] = {
    "default": {},
    "brief": {SEGMENT: "1500", "retention.ms": str(DAY_MS)},
    "bounded": {SEGMENT: "1500", "retention.bytes": "4000", "retention.ms": "-1"},
    "compacted": {
        "cleanup.policy": "compact",
        SEGMENT: "1500",
        "min.cleanable.dirty.ratio": "0.2",
        "delete.retention.ms": "3600000",
    },
    "lagging": {
        "cleanup.policy": "compact",
        SEGMENT: "1500",
        "max.compaction.lag.ms": str(DAY_MS),
        "min.compaction.lag.ms": "60000",
    },
    "both": {"cleanup.policy": "compact,delete", SEGMENT: "1500", "retention.ms": str(2 * DAY_MS)},
    "stamped": {"message.timestamp.type": "LogAppendTime", "segment.ms": str(HOUR_MS), "retention.ms": str(DAY_MS)},
    "old": {SEGMENT: "1500", "retention.ms": str(3 * DAY_MS)},
    "oldest": {SEGMENT: "1500", "retention.ms": str(3 * DAY_MS)},
    "flushed": {"flush.ms": "5000", "retention.ms": str(3 * DAY_MS), "file.delete.delay.ms": "0"},
    "cached": {"ottla.acks.all.sync": "false", "flush.messages": "20", "retention.bytes": "20000"},
    "reserved": {"preallocate": "true", SEGMENT: "8000", "retention.ms": str(DAY_MS)},
    "recoded": {"compression.type": "zstd", "retention.ms": str(DAY_MS), "index.interval.bytes": "0"},
}
"""The settings of a new topic, by kind."""

MAGIC: Mapping[str, int] = {"old": 1, "oldest": 0}
"""Kinds written in formats before 0.11."""

CHANGES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("retention.ms", ("-1", "3600000", str(DAY_MS), str(10 * DAY_MS))),
    ("retention.bytes", ("-1", "3000", "30000")),
    ("segment.ms", ("600000", str(DAY_MS))),
    ("cleanup.policy", ("delete", "compact", "compact,delete")),
    ("min.cleanable.dirty.ratio", ("0.01", "0.9")),
    ("file.delete.delay.ms", ("0", "60000")),
    ("flush.ms", ("1000", "60000")),
)
"""Settings that may change while the broker runs."""


class SimTopic:
    """One topic, from creation to deletion; another one of the same name has another id."""

    def __init__(self, name: str, kind: str, topic_id: bytes, count: int, configs: Mapping[str, str]) -> None:
        self.name = name
        self.kind = kind
        self.topic_id = topic_id
        self.configs = dict(configs)
        self.is_leaving = False
        """Its deletion was asked for and not answered yet."""
        self.pasts = [PartitionLedger(f"{name}-{index}", self.rules) for index in range(count)]

    @property
    def rules(self) -> CleanupRules:
        return CleanupRules.of(self.configs)

    @property
    def is_synced(self) -> bool:
        """Whether acks=all promises durability."""
        return self.configs.get("ottla.acks.all.sync") != "false"

    def configure(self, name: str, value: str) -> None:
        """Note a setting that was, or may have been, changed."""
        self.configs[name] = value
        for past in self.pasts:
            past.change_rules(self.rules)

    def grow(self, count: int) -> None:
        """Note its number of partitions."""
        self.pasts += [PartitionLedger(f"{self.name}-{index}", self.rules) for index in range(len(self.pasts), count)]


class RequestedTopic(NamedTuple):
    """A topic that somebody asked to create."""

    kind: str
    partitions: int
    configs: Mapping[str, str]


def wanted(random: Random) -> RequestedTopic:
    """Choose a topic of some kind."""
    kind = random.choice(list(KINDS))
    return RequestedTopic(kind, random.randrange(1, 4), KINDS[kind])
