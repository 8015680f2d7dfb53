"""The machine of a log directory's journal: two files in turn, one block at a time.

| state | changes to |
|---|---|
| made | beginning, by `begin` |
| beginning | ready, once both files exist; failed |
| ready | writing, by `write` and `void`; closed, by `close` |
| writing | ready, once the block is durable; failed |

A file is used again only after each partition in it has synced its own files (`note_synced`), is void or was deleted (`forget`),
and after a durable block says that its blocks are no longer needed: a power cut in the first write over it then leaves nothing
that looks like damage. Each file has room at its end for that block, and for entries that make partitions void.

The machine uses the disk's port and no logs: the caller decides which bytes are written, and collects more while `is_writing`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from ottla.log.journal.format import (
    DATA,
    ENTRY,
    FILES,
    HEADER,
    INCARNATION,
    INCOMPLETE,
    MARK,
    BlockPlace,
    JournalEntry,
    Key,
    pack_entry,
    pack_head,
    pack_void,
    pad_size,
)
from ottla.log.journal.incarnations import pack_incarnation, read_incarnation
from ottla.log.name_places import joined, parent
from ottla.ports import Disk, Done, Room, StorageFailed

ROW_BYTES: Final = 2 * ENTRY.size
"""The bytes that each entry takes of `Journal.room_bytes` in addition to its data: in its own block, and in the next one."""

VOID_RESERVE_BYTES: Final = 64 << 10
"""The most bytes at the end of each file that only voids may use, so that a full journal can still make partitions void."""

ROOM_STEP_BYTES: Final = 4096
"""The size of a file, in bytes, is a multiple of this, as `Disk.make_room` demands. A user's number need not be one."""

OnFull = Callable[[Mapping[Key, int]], None]


class JournalFile:
    """One of the two files: where its next block goes, the first sequence of its present turn, and the partitions in it.

    `ends` has the partitions that still need a sync of their own files, each with the end of its entries. `keys` has all partitions
    with entries that a replay may find.
    """

    __slots__ = ("ends", "keys", "number", "position", "room", "turn")

    def __init__(self, number: int, room: Room) -> None:
        self.number = number
        self.room = room
        self.position = 0
        self.turn = 0
        self.ends: dict[Key, int] = {}
        self.keys: set[Key] = set()

    def begin_turn(self, sequence: int) -> None:
        self.position, self.turn = 0, sequence
        self.keys.clear()


