"""The input lines that were not delivered, with the reasons. Consecutive lines with the same reason are one entry. Pure."""

from __future__ import annotations

from collections.abc import Iterator

MOST_ENTRIES = 20


class LineFailures:
    """The lines that were not delivered. At most `MOST_ENTRIES` entries are kept; the lines of others are only counted."""

    def __init__(self) -> None:
        self.count = 0
        self._left_out = 0
        self._entries: list[tuple[int, int, str]] = []

    def add(self, number: int, reason: str, count: int = 1) -> None:
        self.count += count
        last = number + count - 1
        if self._entries and self._entries[-1][1:] == (number - 1, reason):
            self._entries[-1] = (self._entries[-1][0], last, reason)
        elif len(self._entries) < MOST_ENTRIES:
            self._entries.append((number, last, reason))
        else:
            self._left_out += count

    def rows(self) -> Iterator[dict[str, object]]:
        """Yield an object for each entry: the first and the last line, and the reason."""
        for first, last, reason in self._entries:
            yield {"line": first, "last_line": last, "reason": reason}

    def sentences(self, unit: str) -> Iterator[str]:
        """Yield a line of text for each entry, and finally the number of omitted lines."""
        for first, last, reason in self._entries:
            yield f"{unit} {first}: {reason}" if first == last else f"{unit}s {first} to {last}: {reason}"
        if self._left_out:
            yield f"and {plural(self._left_out, 'more ' + unit)}"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
