"""One line of a page of figures: what was measured, and what it was measured against in the same run."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

MB = 1 << 20


class Figure(NamedTuple):
    """`limit` is what the system or a peer did in the same run, empty where a target stands alone. `reached` None: no target."""

    name: str
    value: str
    limit: str
    wanted: str
    reached: bool | None

    def __str__(self) -> str:
        return f"{self.name}: {self.value} ({self.limit}), wanted {self.wanted}"

    @property
    def verdict(self) -> str:
        return "" if self.reached is None else "reached" if self.reached else "**missed**"


def thousands(number: float) -> str:
    return f"{number:,.0f}".replace(",", " ")


def measure(parts: Mapping[str, Callable[[], list[Figure]]], wanted: Sequence[str]) -> list[Figure] | None:
    """The figures of the wanted parts, of all if none is named, printed as they come; None, once said, if one is unknown."""
    if not parts.keys() >= set(wanted):
        print(f"choose among {', '.join(parts)}", file=sys.stderr)
        return None
    figures = list[Figure]()
    for name in wanted or parts:
        began = time.monotonic()
        for figure in parts[name]():
            print(figure, flush=True)
            figures.append(figure)
        print(f"  ({name}: {time.monotonic() - began:.0f} s)", flush=True)
    return figures


def page(title: str, figures: Sequence[Figure], took_s: float, note: str) -> str:
    """Markdown: a line for each figure."""
    head = "| what | figure | limit in the same run | wanted | |\n|---|---|---|---|---|\n"
    lines = [f"| {f.name} | {f.value} | {f.limit} | {f.wanted} | {f.verdict} |" for f in figures]
    where = f"{os.cpu_count()} cores, Python {platform.python_version()}, {took_s:.0f} s. {note}"
    return f"# {title}\n\n{where}\n\n{head}" + "\n".join(lines) + "\n"
