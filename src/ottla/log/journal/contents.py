"""The contents of a journal's files at a start: whole entries by partition, and what is damaged.

Only blocks of the incarnation in use count. The one with the highest sequence whose header is whole says which is the oldest block
that is still needed. All blocks between the two had been acknowledged, because a block is written once the one before is durable:
damage of one of these is damage. If the last block itself is not whole, its write was torn and never acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.log.journal.format import (
    DAMAGE,
    FILES,
    HEADER,
    INCARNATION,
    KEPT,
    MAGIC,
    PLACES,
    SECTOR_BYTES,
    VOID,
    BlockHead,
    EntryHead,
    Key,
    NewerJournal,
    SavedEntry,
    head_bytes,
    unpack_head,
    unpack_table,
)
from ottla.log.journal.incarnations import DAMAGED_INCARNATION, pack_incarnation, read_incarnation
from ottla.ports import Disk, File, FileSlice
from ottla.records.checksum import crc32c

CHUNK_BYTES: Final = 4 << 20
"""The bytes of one read. A larger block is read as one piece."""


class Damage(NamedTuple):
    """The loss of acknowledged batches of a partition below `next_offset`, unless its own log has them. `sentence` says where."""

    next_offset: int
    sentence: str


class JournalBlock(NamedTuple):
    """A block with a whole header in `file`. `bad` has the numbers of the rows whose bytes are damaged."""

    file: File
    position: int
    head: BlockHead
    rows: list[EntryHead]
    bad: frozenset[int] = frozenset()


@dataclass(slots=True)
class Contents:
    """The result of `read_journal`: what a start has to put back, in `entries`, and what is lost.

    `incarnation` is the highest one seen. A partition in `damaged` may lack batches that were acknowledged. `unattributed` says
    which loss cannot be attributed to partitions, and `torn` which block was never acknowledged; both are "" if there is none.
    """

    incarnation: int = 0
    entries: dict[Key, list[SavedEntry]] = field(default_factory=dict)
    damaged: dict[Key, Damage] = field(default_factory=dict)
    unattributed: str = ""
    torn: str = ""
    blocks: int = 0
    block_bytes: int = 0

    @property
    def is_whole(self) -> bool:
        return not self.damaged and not self.unattributed


def read_journal(disk: Disk, directory: str) -> Contents:
    """Read the journal in `directory`: the kept file first, then both files. Raises `StorageFailed`.

    The entries' bytes are verified, but not kept in memory.
    """
    found = Contents()
    if disk.exists(f"{directory}/{KEPT}"):
        kept = {block.head.sequence: block for block in _blocks(disk, directory, KEPT, found, 0)}
        if not kept:
            found.unattributed = found.unattributed or f"{directory}/{KEPT} is damaged: acknowledged records may be lost."
        _collect(found, directory, kept, 1, max(kept, default=0))
    in_use = read_incarnation(disk, directory)
    names = [name for name in FILES if disk.exists(f"{directory}/{name}")]
    blocks = {block.head.sequence: block for name in names for block in _blocks(disk, directory, name, found, in_use)}
    found.incarnation = max(found.incarnation, in_use)
    if in_use == DAMAGED_INCARNATION or (not in_use and found.incarnation):
        found.unattributed = f"{directory}/{INCARNATION} is missing or damaged: which blocks are to be replayed is not known."
    elif blocks:
        if len({disk.size(f"{directory}/{name}") for name in names}) != 1 or names != list(FILES):
            found.unattributed = (
                f"a file of {directory} is missing or has another size: blocks with acknowledged records may be lost."
            )
        _collect_needed(found, directory, blocks)
    return found


def latest_incarnation(disk: Disk, directory: str) -> int:
    """Return the incarnation in use, without reading the blocks; 0 without a journal. Raises `StorageFailed`."""
    in_use = read_incarnation(disk, directory)
    return read_journal(disk, directory).incarnation if in_use == DAMAGED_INCARNATION else in_use


def begin_anew(disk: Disk, directory: str, incarnation: int) -> None:
    """Make every block of another incarnation void; durable on return. Nothing happens without a journal. Raises `StorageFailed`.

    Every entry must be in its own log, and synced there, or be in the kept file.
    """
    if any(disk.exists(f"{directory}/{name}") for name in (*FILES, INCARNATION)):
        disk.write_file(f"{directory}/{INCARNATION}", pack_incarnation(incarnation))


class _Window:
    """Reads a file in large pieces, and returns views of them."""

    def __init__(self, file: File) -> None:
        self.file = file
        self.size = file.size
        self._data = b""
        self._base = 0

    def view(self, position: int, size: int) -> memoryview:
        """Return `size` bytes from `position`, or fewer at the end of the file."""
        start = position - self._base
        if start < 0 or start + size > len(self._data):
            self._data, self._base = self.file.read(position, max(size, CHUNK_BYTES)), position
            start = 0
        return memoryview(self._data)[start : start + size]

    def find(self, position: int) -> int:
        """Return the position of the next sector, from `position` on, that begins like a block; the file's size if none does."""
        while position < self.size:
            self.view(position, SECTOR_BYTES)
            start = self._data.find(MAGIC, position - self._base)
            if start < 0:
                position = self._base + len(self._data)
            elif (self._base + start) % SECTOR_BYTES:
                position = self._base + start + SECTOR_BYTES - (self._base + start) % SECTOR_BYTES
            else:
                return self._base + start
        return self.size


