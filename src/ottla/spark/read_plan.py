"""The plan of a read, from offsets to tasks: its start and end, its ranges, and lost records. Pure.

The module queries brokers through `Lookup`. As in Kafka, `end` is the offset after the last record to read.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ottla.client.types import TopicPartition
from ottla.spark.errors import DataLoss, OptionError

logger = logging.getLogger("ottla.spark")

EARLIEST, LATEST = -2, -1

PartitionOffsets = dict[TopicPartition, int]


def names(partitions: Iterable[TopicPartition]) -> str:
    """Return the names of partitions in the form that Kafka's tools use: flights-0, flights-1."""
    return ", ".join(f"{topic}-{partition}" for topic, partition in partitions)


@dataclass(frozen=True, slots=True)
class Everywhere:
    """A bound of a read: the earliest or the latest offset in every partition."""

    offset: int


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """A bound of a read: an offset for each partition, which can be `EARLIEST` or `LATEST`."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTime:
    """A bound of a read: in every partition, the first record at or after a time, in milliseconds since 1970."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class AtTimes:
    """A bound of a read: for each partition, the first record at or after its own time, in milliseconds since 1970."""

    timestamps_ms: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtGroup:
    """A bound of a read: the committed offsets of a consumer group. A partition without one is read from its first record."""


Bound = AtGroup | Everywhere | AtOffsets | AtTime | AtTimes


class Range(NamedTuple):
    """Records of one partition from `start` up to, not including, `end`: the work of one task."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


class Lookup(Protocol):
    """The queries that planning sends to brokers."""

    def earliest(self, partitions: Iterable[TopicPartition]) -> PartitionOffsets: ...

    def latest(self, partitions: Iterable[TopicPartition]) -> PartitionOffsets: ...

    def at_times(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the first offset at or after a time for each partition; None if there is no such record."""

    def committed(self, partitions: Iterable[TopicPartition]) -> PartitionOffsets:
        """Return the offsets that the query's group has committed, without partitions that have none."""


def _check_named(option: str, named: Iterable[TopicPartition], partitions: Sequence[TopicPartition]) -> None:
    """Raise `OptionError` unless an option has exactly the partitions that must be read."""
    named = set(named)
    missing = names(each for each in partitions if each not in named)
    strange = names(sorted(named.difference(partitions)))
    if missing:
        raise OptionError(f"{option} leaves out {missing}: name every partition, with -2 for earliest or -1 for latest.")
    if strange:
        raise OptionError(f"{option} names {strange}, which this query does not read: leave them out.")


def _from_times(
    timestamps_ms: Mapping[TopicPartition, int], lookup: Lookup, *, option: str, latest_otherwise: bool
) -> PartitionOffsets:
    found = lookup.at_times(timestamps_ms)
    late = [each for each in timestamps_ms if found.get(each) is None]
    if late and not latest_otherwise:
        raise OptionError(
            f"{option}: {names(late)} hold no record at or after the given time; "
            'set startingOffsetsByTimestampStrategy to "latest" to start at the end there.'
        )
    ends = lookup.latest(late) if late else {}
    return {each: ends[each] if offset is None else offset for each, offset in found.items()}


def resolve(
    bound: Bound, partitions: Sequence[TopicPartition], lookup: Lookup, *, edge: str, latest_otherwise: bool
) -> PartitionOffsets:
    """Return the offset in every partition at which reading starts or ends. `edge` is "starting" or "ending".

    If a partition has no record at or after a time, use its latest offset with `latest_otherwise`, or raise `OptionError` without
    it.
    """
    match bound:
        case AtTime(timestamp_ms):
            same = dict.fromkeys(partitions, timestamp_ms)
            return _from_times(same, lookup, option=f"{edge}Timestamp", latest_otherwise=latest_otherwise)
        case AtTimes(timestamps_ms):
            option = f"{edge}OffsetsByTimestamp"
            _check_named(option, timestamps_ms, partitions)
            return _from_times(timestamps_ms, lookup, option=option, latest_otherwise=latest_otherwise)
        case AtOffsets(offsets):
            _check_named(f"{edge}Offsets", offsets, partitions)
        case AtGroup():
            offsets = dict.fromkeys(partitions, EARLIEST) | lookup.committed(partitions)
        case Everywhere(offset):
            offsets = dict.fromkeys(partitions, offset)
    found = dict(offsets)
    for word, ask in ((EARLIEST, lookup.earliest), (LATEST, lookup.latest)):
        wanted = [each for each, offset in offsets.items() if offset == word]
        if wanted:
            found.update(ask(wanted))
    return found


