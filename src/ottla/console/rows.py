"""Lists that are filtered, sorted and cut into pages on the console's side, so that a page of a large cluster stays small."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from ottla.console.declarations import PageRefused

Row = TypeVar("Row")

ROWS = 100
"""The rows of a page."""


@dataclass(frozen=True, slots=True)
class Pages:
    """The place of some rows among all: the page's number from 1, the number of pages, of matching rows, and of all rows."""

    page: int
    pages: int
    matching: int
    total: int


def filter_rows(rows: Iterable[Row], text: str, name: Callable[[Row], str]) -> list[Row]:
    """Return the rows whose name contains a text. Upper and lower case are equal."""
    wanted = text.strip().casefold()
    return [row for row in rows if wanted in name(row).casefold()]


def sorted_by(rows: Iterable[Row], sort: str, keys: Mapping[str, Callable[[Row], Any]]) -> list[Row]:
    """Return the rows in the order of a column, `-` in front of its name for the largest first. Unknown values come last.

    Raises `PageRefused` for a column that is not among `keys`.
    """
    descends, column = sort.startswith("-"), sort.removeprefix("-")
    if column not in keys:
        raise PageRefused(400, f"There is no column {column[:100]!r} to sort by: choose one of {', '.join(keys)}.")
    key = keys[column]
    listed = list(rows)
    known = [row for row in listed if key(row) is not None]
    return sorted(known, key=key, reverse=descends) + [row for row in listed if key(row) is None]


def cut(rows: Sequence[Row], page: int, total: int) -> tuple[list[Row], Pages]:
    """Return the rows of a page and the page's place. A page beyond the last one is the last one."""
    pages = max((len(rows) + ROWS - 1) // ROWS, 1)
    page = min(max(page, 1), pages)
    return list(rows[(page - 1) * ROWS : page * ROWS]), Pages(page, pages, len(rows), total)
