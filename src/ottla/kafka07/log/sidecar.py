"""One file of positions of Kafka 0.7, and the compressed messages kept for it.

`<base offset>.positions07` is a header and entries of 48 bytes each, big-endian, in the order of their offsets. Header and entries
are called records; each ends with its CRC-32C. An entry has the position at which a batch begins, and the batch's form; `<base
offset>.kept07` has the messages of batches of the form `KEPT`. Each entry has the number of records that were synced when it was
written. A power cut can tear the records behind these, but not these themselves, whose faults are damage.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from struct import Struct
from typing import Final, NamedTuple

from ottla.kafka07.log.names import KEPT_07, POSITIONS_07
from ottla.log.names import file_name
from ottla.ports import Buffer, Disk, File, StorageFailed
from ottla.records.checksum import crc32c

HEADER: Final = Struct(">4sIqqqq4xI")
"""Magic, version, base offset, its position, the end position of the previous file, its base offset, CRC-32C."""

ENTRY: Final = Struct(">qqqIIIIII")
"""Offset, position, place of the kept message in its file, CRC of the batch, size and CRC-32C of the kept message, number of
records synced before, kind, CRC-32C."""

END: Final = 15
"""The kind of an entry without a batch. It marks the end of the measured part at the beginning of a sync."""

RECORD_BYTES: Final = 48
CHECKED_BYTES: Final = RECORD_BYTES - 4
MAGIC: Final = b"OP07"
VERSION: Final = 0
FLUSH_BYTES: Final = 64 * 1024
PAGE_RECORDS: Final = 256
"""The number of records read at once."""


class Damaged07(StorageFailed):
    """Raised if the byte positions that are stored for Kafka 0.7 are unusable. The log itself is usable."""

    def __init__(self, path: str, sentence: str) -> None:
        advice = "Restore the file, or remove all *.positions07 and *.kept07 of the partition while the broker is stopped"
        super().__init__(path, f"{sentence} {advice}: clients of 0.7 restart then.")


def misfit(path: str) -> Damaged07:
    """Return the error for positions that do not match the log's batches."""
    return Damaged07(path, "it does not fit the log, which was changed without it.")


class Entry07(NamedTuple):
    """An entry: the batch of `offset`, whose header has `batch_crc`, begins at `position`. `kept_*` describe the kept message.

    `synced` is the number of records, including the header, that were on stable storage when this entry was written.
    """

    offset: int
    position: int
    kept_place: int
    batch_crc: int
    kept_size: int
    kept_crc: int
    synced: int
    kind: int


class Begin07(NamedTuple):
    """The content of a header: `position` is where the file's batches begin, `end_before` where the previous file's batches end.

    `base_before` is the base offset of the previous file; -1 for the first.
    """

    position: int
    end_before: int
    base_before: int = -1


