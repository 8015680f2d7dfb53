"""Positions in partitions, as `-o` and `--until` name them, and the offsets that they mean in each partition."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ottla.cli.command.arguments import MOST_OFFSET
from ottla.inspection.times import FORMS, duration_ms, is_duration, parse_time

if TYPE_CHECKING:
    from ottla.client.types import TopicPartition
    from ottla.net.client.consumer.consumer import Consumer

START, END, FROM_START, FROM_END, OFFSET, TIME = "start", "end", "from start", "from end", "offset", "time"
_WORDS = {"start": START, "beginning": START, "oldest": START, "end": END, "newest": END, "latest": END}


class RecordPosition(NamedTuple):
    """A position in any partition: its kind, and the number of records, the offset or the time (ms) that belongs to the kind."""

    kind: str
    number: int = 0


class PositionRange(NamedTuple):
    """The positions at which reading begins and ends in each partition. None stands for the command's default."""

    start: RecordPosition | None
    until: RecordPosition | None


def position(text: str) -> RecordPosition:
    """Return the position that the text of an option describes. Raises argparse's error."""
    if text in _WORDS:
        return RecordPosition(_WORDS[text])
    sign, digits = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    if digits.isascii() and digits.isdecimal() and len(digits) < 20 and int(digits) <= MOST_OFFSET:
        return RecordPosition({"+": FROM_START, "-": FROM_END, "": OFFSET}[sign], int(digits))
    if text.startswith(("@", "s@", "e@")):  # kcat writes s@ and e@, rpk @-2h
        try:
            return RecordPosition(TIME, parse_time(text.partition("@")[2].removeprefix("-")))
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{error}, after the @") from None
    raise argparse.ArgumentTypeError(f"{text!r:.60} is not start, end, +10, -10, an offset, or @ and {FORMS}")


def position_range(text: str) -> PositionRange:
    """Return the range that -o describes: a position, or two with a colon between, as in rpk. Raises argparse's error."""
    if text.startswith("e@"):
        return PositionRange(None, position(text))
    try:
        return PositionRange(position(text), None)
    except argparse.ArgumentTypeError as error:
        reason = error
    for at in (at for at, char in enumerate(text) if char == ":"):  # times have colons, too
        with suppress(argparse.ArgumentTypeError):
            return _range(text[:at], text[at + 1 :])
    raise reason


def _range(start: str, until: str) -> PositionRange:
    """Return the range between two positions.

    In a range of times, only the start needs an @. A duration as the end counts from the start, unless that is a duration too.
    """
    is_of_times = start.startswith("@")
    begin = position(start) if start not in ("", "@") else None
    if not until:
        return PositionRange(begin, None)
    if not is_of_times or until in _WORDS or until.startswith("@"):
        return PositionRange(begin, position(until))
    if begin is not None and begin.kind == TIME and not is_duration(start[1:].removeprefix("-")) and is_duration(until):
        return PositionRange(begin, RecordPosition(TIME, begin.number + duration_ms(until)))
    return PositionRange(begin, position(f"@{until}"))


def offsets_of(wanted: RecordPosition, consumer: Consumer, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the offset of a position in each partition, between the first and the end offset of the partition.

    Raises `KafkaError`.
    """
    asked = list(partitions)
    if not asked:
        return {}
    ends = consumer.end_offsets(asked)
    if wanted.kind == END:
        return ends
    starts = consumer.beginning_offsets(asked)
    if wanted.kind == TIME:
        found = consumer.offsets_for_times(dict.fromkeys(asked, wanted.number))
        return {where: found[where].offset if found[where].offset >= 0 else ends[where] for where in asked}
    return _within(wanted, starts, ends)


def _within(
    wanted: RecordPosition, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    found = {}
    for where, end in ends.items():
        begin = {FROM_START: starts[where], FROM_END: end, OFFSET: 0, START: starts[where]}[wanted.kind]
        offset = begin - wanted.number if wanted.kind == FROM_END else begin + wanted.number
        found[where] = min(max(offset, starts[where]), end)
    return found