def ranges(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> list[Range]:
    """Return the ranges between two sets of offsets, without empty ranges.

    A range whose end is before its start is kept, because its partition was recreated: `find_lost` reports it.
    """
    return [Range(*each, start[each], end[each]) for each in sorted(end) if end[each] != start[each]]


def _cut(whole: Range, parts: int) -> list[Range]:
    edges = [whole.start + whole.size * part // parts for part in range(parts + 1)]
    return [whole._replace(start=low, end=high) for low, high in itertools.pairwise(edges) if high > low]


def split(wholes: Sequence[Range], *, min_partitions: int | None = None, max_records: int | None = None) -> list[Range]:
    """Split ranges until each has at most `max_records`, and there are at least `min_partitions`. The largest are split first."""
    parts = {each: -(-each.size // max_records) if max_records else 1 for each in wholes}
    total = sum(each.size for each in wholes)
    wanted = min(min_partitions or 0, total)  # because each piece has at least one record
    if sum(parts.values()) < wanted:
        for each in wholes:
            parts[each] = max(parts[each], each.size * wanted // total)
        while sum(parts.values()) < wanted:
            fullest = max(wholes, key=lambda each: each.size / parts[each])
            parts[fullest] += 1
    return [piece for each in wholes for piece in _cut(each, parts[each])]


def find_lost(
    start: Mapping[TopicPartition, int], earliest: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]
) -> list[str]:
    """Return one clause of a message for each partition in which the next record to read is deleted already."""
    clauses = []
    for each, offset in sorted(start.items()):
        name = names([each])
        if each not in latest:
            clauses.append(f"{name} was to be read from offset {offset} and is gone")
        elif offset < earliest[each]:
            clauses.append(f"{name} was to be read from offset {offset} and begins at {earliest[each]} now")
        elif offset > latest[each]:
            clauses.append(f"{name} was to be read from offset {offset} and ends at {latest[each]} now")
    return clauses


def lost_ends(wholes: Sequence[Range], latest: Mapping[TopicPartition, int]) -> list[str]:
    """Return a clause for each range that ends after the present end of its partition."""
    return [
        f"{names([where])} was to be read to offset {each.end} and ends at {latest[where]} now"
        for each in wholes
        if (where := TopicPartition(each.topic, each.partition)) in latest and each.start <= latest[where] < each.end
    ]


def accept_losses(clauses: Sequence[str], *, fail: bool) -> None:
    """Raise `DataLoss` for clauses of `find_lost` and `lost_ends`. If `fail` is False, log the clauses instead."""
    if clauses and fail:
        raise data_loss(clauses)
    if clauses:
        logger.warning("%s; reading on with what is left", "; ".join(clauses))


def data_loss(clauses: Sequence[str]) -> DataLoss:
    return DataLoss(
        f"Records are lost: {'; '.join(clauses)}. Raise the topic's retention or start from a new checkpoint; "
        'option failOnDataLoss="false" reads on with what is left.'
    )


def trim(wholes: Sequence[Range], earliest: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> list[Range]:
    """Return the parts of the ranges that can still be read, for a query that accepts losses.

    A partition that was recreated is read from its start.
    """
    left = []
    for each in wholes:
        where = TopicPartition(each.topic, each.partition)
        if where in latest:
            start = max(each.start, earliest[where]) if each.start <= latest[where] else earliest[where]
            left.append(each._replace(start=start, end=min(each.end, latest[where])))
    return [each for each in left if each.size > 0]