def heads(file: File, number: int) -> Iterator[tuple[int, BlockHead, _Window]]:
    """Yield (position, header, window) of each block with a whole header in a file (an index in `PLACES`), of any incarnation.

    Raises `NewerJournal`.
    """
    window, position = _Window(file), 0
    while (position := window.find(position)) < window.size:
        size = head_bytes(window.view(position, HEADER.size))
        head = unpack_head(window.view(position, size), number, position) if 0 < size <= window.size - position else None
        if head is None:
            position += SECTOR_BYTES
            continue
        yield position, head, window
        position += max(head.block_bytes, SECTOR_BYTES)


def verify_block(file: File, position: int, head: BlockHead, window: _Window) -> JournalBlock:
    """Return a block after computing the CRC of each entry."""
    data = window.view(head.data_from, head.data_bytes)
    rows, bad, start = head.entries(), [], 0
    for number, row in enumerate(rows):
        end = start + row.size
        if end > len(data) or crc32c(data[start:end]) != row.crc:
            bad.append(number)
        start = end
    return JournalBlock(file, position, head, rows, frozenset(bad))


def _blocks(disk: Disk, directory: str, name: str, found: Contents, in_use: int) -> Iterator[JournalBlock]:
    """Yield the blocks of the incarnation in use, and note the highest incarnation."""
    file = disk.open(f"{directory}/{name}")
    try:
        for position, head, window in heads(file, PLACES.index(name)):
            found.incarnation = max(found.incarnation, head.incarnation)
            if head.incarnation == in_use:
                yield verify_block(file, position, head, window)
    except NewerJournal:
        found.unattributed = f"{file.path} has blocks of a newer version of Ottla: start that version, and stop it cleanly."


def _collect_needed(found: Contents, directory: str, blocks: dict[int, JournalBlock]) -> None:
    newest = max(blocks)
    last = blocks[newest]
    if last.bad:
        found.torn = f"{last.file.path}: the last block, at byte {last.position}, is incomplete: its write never ended."
    _collect(found, directory, blocks, last.head.oldest, newest - bool(last.bad))


def _collect(found: Contents, directory: str, blocks: dict[int, JournalBlock], first: int, last: int) -> None:
    """Add the entries and the damage of all blocks from sequence `first` to `last`."""
    for sequence in range(first, last + 1):
        block, after = blocks.get(sequence), blocks.get(sequence + 1)
        if block is not None:
            found.blocks += 1
            found.block_bytes += block.head.block_bytes
            _collect_block(found, block)
        elif after is not None:
            where = f"{directory}: block {sequence} is unreadable"
            _collect_lost(found, where, unpack_table(after.head.before))
        else:
            found.unattributed = found.unattributed or f"{directory}: block {sequence} and the next one are unreadable."


def _collect_block(found: Contents, block: JournalBlock) -> None:
    position = block.head.data_from
    for number, row in enumerate(block.rows):
        if number in block.bad or row.kind == VOID:
            _collect_lost(found, f"{block.file.path}: the block at byte {block.position} is damaged", (row,))
        elif row.kind == DAMAGE:
            sentence = block.file.read(position, row.size).decode(errors="replace")
            found.damaged[row.key] = Damage(row.next_offset, sentence)
        else:
            data = FileSlice(block.file, position, row.size)
            saved = SavedEntry(row.base_offset, row.next_offset, row.leader_epoch, data, row.crc)
            found.entries.setdefault(row.key, []).append(saved)
        position += row.size


def _collect_lost(found: Contents, where: str, rows: Iterable[EntryHead]) -> None:
    """Apply the rows of entries whose bytes are lost. A void needs no bytes."""
    for row in rows:
        if row.kind == VOID:
            found.entries.pop(row.key, None)
            found.damaged.pop(row.key, None)
        else:
            sentence = f"{where}, with the acknowledged offsets {row.base_offset} to {row.next_offset - 1}."
            before = found.damaged.get(row.key)
            found.damaged[row.key] = Damage(
                max(row.next_offset, before.next_offset if before else 0), before.sentence if before else sentence
            )
