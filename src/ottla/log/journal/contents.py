"""The contents of a journal's files at a start: whole entries by partition, and what is damaged.

Only blocks of the incarnation in use count. The one with the highest sequence whose header is whole says which is the oldest block
that is still needed. All blocks between the two had been acknowledged, because a block is written once the one before is durable:
damage of one of these is damage. If the last block itself is not whole, its write was torn and never acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.log.journal.block_walk import FileWindow, walk
from ottla.log.journal.format import (
    DAMAGE,
    DATA,
    ENTRY,
    FILES,
    HEADER,
    INCARNATION,
    INCOMPLETE,
    KEPT,
    MARK,
    PLACES,
    VOID,
    EntryHead,
    Fields,
    Key,
    NewerJournal,
    unpack_table,
)
from ottla.log.journal.incarnations import DAMAGED_INCARNATION, read_incarnation, write_incarnation
from ottla.log.journal.saved_entries import PLACE_SHIFT, POSITION_MASK, SavedEntries
from ottla.log.name_places import joined, parent
from ottla.ports import Disk, File, StorageFailed
from ottla.records.checksum import crc32c

NONE_LOST: Final = "None is lost, since the machine has not restarted: the partitions' own files have all of them."
"""Follows `Contents.unattributed` after a kill without a reboot."""


class Damage(NamedTuple):
    """The loss of acknowledged batches of a partition below `next_offset`, unless its own log has them. `sentence` says where."""

    next_offset: int
    sentence: str


@dataclass(slots=True)
class Contents:
    """The result of `read_journal`: what a start has to put back, in `entries`, and what is lost.

    `incarnation` is the highest one seen. A partition in `damaged` may lack batches that were acknowledged. `unattributed` says
    which loss cannot be attributed to partitions, and `torn` which block was never acknowledged; both are "" if there is none.
    With `is_kept_damaged`, `unattributed` concerns the kept file, whose records were lost before the last process started.
    `blocks` and `block_bytes` count the blocks that are needed.
    """

    incarnation: int = 0
    entries: dict[Key, SavedEntries] = field(default_factory=dict)
    damaged: dict[Key, Damage] = field(default_factory=dict)
    unattributed: str = ""
    is_kept_damaged: bool = False
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
    return _Reading(disk, directory).run()


def latest_incarnation(disk: Disk, directory: str) -> int:
    """Return the incarnation in use; 0 without a journal. Raises `StorageFailed`.

    The blocks are read only if the file with the number is damaged or missing: then return their highest incarnation.
    """
    in_use = read_incarnation(disk, directory)
    is_lost = in_use == DAMAGED_INCARNATION or (not in_use and any(disk.exists(f"{directory}/{name}") for name in FILES))
    return read_journal(disk, directory).incarnation if is_lost else in_use


def begin_anew(disk: Disk, directory: str, incarnation: int) -> None:
    """Invalidate the blocks of all other incarnations, durably. Do nothing without a journal. Raises `StorageFailed`.

    Every entry must be in its own log, and synced there, or be in the kept file.
    """
    if any(disk.exists(f"{directory}/{name}") for name in (*FILES, INCARNATION)):
        write_incarnation(disk, directory, incarnation)


def has_mark(disk: Disk, directory: str) -> bool:
    """Return whether the journal in `directory` was complete before, so that it is lost if its files are missing."""
    return disk.exists(joined(parent(directory), MARK))


def drop_mark(disk: Disk, directory: str) -> None:
    """Remove the mark of a journal whose files are missing, so that the loss is reported once. Raises `StorageFailed`."""
    if has_mark(disk, directory) and not all(disk.exists(f"{directory}/{name}") for name in FILES):
        disk.remove(joined(parent(directory), MARK))


def drop_incomplete(disk: Disk, directory: str) -> None:
    """Remove files that a killed process had not completed. They would take space although no journal is used."""
    with suppress(StorageFailed):  # the next start tries again, and no journal reads them
        for name in disk.list(directory):
            if name.endswith(INCOMPLETE):
                disk.remove(f"{directory}/{name}")


class _Reading:
    """One reading of a journal. `_blocks` has the place and position of each block of an incarnation, by sequence."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._found = Contents()
        paths = [f"{directory}/{name}" for name in PLACES]
        self._files: Sequence[File | None] = [disk.open(path) if disk.exists(path) else None for path in paths]
        self._windows = [FileWindow(file) if file is not None else None for file in self._files]
        self._blocks: dict[int, int] = {}

    def run(self) -> Contents:
        found, directory = self._found, self._directory
        kept, *files = PLACES.index(KEPT), *map(PLACES.index, FILES)
        if self._files[kept] is not None:
            self._find_blocks(kept, 0)
            if not self._blocks:
                found.unattributed = found.unattributed or f"{directory}/{KEPT} is damaged: acknowledged records may be lost."
                found.is_kept_damaged = True
            self._collect(1, max(self._blocks, default=0))
            self._blocks.clear()
        in_use = read_incarnation(self._disk, directory)
        for place in files:
            self._find_blocks(place, in_use)
        found.incarnation = max(found.incarnation, in_use)
        if in_use == DAMAGED_INCARNATION or (not in_use and found.incarnation):
            unknown = "which blocks are to be replayed is not known, and acknowledged records may be lost."
            found.unattributed = found.unattributed or f"{directory}/{INCARNATION} is missing or damaged: {unknown}"
        elif self._lacks_a_file():
            lacking = f"{directory}: the file {' or '.join(FILES)} is missing or has another size, or both are missing"
            found.unattributed = found.unattributed or f"{lacking}: acknowledged records may be lost."
        if self._blocks and in_use not in (0, DAMAGED_INCARNATION):
            self._collect_needed()
        return found

    def _lacks_a_file(self) -> bool:
        """Return whether blocks of the incarnation in use may be lost with a file."""
        first, second = (self._files[PLACES.index(name)] for name in FILES)
        if first is None or second is None:
            return bool(self._blocks) or second is not None or has_mark(self._disk, self._directory)
        return bool(self._blocks) and first.size != second.size

    def _find_blocks(self, place: int, in_use: int) -> None:
        """Add the blocks of the incarnation `in_use` in one file, and note the highest incarnation."""
        file, blocks, highest, above = self._files[place], self._blocks, 0, place << PLACE_SHIFT
        if file is None:
            return
        try:
            for position, fields, _ in walk(file, place):
                incarnation, sequence = fields[4:6]
                if incarnation == in_use:
                    blocks[sequence] = above | position
                if incarnation > highest:
                    highest = incarnation
        except NewerJournal:
            newer = f"{file.path} has blocks of a newer version of Ottla: start that version, and stop it cleanly"
            self._found.unattributed = f"{newer}, or acknowledged records may be lost."
        self._found.incarnation = max(self._found.incarnation, highest)

    def _collect_needed(self) -> None:
        """Add the blocks that the last one needs. Without its data, the last one was never acknowledged."""
        newest = max(self._blocks)
        window, position, fields, head = self._block(newest)
        oldest, data_bytes = fields[6], fields[9]
        data = window.view(position + len(head), data_bytes)
        start, is_torn = 0, False
        for row in unpack_table(_table(fields, head)):
            is_torn |= start + row.size > len(data) or crc32c(data[start : start + row.size]) != row.crc
            start += row.size
        if is_torn:
            self._found.torn = f"{window.file.path}: the last block, at byte {position}, is incomplete: its write never ended."
        self._collect(oldest, newest - is_torn)

    def _block(self, sequence: int) -> tuple[FileWindow, int, Fields, memoryview]:
        """Return (window, position, fields, header with its tables) of a block that was found."""
        place = self._blocks[sequence]
        window, position = self._windows[place >> PLACE_SHIFT], place & POSITION_MASK
        assert window is not None, "a block was found in it"
        fields: Fields = HEADER.unpack(window.view(position, HEADER.size))
        return window, position, fields, window.view(position, HEADER.size + (fields[10] + fields[11]) * ENTRY.size)

    def _collect(self, first: int, last: int) -> None:
        """Add the entries and the damage of all blocks from sequence `first` to `last`."""
        found, directory = self._found, self._directory
        for sequence in range(first, last + 1):
            if sequence in self._blocks:
                self._collect_block(sequence)
            elif sequence + 1 in self._blocks:
                _, _, fields, head = self._block(sequence + 1)
                before = bytes(head[HEADER.size + fields[10] * ENTRY.size :])
                self._collect_lost(f"{directory}: block {sequence} is unreadable", unpack_table(before))
            else:
                found.unattributed = found.unattributed or f"{directory}: block {sequence} and the next one are unreadable."

    def _collect_block(self, sequence: int) -> None:
        window, position, fields, head = self._block(sequence)
        found, entries = self._found, self._found.entries
        found.blocks += 1
        block_bytes, data_bytes = fields[8:10]
        found.block_bytes += block_bytes
        data = window.view(position + len(head), data_bytes)
        place, start = self._blocks[sequence] + len(head), 0
        for row in ENTRY.iter_unpack(_table(fields, head)):
            kind, _, _, base_offset, next_offset, leader_epoch, size, crc = row
            end = start + size
            if kind == DATA and crc32c(data[start:end]) == crc:
                saved = entries.get(row[1:3])  # type: ignore[call-overload]  # a tuple equals its named tuple
                if saved is None:
                    saved = entries[Key(row[1], row[2])] = SavedEntries(self._files)
                saved.numbers.extend((base_offset, next_offset, leader_epoch, place + start, size, crc))
            elif kind == DAMAGE and crc32c(data[start:end]) == crc:
                found.damaged[Key(row[1], row[2])] = Damage(next_offset, bytes(data[start:end]).decode(errors="replace"))
            else:
                where = f"{window.file.path}: the block at byte {position} is damaged"
                self._collect_lost(where, (EntryHead._make(row),))
            start = end

    def _collect_lost(self, where: str, rows: Iterable[EntryHead]) -> None:
        """Apply the rows of entries whose bytes are lost. A void needs no bytes."""
        found = self._found
        for row in rows:
            if row.kind == VOID:
                found.entries.pop(row.key, None)
                found.damaged.pop(row.key, None)
                continue
            sentence = f"{where}, with the acknowledged offsets {row.base_offset} to {row.next_offset - 1}."
            known = found.damaged.get(row.key, Damage(0, sentence))
            found.damaged[row.key] = Damage(max(row.next_offset, known.next_offset), known.sentence)


def _table(fields: Fields, head: memoryview) -> memoryview:
    """Return the table of a block's entries."""
    return head[HEADER.size : HEADER.size + fields[10] * ENTRY.size]
