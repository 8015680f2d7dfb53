"""Bit rot in a journal at rest: one bit of one of its files is flipped between two lives of the process.

The block that was written last is spared: its damage can't be distinguished from a write that never ended (docs/durability.md).
"""

from __future__ import annotations

from random import Random

from ottla.log.journal.block_walk import heads
from ottla.log.journal.format import FILES, INCARNATION, KEPT, PLACES
from ottla.sim.disk import SimDisk

Extent = tuple[str, int, int]
"""The place of a block: (path of its file, position, the position behind it)."""


class JournalRot:
    """The flips of one life. A bit `is_at_work` from its flip until a start has found it, and the journal begins anew."""

    def __init__(self, disk: SimDisk, directory: str, random: Random) -> None:
        self._disk = disk
        self._directory = directory
        self._random = random
        self._written: list[Extent] = []
        self.is_at_work = False

    def note_write(self, path: str, position: int, size: int) -> None:
        """Note that a block is written."""
        self._written.append((path, position, position + size))

    def flip(self, *, is_writing: bool) -> None:
        """Flip a bit of a file that the next start reads. If the process `is_writing`, its last block was never acknowledged."""
        disk, random = self._disk, self._random
        paths = [path for name in (*FILES, INCARNATION, KEPT) if disk.exists(path := f"{self._directory}/{name}")]
        if not paths or random.random() < 0.5:
            return
        path = random.choice(paths)
        spared = [extent for extent in self._written[-2 if is_writing else -1 :] if extent[0] == path]
        extents = [extent for extent in self._written[:-1] if extent[0] == path]
        if path.endswith(KEPT):
            blocks = [(path, at, at + head.block_bytes) for at, head in heads(disk.open(path), PLACES.index(KEPT))]
            spared, extents = blocks[1:][-1:], blocks
        _, begin, end = random.choice(extents) if extents and random.random() < 0.8 else (path, 0, disk.size(path))
        at = random.randrange(begin, end)
        if not any(begin <= at < end for _, begin, end in spared):
            disk.flip_bit(path, 8 * at + random.randrange(8))
            self.is_at_work = True

    def end(self) -> None:
        """Note that the journal has begun anew, so that no block counts any more."""
        self.is_at_work = False
        self._written.clear()