class Sidecar07:
    """The entries of the batches from `base_offset` on, up to the next file's base offset."""

    __slots__ = ("_begin", "_buffer", "_count", "_directory", "_disk", "_file", "_kept", "base_offset", "synced")

    def __init__(self, disk: Disk, directory: str, base_offset: int) -> None:
        self.base_offset = base_offset
        self.synced = 0
        """The number of records that are certainly on stable storage."""
        self._disk = disk
        self._directory = directory
        self._file: File | None = None
        self._kept: File | None = None
        self._begin: Begin07 | None = None
        self._buffer = bytearray()
        self._count = -1

    @property
    def path(self) -> str:
        return f"{self._directory}/{file_name(self.base_offset, POSITIONS_07)}"

    @property
    def kept_path(self) -> str:
        return f"{self._directory}/{file_name(self.base_offset, KEPT_07)}"

    @property
    def file(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self.path)
        return self._file

    @property
    def count(self) -> int:
        if self._count < 0:
            self._count = max(0, self.file.size // RECORD_BYTES - 1)
        return self._count + len(self._buffer) // RECORD_BYTES

    @property
    def is_empty(self) -> bool:
        """Return whether the file is empty, because the disk failed when it was begun."""
        return not self.file.size

    @property
    def is_torn(self) -> bool:
        """Return whether the file ends within a record."""
        return self.file.size % RECORD_BYTES != 0

    @property
    def begin(self) -> Begin07:
        """Return the content of the header. Raises `Damaged07`."""
        if self._begin is None:
            self._begin = decode_header(self.file.read(0, RECORD_BYTES), self.base_offset)
            if self._begin is None:
                raise Damaged07(self.path, "its header is damaged.")
        return self._begin

    # Reading

    def entry(self, index: int) -> Entry07:
        """Return the entry with number `index`. Raises `Damaged07`."""
        return self.entries(index, 1)[0]

    def entries(self, index: int, most: int) -> list[Entry07]:
        """Return up to `most` entries from number `index` on. Raises `Damaged07`."""
        self.flush()
        data = self.file.read((index + 1) * RECORD_BYTES, min(most, self._count - index) * RECORD_BYTES)
        found = []
        for start in range(0, len(data) - RECORD_BYTES + 1, RECORD_BYTES):
            entry = decode_entry(data, start)
            if entry is None:
                raise Damaged07(self.path, f"the entry at byte {(index + 1) * RECORD_BYTES + start} is damaged.")
            found.append(entry)
        return found

    def last(self) -> Entry07 | None:
        """Return the last entry; None if there is none. Raises `Damaged07`."""
        return self.entry(self.count - 1) if self.count else None

    def before_offset(self, offset: int) -> int:
        """Return how many entries are of batches at or before `offset`. Raises `Damaged07`."""
        return bisect_right(range(self.count), offset, key=lambda index: self.entry(index).offset)

    def before_position(self, position: int) -> int:
        """Return how many entries begin at or before `position`. Raises `Damaged07`."""
        return bisect_right(range(self.count), position, key=lambda index: self.entry(index).position)

    def kept_message(self, entry: Entry07) -> bytes:
        """Return the kept message of a batch. Raises `Damaged07`."""
        is_there = self._kept is not None or self._disk.exists(self.kept_path)
        data = self._kept_file().read(entry.kept_place, entry.kept_size) if is_there else b""
        if len(data) != entry.kept_size or crc32c(data) != entry.kept_crc:
            raise Damaged07(self.kept_path, f"the message kept at byte {entry.kept_place} is damaged.")
        return data

    # Writing

    def write_header(self, begin: Begin07) -> None:
        """Create the file with only a header, or overwrite an existing one. Raises `StorageFailed`: it is then empty or missing."""
        self._buffer.clear()
        file = self._file = self._disk.open(self.path, create=True)
        file.truncate(0)
        file.append([encode_header(self.base_offset, begin)])
        if self._disk.exists(self.kept_path):
            self._kept_file().truncate(0)
        self._begin, self._count, self.synced = begin, 0, 0

    def add(self, offset: int, position: int, kind: int, batch_crc: int, kept: Buffer | None = None) -> None:
        """Add an entry behind the last one. Raises `StorageFailed` with nothing changed."""
        place = size = crc = 0
        if kept is not None:
            place, size, crc = self._kept_file(create=True).append([kept]), len(kept), crc32c(kept)
        data = ENTRY.pack(offset, position, place, batch_crc, size, crc, self.synced, kind, 0)[:CHECKED_BYTES]
        self._buffer += data + crc32c(data).to_bytes(4, "big")
        if len(self._buffer) >= FLUSH_BYTES:
            with suppress(StorageFailed):  # the entry stays in memory, and is written when there is space
                self.flush()

    def flush(self) -> None:
        """Write the entries in memory. Raises `StorageFailed`."""
        if self._buffer:
            before = self.count
            self.file.append([self._buffer])
            self._count = before
            self._buffer = bytearray()

    def dirty_files(self) -> list[File]:
        """Write all entries; return the files that must be synced, or none if all records are synced. Raises `StorageFailed`."""
        if self.synced > self.count:
            return []
        self.flush()
        return [self.file] if self._kept is None else [self._kept, self.file]

    def cut(self, count: int) -> None:
        """Keep the first `count` entries, durably. Raises `StorageFailed`."""
        self.flush()
        self.file.truncate((count + 1) * RECORD_BYTES)
        self._count = count
        if self._disk.exists(self.kept_path):
            self._kept_file().sync()
        self.file.sync()
        self.synced = count + 1

    def remove(self) -> None:
        """Remove the file of positions. The caller removes the kept messages later, by `remove_kept`. Raises `StorageFailed`."""
        self.close()
        if self._disk.exists(self.path):
            self._disk.remove(self.path)

    def remove_kept(self) -> None:
        """Remove the file of kept messages, after the removal of the positions is durable. Raises `StorageFailed`."""
        if self._disk.exists(self.kept_path):
            self._disk.remove(self.kept_path)

    def close(self) -> None:
        """Close the files. The next use opens them again."""
        for file in (self._file, self._kept):
            if file is not None:
                file.close()
        self._file = self._kept = None

    def _kept_file(self, *, create: bool = False) -> File:
        if self._kept is None:
            self._kept = self._disk.open(self.kept_path, create=create)
        return self._kept


def encode_header(base_offset: int, begin: Begin07) -> bytes:
    data = HEADER.pack(MAGIC, VERSION, base_offset, *begin, 0)[:CHECKED_BYTES]
    return data + crc32c(data).to_bytes(4, "big")


def decode_header(data: bytes, base_offset: int) -> Begin07 | None:
    """Parse a header; None if the header is damaged, or belongs to another file."""
    if len(data) < RECORD_BYTES or crc32c(data[:CHECKED_BYTES]) != int.from_bytes(data[CHECKED_BYTES:RECORD_BYTES], "big"):
        return None
    magic, version, base, position, end_before, base_before, _ = HEADER.unpack(data)
    return Begin07(position, end_before, base_before) if (magic, version, base) == (MAGIC, VERSION, base_offset) else None


def decode_entry(data: Buffer, start: int) -> Entry07 | None:
    """Parse the entry at byte `start` of `data`; None if the entry is damaged."""
    *fields, crc = ENTRY.unpack_from(data, start)
    return Entry07(*fields) if crc == crc32c(data[start : start + CHECKED_BYTES]) else None
