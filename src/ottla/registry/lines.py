"""What a journal of the registry is made of: lines with checksums. Knows the tree of entries; opens no files.

The first line says which format it is, how many commits came before, and how many entries these left; then comes a line for each
entry, then a line for each commit. What follows is zeros: room that is the journal's already, so that a full disk cannot refuse it,
and at least one of them, so that a journal that was cut is known by it.
A line is eight hexadecimal digits, a space and JSON. The digits are the CRC-32 of the JSON, begun with that of the line before, so
that no line can change, be missing, come twice or come from another journal unnoticed. Values are bytes, written as Latin-1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from json import dumps, loads
from typing import Any
from zlib import crc32

from ottla.ports import Change, EntryExists, NoEntry, VersionConflict
from ottla.registry.tree import StoredEntry, Tree

FORMAT = 1
DIGITS = 8


def write(value: object, chain: int) -> tuple[bytes, int]:
    """(the line, its checksum) where the line before has the checksum `chain`; 0 for the first."""
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
    """About how many bytes the line of a commit takes, rather more than less: JSON has a second byte for each quotation mark."""
    return 64 + sum(32 + len(change.path) + 2 * len(change.value or b"") for change in changes)


def continued(commits: int) -> object:
    """The last line of a journal after which another one was begun, so that nobody takes it for the newest."""
    return {"continued": commits}


def _change(change: Change) -> list[object]:
    if change.value is None:
        return [change.path]
    value = change.value.decode("latin-1")
    return [change.path, value, 1] if change.ephemeral else [change.path, value]


@dataclass(slots=True)
class JournalReading:
    """What a journal holds, as far as it is whole.

    `commits` counts all that ever were; it is -1 where the entries at the beginning are not whole. `end` is the byte behind the
    last whole line and `chain` that line's checksum. `fault` is the first byte that belongs to no whole line, or -1.
    """

    path: str
    data: bytes = b""
    tree: Tree = field(default_factory=Tree)
    commits: int = -1
    end: int = 0
    chain: int = 0
    fault: int = -1
    base: int = 0
    """How many bytes the entries take."""
    continued: bool = False
    newer_format: int = 0
    is_there: bool = True

    @property
    def is_whole(self) -> bool:
        """Whether it can be read to its end."""
        return self.fault < 0

    def reaches_beyond(self, best: JournalReading) -> bool:
        """Whether there is more than one line behind the end of `best`, that is not repeated from it.

        A commit is written once the one before is on stable storage, so that no crash leaves more than one torn line.
        """
        rest = self.data[best.end :].strip(b"\0")
        return b"\n" in rest[:-1] and rest not in best.data[: best.end]


def read(path: str, data: bytes) -> JournalReading:
    """Read a journal as far as it is whole."""
    reading = JournalReading(path, data)
    try:
        _read_lines(reading)
    except (ValueError, TypeError, LookupError, AttributeError, EntryExists, NoEntry, VersionConflict):
        reading.fault = reading.end
    return reading


def _read_lines(reading: JournalReading) -> None:
    """Raises `ValueError`, or another error of a value that is not what it should be, at the line that begins at `reading.end`."""
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
    """Whether nothing but zeros follows, of which there is always one: a journal without was cut."""
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
    """(the JSON of the next line with its end, its checksum). Raises `ValueError` if the line is not whole."""
    begin = reading.end + DIGITS + 1
    text = reading.data[begin : reading.data.index(b"\n", begin) + 1]
    chain = crc32(text, reading.chain)
    if reading.data[reading.end : begin] != b"%08x " % chain:
        raise ValueError("the checksum does not fit")
    return text, chain


def _accept(reading: JournalReading, text: bytes, chain: int) -> None:
    reading.end += DIGITS + 1 + len(text)
    reading.chain = chain
