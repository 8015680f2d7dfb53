"""The changes of a stream's topics since the last read: deleted, recreated, or no longer selected. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ottla.client.types import TopicPartition
from ottla.spark.read_plan import names
from ottla.spark.streams.stream_position import Position


def gone(begin: Position, now: Position, selected: Collection[TopicPartition]) -> tuple[list[str], Position]:
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
    return clauses, _kept(left, now)


def _kept(begin: Position, now: Position) -> Position:
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
