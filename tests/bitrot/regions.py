"""The byte regions of every kind of file in a data directory, each with a name that says what it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ottla.log.journal.format import HEADER as BLOCK_HEADER
from ottla.log.journal.format import MAGIC as BLOCK_MAGIC
from ottla.log.producer_state.producers import SNAPSHOT_ENTRY, SNAPSHOT_HEAD
from ottla.log.segments.transaction_index import ENTRY as ABORTED
from ottla.records.batches.header import HEADER_BYTES, batches

BATCH_FIELDS = (
    *(("base_offset", 8), ("batch_length", 4), ("leader_epoch", 4), ("magic", 1), ("crc", 4), ("attributes", 2)),
    *(("last_offset_delta", 4), ("base_timestamp", 8), ("max_timestamp", 8), ("producer_id", 8), ("producer_epoch", 2)),
    *(("base_sequence", 4), ("record_count", 4)),
)
SNAPSHOT_HEAD_FIELDS = (("version", 2), ("crc", 4), ("count", 4))
SNAPSHOT_FIELDS = (
    *(("producer_id", 8), ("producer_epoch", 2), ("last_sequence", 4), ("last_offset", 8), ("offset_delta", 4)),
    *(("timestamp", 8), ("coordinator_epoch", 4), ("txn_first_offset", 8)),
)
ABORTED_FIELDS = (("version", 2), ("producer_id", 8), ("first_offset", 8), ("last_offset", 8), ("last_stable_offset", 8))
SUM_BYTES = 8
BLOCK_FIELDS = (
    *(("magic", 8), ("crc", 4), ("version", 2), ("file", 2), ("incarnation", 8), ("sequence", 8), ("oldest", 8)),
    *(("position", 8), ("block_bytes", 8), ("data_bytes", 8), ("entries", 4), ("entries_before", 4)),
)
PIECES = 16
"""Into how many pieces a file of unknown form is divided."""

Fields = Sequence[tuple[str, int]]


class Region(NamedTuple):
    """`size` bytes of a file from `position`."""

    name: str
    position: int
    size: int


def regions(path: str, data: bytes) -> list[Region]:
    """All regions of a file; `path` is relative to the data directory. None of an empty file."""
    if not data:
        return []
    name = path.rpartition("/")[2]
    for pattern, find in KINDS:
        if re.search(pattern, name):
            found = list(find(data))
            return [region for region in found if region.size and region.position + region.size <= len(data)]
    return list(_pieces(data))


def kind(path: str) -> str:
    """What outcomes are counted under: the end of a file's name, without the numbers in it."""
    name = path.rpartition("/")[2]
    found = re.fullmatch(r"\d{20}(\..+)", name)
    return found[1] if found else re.sub(r"\d+", "N", name)


