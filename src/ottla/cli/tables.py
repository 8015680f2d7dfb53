"""Rows as a table for people, or as a JSON object each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

Cell = str | int | None
Row = Mapping[str, object]


def table(headers: Sequence[str], rows: Iterable[Sequence[Cell]]) -> list[str]:
    """Return the lines of a table. A cell that is None is shown as a dash."""
    lines = [list(headers), *(["-" if cell is None else str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(headers))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]


def as_lines(rows: Iterable[Row]) -> list[str]:
    """Return one JSON object for each row."""
    return [json.dumps(row, ensure_ascii=False) for row in rows]


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


def told(names: Sequence[str], rows: Iterable[Sequence[Cell]], *, as_json: bool) -> list[str]:
    """Return rows with the names of their columns, as a table or as lines of JSON."""
    return (
        as_lines(dict(zip(names, row, strict=True)) for row in rows) if as_json else table([name.upper() for name in names], rows)
    )
