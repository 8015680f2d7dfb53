"""The position of a stream, and its form in Spark's checkpoint. Pure.

The form is the one of the JVM connector, {"flights": {"0": 23}}, with further entries. Their names contain a blank, which no
topic's name does:

- "topic ids": {"flights": "3zcVpTqVQDyJSXNkhNzKRg"}, as far as they are known (KIP-516). The JVM connector has none.
- "starting offsets": {"flights": {"0": 5}}, the start of a query's first micro-batch that ends here. A checkpoint contains only
  ends. When Spark repeats a first micro-batch, it requests the start of the query again, and "latest" is another offset by then.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.client.types import TopicPartition
from ottla.spark.errors import OptionError
from ottla.spark.read_plan import PartitionOffsets, names

TOPIC_IDS, STARTING_OFFSETS = "topic ids", "starting offsets"
StoredOffsets = dict[str, dict[str, Any]]
"""The result of `to_json`, which can be encoded as JSON."""


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a stream: the offset of the next record of each partition, and the topic ids as far as they are known.

    `starting_offsets` is set for the end of a query's first micro-batch, and has the micro-batch's start.
    """

    offsets: PartitionOffsets
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    starting_offsets: PartitionOffsets | None = None

    def anew(self, later: Mapping[str, str]) -> list[str]:
        """Return the topics that were deleted and recreated, so that their ids differ in `later`."""
        return sorted(topic for topic, known in self.topic_ids.items() if later.get(topic, known) != known)

    def without(self, topics: list[str]) -> Position:
        return Position(
            {where: offset for where, offset in self.offsets.items() if where.topic not in topics},
            {topic: known for topic, known in self.topic_ids.items() if topic not in topics},
        )


def id_text(topic_id: bytes) -> str:
    """Return a topic's id in the form that Kafka's tools use; empty if brokers have no topic ids."""
    return urlsafe_b64encode(topic_id).rstrip(b"=").decode() if any(topic_id) else ""


def _by_topic(offsets: PartitionOffsets) -> StoredOffsets:
    found: StoredOffsets = {}
    for topic, partition in sorted(offsets):
        found.setdefault(topic, {})[str(partition)] = offsets[TopicPartition(topic, partition)]
    return found


def to_json(position: Position) -> StoredOffsets:
    found = _by_topic(position.offsets)
    known = {topic: position.topic_ids[topic] for topic in found if position.topic_ids.get(topic)}
    if known:
        found[TOPIC_IDS] = known
    if position.starting_offsets is not None:
        found[STARTING_OFFSETS] = _by_topic(position.starting_offsets)
    return found


def _offsets(stored: Mapping[str, Mapping[str, Any]]) -> PartitionOffsets:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in stored.items()
        for partition, offset in partitions.items()
    }


def from_json(stored: Mapping[str, Mapping[str, Any]]) -> Position:
    """Parse a position. Raises `OptionError` for another form, which another source wrote."""
    try:
        return _position(stored)
    except (AttributeError, TypeError, ValueError):
        raise OptionError(
            f"The checkpoint holds {str(stored)[:200]} and not offsets of topics: another source wrote it. "
            "Give the query a checkpointLocation of its own."
        ) from None


def _position(stored: Mapping[str, Mapping[str, Any]]) -> Position:
    starting = stored.get(STARTING_OFFSETS)
    return Position(
        _offsets({topic: partitions for topic, partitions in stored.items() if topic not in (TOPIC_IDS, STARTING_OFFSETS)}),
        dict(stored.get(TOPIC_IDS, {})),
        None if starting is None else _offsets(starting),
    )


def drop_lost(begin: Position, now: Position, selected: Collection[TopicPartition]) -> tuple[list[str], Position]:
    """Return a clause for each topic or partition that cannot be continued, and `begin` without them.

    `now` has the partitions that exist. `selected` are those partitions of `begin` that the query still selects.
    """
    anew = begin.anew(now.topic_ids)
    left = begin.without(anew)
    missing = sorted(where for where in left.offsets if where not in now.offsets)
    clauses = [f"topic {topic} was deleted and recreated after {_first(begin, topic)}" for topic in anew]
    dropped = [where for where in missing if where not in selected]
    clauses += [f"{names([where])} is left out of the query's options after {_at(begin, where)}" for where in dropped]
    missing = [where for where in missing if where in selected]
    existing = {where.topic for where in now.offsets}
    deleted = sorted({where.topic for where in missing} - existing)
    clauses += [f"topic {topic} was deleted after {_first(begin, topic)}" for topic in deleted]
    clauses += [f"{names([where])} was deleted after {_at(begin, where)}" for where in missing if where.topic in existing]
    return clauses, _keep(left, now)


def _keep(begin: Position, now: Position) -> Position:
    offsets = {where: offset for where, offset in begin.offsets.items() if where in now.offsets}
    topics = {where.topic for where in offsets}
    return Position(offsets, {topic: known for topic, known in begin.topic_ids.items() if topic in topics})


def _at(begin: Position, where: TopicPartition) -> str:
    return f"{names([where])} was read to offset {begin.offsets[where]}"


def _first(begin: Position, topic: str) -> str:
    return _at(begin, min(where for where in begin.offsets if where.topic == topic))


def unknown_topics(wanted: Iterable[str], begin: Position, now: Position) -> list[str]:
    """Return the topics that a query names, that do not exist, and of which nothing was ever read."""
    seen = {where.topic for where in (*begin.offsets, *now.offsets)}
    return sorted(set(wanted) - seen)
