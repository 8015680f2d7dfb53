"""Positions in partitions, and topics with partitions, as options name them."""

from __future__ import annotations

import argparse
import re
from typing import NamedTuple

from ottla.client.admin.offset_targets import END, OFFSET, SHIFT, START, TIME
from ottla.inspection.times import FORMS, parse_time

_SHIFT = re.compile(r"[+-]\d{1,18}")
_INDEXES = re.compile(r"\d{1,9}(-\d{1,9})?(,\d{1,9}(-\d{1,9})?)*")
MOST_NAMED = 100_000
"""The maximum number of partitions that one option names."""
DIGITS_OF_MS = 13
"""The number of digits of a time in ms since 1970, from 2001 to 2286."""


class SeekTarget(NamedTuple):
    """A position to which offsets of a group are set. `value` is the offset, the time in ms, or a number of records.

    A number of records is relative to the committed offset.
    """

    kind: str
    value: int = 0


class TopicChoice(NamedTuple):
    """A topic with the numbers of some of its partitions; None means all."""

    topic: str
    partitions: frozenset[int] | None


def target_argument(text: str) -> SeekTarget:
    """Return the position that the text of an option describes. Raises argparse's error, so that argparse prints the message."""
    found = parse_target(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r:.60} is not start, end, an offset, +N, -N or {FORMS}")
    return found


def parse_target(text: str) -> SeekTarget | None:
    """Return the position that a text describes, or None. A number after `offset:` is an offset, and a text after @ a time.

    A bare number is an offset, unless it has the 13 digits of a time in ms. Raises argparse's error for one of 10 digits, because
    a time in seconds has as many: a wrong guess could delete all records.
    """
    if text in (START, END):
        return SeekTarget(text)
    if _SHIFT.fullmatch(text):
        return SeekTarget(SHIFT, int(text))
    if re.fullmatch("[0-9]{10}", text):
        raise argparse.ArgumentTypeError(f"{text} can be an offset or a time in seconds: write offset:{text} or @{text}")
    digits = text.removeprefix("offset:")
    if re.fullmatch("[0-9]{1,18}", digits) and (text != digits or len(digits) != DIGITS_OF_MS):
        return SeekTarget(OFFSET, int(digits))
    try:
        return SeekTarget(TIME, parse_time(text.removeprefix("@")))
    except ValueError:
        return None


def topic_argument(text: str) -> TopicChoice:
    """Return the topic and the partitions of an option such as flights:0,3-5. Raises argparse's error."""
    topic, colon, indexes = text.partition(":")
    if not topic or (colon and not _INDEXES.fullmatch(indexes)):
        raise argparse.ArgumentTypeError(f"{text!r} is not like flights or flights:0,3-5")
    if not colon:
        return TopicChoice(topic, None)
    found: set[int] = set()
    for part in indexes.split(","):
        first, dash, last = part.partition("-")
        some = range(int(first), int(last if dash else first) + 1)
        if not some or len(some) > MOST_NAMED:
            raise argparse.ArgumentTypeError(f"{part!r} is not a range of partitions, such as 3-5")
        found.update(some)
    return TopicChoice(topic, frozenset(found))
