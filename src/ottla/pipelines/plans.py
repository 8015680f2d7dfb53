"""The division of an archive into the parts of a replay. A part has offsets of every partition; one job writes it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Span(NamedTuple):
    """The archived offsets of a partition, from `first` to `last` (included). `rows` is the number of archived records."""

    topic: str
    partition: int
    first: int
    last: int
    rows: int


class OffsetRange(NamedTuple):
    """The offsets from `start` up to, not including, `end` of one partition."""

    topic: str
    partition: int
    start: int
    end: int


def parts_of(spans: Iterable[Span], rows_per_part: int) -> list[list[OffsetRange]]:
    """Return parts of about `rows_per_part` rows, in the order of the replay. Each part advances all partitions evenly."""
    spans = sorted(span for span in spans if span.rows)
    count = max(1, -(-sum(span.rows for span in spans) // rows_per_part))
    parts = [[piece for span in spans if (piece := _piece(span, part, count))] for part in range(count)]
    return [part for part in parts if part]


def _piece(span: Span, part: int, count: int) -> OffsetRange | None:
    size = span.last + 1 - span.first
    start, end = (span.first + size * edge // count for edge in (part, part + 1))
    return OffsetRange(span.topic, span.partition, start, end) if end > start else None


def partition_counts(spans: Iterable[Span]) -> dict[str, int]:
    """Return the number of partitions that each topic needs so that every record can return to its own partition."""
    counts: dict[str, int] = {}
    for span in spans:
        counts[span.topic] = max(counts.get(span.topic, 0), span.partition + 1)
    return counts


def as_json(parts: Sequence[Sequence[OffsetRange]]) -> list[list[list[str | int]]]:
    return [[list(piece) for piece in part] for part in parts]


def from_json(stored: Sequence[Sequence[Sequence[str | int]]]) -> list[list[OffsetRange]]:
    return [[OffsetRange(str(topic), *map(int, rest)) for topic, *rest in part] for part in stored]
