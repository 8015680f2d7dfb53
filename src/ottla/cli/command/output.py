"""The output of commands: rows as a table for people or as JSON objects for programs, sizes and durations with units, colours.

A table that is wider than its terminal is folded: each row becomes lines of a name and a value. Colours appear on terminals only,
and not where the environment sets `NO_COLOR`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence

from ottla.cli.command.exits import escape_controls

Cell = str | int | float | list[str] | None
Row = Mapping[str, object]
BOLD, DIM, RED, GREEN, YELLOW = "1", "2", "31", "32", "33"
"""Styles of text on a terminal, as the numbers of ECMA-48's SGR sequences."""


def show(names: Sequence[str], rows: Iterable[Sequence[Cell]], *, as_json: bool) -> None:
    """Print rows, with the names of their columns, as a table or as JSON objects. Keys of objects have underscores for blanks."""
    print_lines(lines_of(names, rows, as_json=as_json))


def print_lines(lines: Sequence[str]) -> None:
    """Print lines, and flush standard output. Print nothing if `lines` is empty."""
    print("".join(f"{line}\n" for line in lines), end="", flush=True)


def lines_of(names: Sequence[str], rows: Iterable[Sequence[Cell]], *, as_json: bool) -> list[str]:
    """Return rows as the lines of a text table, or with `as_json` as one line with a JSON object for each row."""
    if as_json:
        keys = [name.replace(" ", "_") for name in names]
        return as_lines(dict(zip(keys, row, strict=True)) for row in rows)
    return table([name.upper() for name in names], rows)


def table(headers: Sequence[str], rows: Iterable[Sequence[Cell]]) -> list[str]:
    """Return the lines of a table, folded if it is wider than the terminal. A cell that is None or an empty list is a dash."""
    lines = [list(headers), *([_shown(cell) for cell in row] for row in rows)]
    widths = [max(_width(line[at]) for line in lines) for at in range(len(headers))]
    available = terminal_width()
    if available is not None and sum(widths) + 2 * len(widths) - 2 > available:
        return _folded(lines)
    padded = ([cell + " " * (width - _width(cell)) for cell, width in zip(line, widths, strict=True)] for line in lines)
    found = ["  ".join(cells).rstrip() for cells in padded]
    return [styled(found[0], BOLD), *found[1:]]


def _shown(cell: Cell) -> str:
    if isinstance(cell, list):
        return escape_controls(",".join(cell)) or "-"
    return "-" if cell is None else escape_controls(str(cell))


def _width(cell: str) -> int:
    """Return the number of characters that a terminal shows of a cell, which may be styled."""
    if "\x1b" not in cell:
        return len(cell)
    return len(re.sub("\x1b\\[[0-9;]*m", "", cell))


def _folded(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return a line of name and value for each cell, with an empty line between rows."""
    headers, *rows = lines
    longest = max(map(len, headers))
    found: list[str] = []
    for row in rows:
        found += [""] if found else []
        found += [f"{styled(header.ljust(longest), BOLD)}  {cell}" for header, cell in zip(headers, row, strict=True)]
    return found


def as_lines(rows: Iterable[Row]) -> list[str]:
    """Return one JSON object for each row."""
    return [json.dumps(row, ensure_ascii=False) for row in rows]


def terminal_width() -> int | None:
    """Return the width of the terminal that standard output is, in characters; None for a file or a pipe."""
    return shutil.get_terminal_size().columns if is_terminal() else None


def is_terminal() -> bool:
    """Return whether standard output is a terminal. Python sets standard output to None if it is closed."""
    return sys.stdout is not None and sys.stdout.isatty()


def can_redraw() -> bool:
    """Return whether standard output is a terminal whose cursor can be moved."""
    return is_terminal() and os.environ.get("TERM") != "dumb"


def styled(text: str, style: str) -> str:
    """Return text in a style, if standard output is a terminal with colours."""
    if not text or not can_redraw() or os.environ.get("NO_COLOR"):
        return text
    return f"\x1b[{style}m{text}\x1b[0m"


def duration(ms: int) -> str:
    """Format a duration: 350 ms, 12 s, 3 min 20 s, 5 h 2 min."""
    if ms < 1000:
        return f"{ms} ms"
    seconds = ms // 1000
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds // 60 % 60} min"


def size(in_bytes: int) -> str:
    """Format a size in bytes: 17 B, 4.2 KB, 1.3 GB. The units are powers of 1000, as for disks."""
    amount, units = float(in_bytes), iter(("KB", "MB", "GB", "TB", "PB"))
    if in_bytes < 1000:
        return f"{in_bytes} B"
    unit = "B"
    while amount >= 1000 and (larger := next(units, None)) is not None:
        amount, unit = amount / 1000, larger
    return f"{amount:.1f} {unit}"
