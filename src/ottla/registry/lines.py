"""The format of a journal of the registry: lines with checksums. The module uses the tree of entries, and opens no files.

The first line contains the format's number, the number of commits before this journal, and the number of entries after these
commits. A line for each entry follows, then a line for each commit. Zeros fill the rest of the file. They are room that the journal
already owns, so that a full disk cannot refuse a commit. At least one zero follows the last line, so that a truncated journal is
recognized.

A line is eight hexadecimal digits, a space and JSON. The digits are the CRC-32 of the JSON, seeded with the CRC-32 of the previous
line. So a line that was changed, lost, repeated or taken from another journal is detected. Values are bytes, written as Latin-1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from json import dumps, loads
from typing import Any
from zlib import crc32

from ottla.ports import Change, DuplicateEntry, NoEntry, VersionConflict
from ottla.registry.tree import StoredEntry, Tree

FORMAT = 1
DIGITS = 8


def write(value: object, chain: int) -> tuple[bytes, int]:
    """Encode a value as a line of the journal. Return (the line, its checksum).

    `chain` is the checksum of the previous line, or 0 for the first line.
    """
    text = dumps(value, separators=(",", ":")).encode() + b"\n"
    chain = crc32(text, chain)
    return b"%08x %b" % (chain, text), chain


def head(commits: int, entries: int) -> object:
    return {"registry": FORMAT, "commits": commits, "entries": entries}


def entry(path: str, node: StoredEntry) -> object:
    return [path, node.value.decode("latin-1"), node.version, int(node.ephemeral)]


def commit(number: int, changes: Sequence[Change]) -> object:
    return [number, [_change(change) for change in changes]]


def most_bytes(changes: Sequence[Change]) -> int:
    """Return an estimate of the size, in bytes, of a commit's line. It allows a second byte for each escaped quotation mark.

    The estimate is too low for values of many control or non-ASCII bytes, which JSON escapes with six bytes each.
    """
    return 64 + sum(32 + len(change.path) + 2 * len(change.value or b"") for change in changes)


def successor_line(commits: int) -> object:
    """Return the content of the last line of a journal that has a successor. The line marks the journal as not the newest."""
    return {"continued": commits}


def _change(change: Change) -> list[object]:
    if change.value is None:
        return [change.path]
    value = change.value.decode("latin-1")
    return [change.path, value, 1] if change.ephemeral else [change.path, value]


@dataclass(slots=True)
class JournalReading:
    """The contents of a journal, up to the first line that is not whole.

    `commits` is the number of the last commit, counted from the beginning of the registry; it is -1 if the entries are not whole.
    `end` is the position after the last whole line, and `chain` is the checksum of this line. `fault` is the position of the first
    byte that is in no whole line, or -1.
    """

    path: str
    data: bytes = b""
    tree: Tree = field(default_factory=Tree)
    commits: int = -1
    end: int = 0
    chain: int = 0
    fault: int = -1
    base: int = 0
    """The size of the first line and the entries, in bytes."""
    continued: bool = False
    newer_format: int = 0
    is_there: bool = True

    @property
    def is_whole(self) -> bool:
        """Return whether the journal can be read to its end."""
        return self.fault < 0

    def reaches_beyond(self, best: JournalReading) -> bool:
        """Return whether this journal has more than one line after the end of `best`, which can be this journal or its other copy.

        Lines that `best` contains do not count. A commit is written after the previous commit is on stable storage, so a crash
        leaves at most one torn line.
        """
        rest = self.data[best.end :].strip(b"\0")
        return b"\n" in rest[:-1] and rest not in best.data[: best.end]


def read(path: str, data: bytes) -> JournalReading:
    """Read a journal up to the first line that is not whole."""
    reading = JournalReading(path, data)
    try:
        _read_lines(reading)
    except (ValueError, TypeError, LookupError, AttributeError, DuplicateEntry, NoEntry, VersionConflict):
        reading.fault = reading.end
    return reading


def _read_lines(reading: JournalReading) -> None:
    """Read the lines into `reading`. Raises `ValueError`, or another exception, if the line at `reading.end` is not whole."""
    header = _read_header(reading)
    for _ in range(header["entries"]):
        text, chain = _next(reading)
        path, value, version, ephemeral = loads(text)
        reading.tree.put(path, StoredEntry(value.encode("latin-1"), version, bool(ephemeral)))
        _accept(reading, text, chain)
    reading.commits, reading.base = header["commits"], reading.end
    while not _is_room(reading.data, reading.end):
        text, chain = _next(reading)
        line = loads(text)
        if reading.continued:
            raise ValueError("nothing may follow the last line")
        if isinstance(line, dict):
            reading.continued = "continued" in line
        else:
            _read_commit(reading, *line)
        _accept(reading, text, chain)


def _is_room(data: bytes, position: int) -> bool:
    """Return whether only zeros follow `position`, and at least one: the reserved space of a journal.

    A journal without zeros at its end was truncated.
    """
    return data[position : position + 1] == b"\0" and data.count(b"\0", position) == len(data) - position


def _read_header(reading: JournalReading) -> dict[str, Any]:
    text, chain = _next(reading)
    header: dict[str, Any] = loads(text)
    if header["registry"] != FORMAT:
        reading.newer_format = int(header["registry"])
        raise ValueError("another format")
    _accept(reading, text, chain)
    return header


def _read_commit(reading: JournalReading, number: int, changes: list[list[Any]]) -> None:
    if number != reading.commits + 1:
        raise ValueError("not the next commit")
    reading.tree.commit([_read_change(*change) for change in changes])
    reading.commits = number


def _read_change(path: str, value: str | None = None, ephemeral: int = 0) -> Change:
    return Change(path, None if value is None else value.encode("latin-1"), None, bool(ephemeral))


def _next(reading: JournalReading) -> tuple[bytes, int]:
    """Return (the JSON of the next line with its newline, its checksum). Raises `ValueError` if the line is not whole."""
    begin = reading.end + DIGITS + 1
    text = reading.data[begin : reading.data.index(b"\n", begin) + 1]
    chain = crc32(text, reading.chain)
    if reading.data[reading.end : begin] != b"%08x " % chain:
        raise ValueError("the checksum does not fit")
    return text, chain


def _accept(reading: JournalReading, text: bytes, chain: int) -> None:
    reading.end += DIGITS + 1 + len(text)
    reading.chain = chain
