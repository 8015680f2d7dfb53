"""Transaction markers in a log: control batches, and the index of aborted transactions (KIP-98).

The index has the format of Kafka's `.txnindex`. It is derived: entries lost in a crash are restored when the batches are replayed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from struct import Struct
from typing import NamedTuple, overload

from ottla.ports import Buffer, Disk, File
from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import HEADER_BYTES, MAGIC, BatchHeader, read_header
from ottla.records.checksum import crc32c
from ottla.wire import Malformed, decode
from ottla.wire.data.control_records import ControlRecordTypeSchema, EndTxnMarker

ABORT, COMMIT = 0, 1

ENTRY = Struct(">hqqqq")
"""version, producer_id, first_offset, last_offset, last_stable_offset"""

VERSION = 0

ORDINARY = Struct(">5shhBhiB")
"""The one record of a marker as every broker writes it: up to the size of its key, the key (version, type), the size of its value,
the value (version, coordinator epoch), headers."""
ORDINARILY = (b"\x20\x00\x00\x00\x08", 12, 0)


class Aborted(NamedTuple):
    """An aborted transaction: its first record, its marker, and the last stable offset after its end."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


COLUMNS = len(Aborted._fields)


class Summed(NamedTuple):
    """The number of entries in a transaction index, and the CRC-32C of all entries."""

    entries: int
    crc: int


class Marker(NamedTuple):
    """A transaction marker. Its `coordinator_epoch` fences older coordinators: they cannot write another marker."""

    type: int
    coordinator_epoch: int


def read_marker(batch: Buffer) -> Marker | None:
    """Return the transaction marker in a control batch. Return None for another control record, and without a record.

    Compaction can have removed the record.
    """
    if len(batch) == HEADER_BYTES + ORDINARY.size:
        begins, _, kind, value_bytes, _, coordinator_epoch, headers = ORDINARY.unpack_from(batch, HEADER_BYTES)
        header = read_header(batch)
        is_single = header.magic == MAGIC and not header.codec and header.record_count == 1
        if (begins, value_bytes, headers) == ORDINARILY and kind in (ABORT, COMMIT) and is_single:
            return Marker(kind, coordinator_epoch)
    try:
        record = next(iter(open_batches(batch, control=True).records()), None)
        if record is None:
            return None
        kind = decode(ControlRecordTypeSchema, 0, (record.key or b"")[2:]).type
        if kind not in (ABORT, COMMIT):
            return None
        return Marker(kind, decode(EndTxnMarker, 0, (record.value or b"")[2:]).coordinator_epoch)
    except (ValueError, Malformed):
        return None


class AbortedEntries(Sequence[Aborted]):
    """Aborted transactions in the order of their markers, 32 bytes each."""

    __slots__ = ("_values",)

    def __init__(self, entries: Iterable[Aborted] = ()) -> None:
        self._values = array("q", chain.from_iterable(entries))

    def __len__(self) -> int:
        return len(self._values) // COLUMNS

    @overload
    def __getitem__(self, number: int) -> Aborted: ...

    @overload
    def __getitem__(self, number: slice) -> list[Aborted]: ...

    def __getitem__(self, number: int | slice) -> Aborted | list[Aborted]:
        if isinstance(number, slice):
            return [self[at] for at in range(*number.indices(len(self)))]
        if not 0 <= number < len(self):
            raise IndexError(number)
        return Aborted(*self._values[COLUMNS * number : COLUMNS * (number + 1)])

    def append(self, entry: Aborted) -> None:
        """Add a transaction that ended after all others."""
        self._values.extend(entry)

    def ended_from(self, offset: int) -> Iterator[Aborted]:
        """Yield, in order, the transactions whose markers are at `offset` or later."""
        for number in range(self.number_before(offset), len(self)):
            yield self[number]

    def number_before(self, offset: int) -> int:
        """Return how many transactions have their markers before `offset`."""
        return bisect_left(range(len(self)), offset, key=lambda number: self._values[COLUMNS * number + 2])

    def replace(self, kept: int, ended: Iterable[Aborted]) -> None:
        """Keep the first `kept` entries, and replace the others by `ended`."""
        del self._values[COLUMNS * kept :]
        self._values.extend(chain.from_iterable(ended))