class Journal:
    """The journal in `directory`. All calls and callbacks are on the broker's thread.

    `incarnation` is that of `begin_anew`, or is greater than `latest_incarnation`. `on_full(ends)` is called when a file is left
    for the other: the caller then syncs the files of these partitions in the background, and calls `note_synced`.
    """

    def __init__(self, disk: Disk, directory: str, file_bytes: int, incarnation: int, on_full: OnFull) -> None:
        self.incarnation = incarnation
        self.is_ready = False
        self.is_writing = False
        self.failure: StorageFailed | None = None
        self._disk = disk
        self._directory = directory
        self._file_bytes = file_bytes - file_bytes % ROOM_STEP_BYTES
        self._void_reserve = min(VOID_RESERVE_BYTES, file_bytes // 8)
        self._on_full = on_full
        self._files: list[JournalFile] = []
        self._current = 0
        self._sequence = 0
        self._oldest = 0
        self._table = b""

    def begin(self, done: Done) -> None:
        """Create both files, and begin an incarnation, which invalidates all older blocks. `done` gets the failure, or None.

        `done` is called only after this method has returned. After a failure the journal stays unusable.
        """
        try:
            self._disk.make_dir(self._directory)
            if read_incarnation(self._disk, self._directory) == self.incarnation:
                self._make_room(done, None)
                return
            file = self._disk.open(f"{self._directory}/{INCARNATION}{INCOMPLETE}", create=True)
            file.truncate(0)
            file.append([pack_incarnation(self.incarnation)])
            self._disk.sync_soon([file], partial(self._name_incarnation, done))
        except StorageFailed as failure:
            self._disk.sync_soon([], partial(self._fail, done, failure))

    def _name_incarnation(self, done: Done, failure: StorageFailed | None) -> None:
        if failure is not None:
            self._fail(done, failure)
            return
        name = f"{self._directory}/{INCARNATION}"
        try:
            self._disk.rename(name + INCOMPLETE, name, sync=False)
            self._disk.sync_soon([self._disk.directory(self._directory)], partial(self._make_room, done))
        except StorageFailed as refused:
            self._fail(done, refused)

    def _make_room(self, done: Done, failure: StorageFailed | None) -> None:
        """Make the next of the two files, or end `begin`."""
        if failure is not None:
            self._fail(done, failure)
            return
        number = len(self._files)
        if number == len(FILES):
            self._mark(done)
            return
        try:
            room = self._disk.make_room(f"{self._directory}/{FILES[number]}", self._file_bytes, partial(self._make_room, done))
        except StorageFailed as refused:
            self._fail(done, refused)
            return
        self._files.append(JournalFile(number, room))

    def _mark(self, done: Done) -> None:
        """Make the mark durable which says that there is a journal, unless there is one."""
        directory = parent(self._directory)
        path = joined(directory, MARK)
        try:
            if self._disk.exists(path):
                self._be_ready(done, None)
                return
            mark = self._disk.open(path, create=True)
            mark.append([f"{self._directory}\n".encode()])
            self._disk.sync_soon([mark, self._disk.directory(directory)], partial(self._be_ready, done))
        except StorageFailed as failure:
            self._fail(done, failure)

    def _be_ready(self, done: Done, failure: StorageFailed | None) -> None:
        if failure is not None:
            self._fail(done, failure)
            return
        self._files[0].turn = 1
        self.is_ready = True
        done(None)

    def _fail(self, done: Done, failure: StorageFailed, _: StorageFailed | None = None) -> None:
        self.failure = failure
        self.is_ready = self.is_writing = False
        done(failure)

    def close(self) -> None:
        """Close the files. A write that is running completes."""
        self.is_ready = False
        for file in self._files:
            file.room.close()

    # Writing

    def room_bytes(self) -> int:
        """Return the bytes of data, plus `ROW_BYTES` for each entry, that one write can take at present. 0 if there is no room."""
        if not self.is_ready:
            return 0
        file, other = self._pair()
        return max(self._free_bytes(file, file.position), 0 if other.ends else self._free_bytes(other, 0))

    def write(self, entries: Sequence[JournalEntry], done: Done) -> bool:
        """Start to write the entries as one block. `done` is called when it is durable, or with the failure.

        Return False with nothing changed if they do not fit at present. Raises `StorageFailed`, with nothing changed, if their
        bytes cannot be read.
        """
        assert not self.is_writing, "one block at a time: collect while is_writing"
        target = self._target(len(entries) * ENTRY.size, sum([entry.size for entry in entries]), self._void_reserve)
        if target is None:
            return False
        rows, buffers = [], []
        for key, base_offset, next_offset, leader_epoch, parts, size in entries:
            data = parts[0].read() if len(parts) == 1 else b"".join([part.read() for part in parts])
            if len(data) != size:
                raise StorageFailed(parts[-1].file.path, f"it ends before byte {parts[-1].position + parts[-1].size}")
            rows.append(pack_entry(DATA, key, base_offset, next_offset, leader_epoch, data))
            buffers.append(data)
        self._start(target, b"".join(rows), buffers, partial(self._finish, done))
        for entry in entries:
            target.ends[entry.key] = entry.next_offset
            target.keys.add(entry.key)
        return True

    def void(self, keys: Sequence[Key], done: Done) -> bool:
        """Start to write a block that makes all earlier entries of these partitions void. `done` is called when it is durable.

        Return False with nothing changed if it does not fit at present.
        """
        assert not self.is_writing, "one block at a time: collect while is_writing"
        table = b"".join(map(pack_void, keys))
        target = self._target(len(table), 0, 0)
        if target is None:
            return False
        self._start(target, table, [], partial(self._finish_void, keys, done))
        return True

    def _pair(self) -> tuple[JournalFile, JournalFile]:
        """Return the file that is written to, and the other one."""
        return self._files[self._current], self._files[1 - self._current]

    def _free_bytes(self, file: JournalFile, position: int) -> int:
        alignment = file.room.alignment
        left = file.room.size - self._void_reserve - position - pad_size(HEADER.size + ENTRY.size, alignment)
        return max(0, left // alignment * alignment - HEADER.size - len(self._table))

    def _fits(self, file: JournalFile, position: int, table_bytes: int, data_bytes: int, reserve: int) -> bool:
        """Return whether a block fits at a position of a file, and after it a block without entries that repeats its table."""
        alignment = file.room.alignment
        block_bytes = pad_size(HEADER.size + table_bytes + len(self._table) + data_bytes, alignment)
        return position + block_bytes + pad_size(HEADER.size + table_bytes, alignment) <= file.room.size - reserve

    def _target(self, table_bytes: int, data_bytes: int, reserve: int) -> JournalFile | None:
        if not self.is_ready:
            return None
        file, other = self._pair()
        if self._fits(file, file.position, table_bytes, data_bytes, reserve):
            return file
        return other if not other.ends and self._fits(other, 0, table_bytes, data_bytes, reserve) else None

    def _start(self, target: JournalFile, table: bytes, buffers: list[bytes], done: Done) -> None:
        """Start to write a block into `target`. If that is the other file, leave the present one for it.

        If the durable blocks still need the former ones in `target`, a block without entries is written first.
        """
        self.is_writing = True
        present, other = self._pair()
        if target is present:
            self._put(present, other.turn if other.ends else present.turn, table, buffers, done)
            return
        must_release = self._oldest < present.turn
        self._current = target.number
        target.begin_turn(self._sequence + 1 + must_release)
        self._on_full(dict(present.ends))
        put_first = partial(self._put_first, target, present, table, buffers, done)
        if must_release:
            self._put(present, present.turn, b"", [], put_first)
        else:
            put_first(None)

    def _put_first(
        self,
        target: JournalFile,
        former: JournalFile,
        table: bytes,
        buffers: list[bytes],
        done: Done,
        failure: StorageFailed | None,
    ) -> None:
        """Write the first block of a file's turn, after the last one in the `former` file."""
        if failure is not None:
            done(failure)
            return
        self._put(target, former.turn if former.ends else target.turn, table, buffers, done)

    def _put(self, file: JournalFile, oldest: int, table: bytes, buffers: list[bytes], done: Done) -> None:
        """Start the write of a file's next block. Once it is durable, blocks before the sequence `oldest` are not needed."""
        sequence = self._sequence + 1
        data_bytes = sum(map(len, buffers))
        block_bytes = pad_size(HEADER.size + len(table) + len(self._table) + data_bytes, file.room.alignment)
        place = BlockPlace(file.number, file.position, self.incarnation, sequence, oldest)
        head = pack_head(place, block_bytes, data_bytes, table, self._table)
        position, file.position = file.position, file.position + block_bytes
        self._sequence, self._table = sequence, table
        file.room.write_soon(position, [head, *buffers], partial(self._note_durable, oldest, done))

    def _note_durable(self, oldest: int, done: Done, failure: StorageFailed | None) -> None:
        if failure is None:
            self._oldest = oldest
        done(failure)

    def _finish(self, done: Done, failure: StorageFailed | None) -> None:
        self.is_writing = False
        if failure is not None:
            self._fail(done, failure)
            return
        done(None)

    def _finish_void(self, keys: Sequence[Key], done: Done, failure: StorageFailed | None) -> None:
        if failure is None:
            for key in keys:
                self.forget(key)
        self._finish(done, failure)

    # Which partitions need the journal

    def note_synced(self, key: Key, offset: int) -> None:
        """Record that the partition's own files are synced below `offset`."""
        for file in self._files:
            if file.ends.get(key, offset + 1) <= offset:
                del file.ends[key]

    def forget(self, key: Key) -> None:
        """Note that a partition is deleted, so that its entries are not needed."""
        for file in self._files:
            file.ends.pop(key, None)
            file.keys.discard(key)

    def holds(self, key: Key) -> bool:
        """Return whether a replay may find entries of the partition, so that a truncation needs a void first."""
        return any(key in file.keys for file in self._files)

    def ends(self) -> Mapping[Key, int]:
        """Return the partitions whose own files still need a sync, each with the end of its entries in the journal."""
        if not self._files:
            return {}
        file, other = self._pair()
        return {**other.ends, **file.ends}