def picked(items: Sequence[tuple[int, int]]) -> Iterator[tuple[str, int, int]]:
    """(name, position, size) of the first, a middle and the last one of (position, size)."""
    wanted = {0: "first", len(items) // 2: "middle", len(items) - 1: "last"}
    if items:
        yield from ((word, *items[number]) for number, word in sorted(wanted.items()))


def _fields(prefix: str, position: int, fields: Fields) -> Iterator[Region]:
    for name, size in fields:
        yield Region(f"{prefix}{name}", position, size)
        position += size


def _log(data: bytes) -> Iterator[Region]:
    for word, position, size in picked([(at, header.size) for at, header in batches(data)]):
        yield from _fields(f"{word}.", position, BATCH_FIELDS)
        body = size - HEADER_BYTES
        yield Region(f"{word}.records_begin", position + HEADER_BYTES, min(4, body))
        yield Region(f"{word}.records_middle", position + HEADER_BYTES + body // 2, min(4, body // 2))
        yield Region(f"{word}.records_end", position + size - 1, 1)
        yield Region(f"{word}.records", position + HEADER_BYTES, body)
        yield Region(f"{word}.batch", position, size)


def _entries(data: bytes, fields: Fields, head: Fields = ()) -> Iterator[Region]:
    start, width = sum(size for _, size in head), sum(size for _, size in fields)
    yield from _fields("head.", 0, head)
    for word, position, size in picked([(at, width) for at in range(start, len(data) - width + 1, width)]):
        yield from _fields(f"{word}.", position, fields)
        yield Region(f"{word}.entry", position, size)


def _text(data: bytes) -> Iterator[Region]:
    """Each word of the first lines, of one in the middle and of the last two."""
    lines = [(found.start(), found.end()) for found in re.finditer(rb"[^\n]*\n|[^\n]+", data)]
    wanted = sorted({*range(min(4, len(lines))), len(lines) // 2, *range(max(0, len(lines) - 2), len(lines))})
    for number in wanted:
        start, end = lines[number]
        for count, word in enumerate(re.finditer(rb"[^\s=:]+", data[start:end])):
            yield Region(f"line{number}.word{count}", start + word.start(), word.end() - word.start())
        yield Region(f"line{number}.end", end - 1, 1)
        yield Region(f"line{number}", start, end - start)


def _journal(data: bytes) -> Iterator[Region]:
    """Each line of the registry's journal: its checksum, its beginning, something in it, its end. Then the room behind it."""
    lines = [(found.start(), found.end()) for found in re.finditer(rb"[^\n\0]*\n", data)]
    for number, (start, end) in enumerate(lines):
        yield Region(f"line{number}.sum", start, min(SUM_BYTES, end - start))
        yield Region(f"line{number}.begin", start + SUM_BYTES + 1, min(8, max(0, end - start - SUM_BYTES - 1)))
        yield Region(f"line{number}.middle", (start + end) // 2, 4)
        yield Region(f"line{number}.end", end - 1, 1)
        yield Region(f"line{number}", start, end - start)
    after = lines[-1][1] if lines else 0
    yield Region("room.begin", after, 1)
    yield Region("room.middle", (after + len(data)) // 2, 16)


def _blocks(data: bytes) -> Iterator[Region]:
    """The fields of the header of some blocks of a log directory's journal, their tables and their bytes, and the room behind."""
    found = [(at, data.find(BLOCK_MAGIC, at + 1)) for at in (match.start() for match in re.finditer(BLOCK_MAGIC, data))]
    for word, position, size in picked([(at, (after if after > 0 else at + BLOCK_HEADER.size) - at) for at, after in found]):
        yield from _fields(f"{word}.", position, BLOCK_FIELDS)
        yield Region(f"{word}.tables", position + BLOCK_HEADER.size, 4)
        yield Region(f"{word}.middle", position + size // 2, 4)
        yield Region(f"{word}.block", position, size)
    yield Region("room.end", len(data) - 16, 16)


def _pieces(data: bytes) -> Iterator[Region]:
    width = max(1, len(data) // PIECES)
    yield from (Region(f"at{at}", at, min(width, len(data) - at)) for at in range(0, len(data), width))


KINDS: Sequence[tuple[str, Callable[[bytes], Iterator[Region]]]] = (
    (r"\.log$", _log),
    (r"\.index$", lambda data: _entries(data, (("offset", 4), ("position", 4)))),
    (r"\.timeindex$", lambda data: _entries(data, (("timestamp", 8), ("offset", 4)))),
    (r"\.txnindex$", lambda data: _entries(data, ABORTED_FIELDS)),
    (r"\.snapshot$", lambda data: _entries(data, SNAPSHOT_FIELDS, SNAPSHOT_HEAD_FIELDS)),
    (r"checkpoint$|^partition\.metadata$|^meta\.properties$|^\.kafka_cleanshutdown$", _text),
    (r"\.journal$", _journal),
    (r"^[01]$|^kept$", _blocks),
)

assert sum(size for _, size in BATCH_FIELDS) == HEADER_BYTES
assert sum(size for _, size in BLOCK_FIELDS) == BLOCK_HEADER.size
assert sum(size for _, size in SNAPSHOT_FIELDS) == SNAPSHOT_ENTRY.size
assert sum(size for _, size in SNAPSHOT_HEAD_FIELDS) == SNAPSHOT_HEAD.size
assert sum(size for _, size in ABORTED_FIELDS) == ABORTED.size