class TransactionIndex:
    """A segment's transaction index: the aborted transactions whose markers are in the segment. It has no file without entries."""

    __slots__ = ("_disk", "_entries", "_file", "_path", "_summed")

    def __init__(self, disk: Disk, path: str, *, new: bool) -> None:
        self._summed = Summed(0, 0)
        self._disk = disk
        self._path = path
        self._file: File | None = None
        self._entries: AbortedEntries | None = AbortedEntries() if new else None

    @property
    def entries(self) -> AbortedEntries:
        if self._entries is None:
            self._entries = AbortedEntries(read_entries(self._disk.read_file(self._path)) if self._disk.exists(self._path) else ())
        return self._entries

    def add(self, aborted: Aborted) -> None:
        """Add a transaction. Raises `StorageFailed` after it was added in memory."""
        self.entries.append(aborted)
        if self._file is None:
            self._file = self._disk.open(self._path, create=True)
            torn = self._file.size % ENTRY.size
            if torn:
                self._file.truncate(self._file.size - torn)
        self._file.append([ENTRY.pack(VERSION, *aborted)])

    def replace_from(self, offset: int, ended: Sequence[Aborted]) -> None:
        """Durably replace the transactions that ended at `offset` or later by `ended`. Raises `StorageFailed`."""
        kept = self.entries.number_before(offset)
        if self.entries[kept:] == list(ended) and self.is_whole():
            return
        self.entries.replace(kept, ended)
        self._summed = Summed(0, 0)
        self.close()
        self._disk.write_file(self._path, b"".join(ENTRY.pack(VERSION, *entry) for entry in self.entries))

    def is_whole(self) -> bool:
        """Return whether the file has the size of the entries in memory. After a crash the file can be torn or have holes."""
        stored = self._disk.size(self._path) if self._disk.exists(self._path) else 0
        return stored == len(self.entries) * ENTRY.size

    def checksum(self) -> Summed:
        """Return the number and the CRC-32C of the entries. Only entries added after the last call are read."""
        count, crc = self._summed
        for entry in self.entries[count:]:
            crc = crc32c(ENTRY.pack(VERSION, *entry), crc)
        self._summed = Summed(len(self.entries), crc)
        return self._summed

    def is_as_noted(self, noted: Summed, *, may_be_more: bool) -> bool:
        """Return whether the file begins with the entries that `noted` describes. It may have more only if `may_be_more`.

        Raises `StorageFailed`.
        """
        data = memoryview(self._disk.read_file(self._path) if self._disk.exists(self._path) else b"")
        size = noted.entries * ENTRY.size
        return (may_be_more or len(data) == size) and len(data) >= size and crc32c(data[:size]) == noted.crc

    def sync(self) -> None:
        """Sync the file, whose bytes a killed broker may have left in the page cache. Raises `StorageFailed`."""
        if self._disk.exists(self._path):
            file = self._disk.open(self._path)
            file.sync()
            file.close()

    def dirty_file(self) -> File | None:
        """Return the file if this process has written to it, to be synced; otherwise None."""
        return self._file

    def remove(self) -> None:
        self.close()
        self._entries, self._summed = AbortedEntries(), Summed(0, 0)
        if self._disk.exists(self._path):
            self._disk.remove(self._path)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def read_entries(data: Buffer) -> list[Aborted]:
    """Return the valid entries of an index file. Drop an incomplete last entry, and entries whose offsets are out of order."""
    whole = len(data) - len(data) % ENTRY.size
    found: list[Aborted] = []
    for version, *fields in ENTRY.iter_unpack(memoryview(data)[:whole]):
        entry = Aborted(*fields)
        if version == VERSION and entry.first_offset < entry.last_offset > (found[-1].last_offset if found else 0):
            found.append(entry)
    return found


class TransactionsInOrder:
    """The aborted transactions that compaction meets while it reads batches in order.

    `aborted` are the aborted transactions that ended in or after these batches.
    """

    __slots__ = ("_aborted", "_next", "_open", "_seen")

    def __init__(self, aborted: Iterable[Aborted]) -> None:
        self._aborted = sorted(aborted, key=lambda entry: entry.first_offset)
        self._next = 0
        self._open: dict[int, Aborted] = {}
        self._seen: set[int] = set()

    def is_aborted(self, header: BatchHeader) -> bool:
        """Return whether this batch of records belongs to a transaction that was aborted. Call it for the batches in order."""
        if not header.is_transactional:
            return False
        self._begin(header.last_offset)
        self._seen.add(header.producer_id)
        entry = self._open.get(header.producer_id)
        return entry is not None and header.base_offset <= entry.last_offset

    def ends_nothing(self, header: BatchHeader) -> bool:
        """Return whether no batch was read of the transaction that this control batch ends."""
        self._begin(header.last_offset)
        self._open.pop(header.producer_id, None)
        if header.producer_id in self._seen:
            self._seen.discard(header.producer_id)
            return False
        return True

    def _begin(self, offset: int) -> None:
        while self._next < len(self._aborted) and self._aborted[self._next].first_offset <= offset:
            entry = self._aborted[self._next]
            self._open[entry.producer_id] = entry
            self._next += 1
