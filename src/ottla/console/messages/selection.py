"""The messages of a topic that are wanted: where the reading begins, its direction, and what a message must have. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ottla.console.messages.found_messages import ABORTED, OPEN
from ottla.inspection.filters import BadFilter, Decode, RecordFilter
from ottla.inspection.text_search import TextSearch
from ottla.inspection.times import parse_time
from ottla.records.batches.record import ConsumerRecord

NEWEST, OLDEST, OFFSET, TIME, TAIL = "newest", "oldest", "offset", "time", "tail"
STARTS: Final = (NEWEST, OLDEST, OFFSET, TIME, TAIL)
MOST_MESSAGES: Final = 500
MOST_PARTITIONS: Final = 10_000
FILTER_WORK: Final = 16 * 1024 * 1024
"""The most work of a filter on one record, about the characters that it may search."""
MOST_OFFSET: Final = (1 << 63) - 1
_POSITIONS = re.compile(r"[0-9]{1,10}\.[0-9]{1,19}(?:_[0-9]{1,10}\.[0-9]{1,19}){0,63}")


class BadSelection(ValueError):
    """A parameter of a page of messages that cannot be used; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The parameters of a page of messages.

    `start` is of `STARTS`; `number` is the offset or the time in ms that belongs to it. `positions` continue an earlier page: for
    `newest` the offsets before which to read, for others those from which. `key` is a whole key in UTF-8, or in hex after 0x.
    """

    topic: str
    partitions: tuple[int, ...] = ()
    start: str = NEWEST
    number: int = 0
    limit: int = 50
    filter: str = ""
    text: str = ""
    key: str = ""
    has_control: bool = False
    is_committed: bool = False
    positions: tuple[tuple[int, int], ...] = ()

    @property
    def is_backward(self) -> bool:
        return self.start == NEWEST

    @property
    def is_selective(self) -> bool:
        """Return whether a message can be left out."""
        return bool(self.filter or self.text or self.key)


def start_of(start: str, offset: int | None, time: str) -> tuple[str, int]:
    """Return the start and its number. Raises `BadSelection`."""
    if start not in STARTS:
        raise BadSelection(f"{start!r:.60} is no place to begin at: choose one of {', '.join(STARTS)}.")
    if start == OFFSET:
        if offset is None or not 0 <= offset <= MOST_OFFSET:
            raise BadSelection("The offset is missing: give the number of the first message.")
        return start, offset
    if start != TIME:
        return start, 0
    try:
        return start, parse_time(time)
    except ValueError as error:
        raise BadSelection(f"{error}.") from None


def partitions_of(text: str) -> tuple[int, ...]:
    """Return the partitions in a text such as 0,3-5; an empty text means all. Raises `BadSelection`."""
    found: set[int] = set()
    for part in filter(None, text.replace(" ", "").split(",")):
        first, dash, last = part.partition("-")
        if not re.fullmatch(r"[0-9]{1,6}", first) or (dash and not re.fullmatch(r"[0-9]{1,6}", last)):
            raise BadSelection(f"{part!r:.60} is no partition: give numbers such as 0,3-5.")
        numbers = range(int(first), int(last or first) + 1)
        if len(numbers) + len(found) > MOST_PARTITIONS:
            raise BadSelection(f"{text[:60]!r} names more than {MOST_PARTITIONS} partitions: leave it empty for all.")
        found.update(numbers)
    return tuple(sorted(found))


def positions_text(positions: Mapping[int, int]) -> str:
    """Return positions as the address of a page has them."""
    return "_".join(f"{partition}.{offset}" for partition, offset in sorted(positions.items()))


def positions_of(text: str) -> tuple[tuple[int, int], ...]:
    """Return the positions in a page's address. Raises `BadSelection`."""
    if not text:
        return ()
    if not _POSITIONS.fullmatch(text):
        raise BadSelection("The positions in the address are damaged: begin again without `after`.")
    return tuple((int(partition), int(offset)) for partition, _, offset in (each.partition(".") for each in text.split("_")))


class Chooser:
    """The conditions of a selection, compiled once. `decode` decodes framed values of a registry for the filter."""

    def __init__(self, selection: Selection, decode: Decode | None = None) -> None:
        """Compile the filter and the search. Raises `BadSelection`."""
        self._conditions: list[Callable[[ConsumerRecord], bool]] = []
        self._filter: RecordFilter | None = None
        try:
            if selection.key:
                wanted = _key_of(selection.key)
                self._conditions.append(lambda record: record.key == wanted)
            if selection.text:
                self._conditions.append(TextSearch(selection.text).matches)
            if selection.filter:
                self._filter = RecordFilter(selection.filter, decode, decode, most_work=FILTER_WORK)
                self._conditions.append(self._filter.matches)
        except BadFilter as error:
            raise BadSelection(f"The filter cannot be used: {error}.") from None
        except ValueError as error:
            raise BadSelection(str(error)) from None
        self._is_committed, self._has_control = selection.is_committed, selection.has_control

    @property
    def too_large(self) -> int:
        """Return the number of messages that were left out because the filter needs too much work on them."""
        return 0 if self._filter is None else self._filter.too_large

    def accepts(self, record: ConsumerRecord, transaction: str, *, is_control: bool) -> bool:
        """Return whether a record of a batch is wanted."""
        if is_control:
            return self._has_control
        if self._is_committed and transaction in (OPEN, ABORTED):
            return False
        return all(condition(record) for condition in self._conditions)


def _key_of(text: str) -> bytes:
    if not text.startswith("0x"):
        return text.encode("utf-8", "surrogateescape")
    try:
        return bytes.fromhex(text[2:])
    except ValueError:
        raise BadSelection(f"{text!r:.60} is no key in hex: give two digits for each byte after 0x.") from None
