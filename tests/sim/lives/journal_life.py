"""The life of a process with several logs and one journal: power cuts, kills, faults, topics deleted and made anew.

The process does what a broker does, in the fewest lines: which unsynced records go into the journal, when a log's own files are
synced, what a cut must wait for, and what a start puts back. Beside what `JournaledLog` checks of each log: no file of the journal
is overwritten while a log needs it, and none is damaged by a power cut. A flipped bit takes partitions offline, each of which is
named, or is reported as a loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

from ottla.log.errors import Damaged
from ottla.log.journal.contents import Damage, begin_anew, read_journal
from ottla.log.journal.format import DATA, ENTRY, HEADER, JournalEntry, Key, unpack_table
from ottla.log.journal.journal import ROW_BYTES, Journal
from ottla.log.journal.kept_file import drop_kept, keep_unapplied, void_kept
from ottla.log.journal.replay import replay
from ottla.log.journal.saved_entries import SavedEntry
from ottla.log.unsynced_batches import UnsyncedBatches
from ottla.ports import Buffer, Done, StorageFailed
from ottla.sim.disk import IO_ERROR, NO_SPACE
from ottla.sim.power import CutDisk, PowerCut
from ottla.sim.rooms import SimRoom
from ottla.sim.storage import SECTOR_BYTES
from tests.sim.lives.journal_rot import JournalRot
from tests.sim.lives.journaled_log import JournaledLog
from tests.sim.lives.life import Act

DIRECTORY = "journal"
MOST_LOGS = 4


class Killed(Exception):
    """The process is killed in the middle of something."""


OnWrite = Callable[[str, int, bytes], None]


class WatchedRoom(SimRoom):
    """A room whose writes are passed to `on_write(path, position, data)` before they begin."""

    on_write: OnWrite

    def write_soon(self, position: int, buffers: Sequence[Buffer], done: Done) -> None:
        self.on_write(self.path, position, b"".join(buffers))
        super().write_soon(position, buffers, done)


class WatchedDisk(CutDisk):
    """A disk that loses power, with watched rooms."""

    on_write: OnWrite

    def make_room(self, path: str, size: int, done: Done) -> SimRoom:
        room = WatchedRoom(self, path, path, size)
        room.on_write = self.on_write
        self.add_pending([room], done)
        return room


class JournalLife:
    """One process at a time, its logs, and what is known of them. Every choice comes from `random`, and of bit rot from `rot`."""

    def __init__(self, random: Random, rot: Random | None = None) -> None:
        self.random = random
        self.disk = WatchedDisk()
        self.disk.on_write = self._look_at_write
        self.rot = JournalRot(self.disk, DIRECTORY, rot) if rot is not None else None
        self.disk.room_alignment = random.choice([SECTOR_BYTES, SECTOR_BYTES, 2048])
        self.file_bytes = random.choice([8, 16, 32]) * self.disk.room_alignment
        self.most_bytes = random.choice([200, 800, 1 << 20])
        self.cuts = 0
        """The number of power cuts so far."""
        self.is_lazy = random.random() < 0.3
        """Whether own files are not synced for the sake of the journal, so that it has no room soon."""
        self.held: dict[str, list[tuple[int, dict[Key, int]]]] = {}
        """(position, what the block holds: the end of each log) of the blocks in each file of the journal."""
        self.offline: set[JournaledLog] = set()
        """Logs that are not served: they could not be opened, or a sync of theirs failed."""
        self.due: dict[Key, int] = {}
        """Logs whose own files the journal waits for."""
        self.contents = read_journal(self.disk, DIRECTORY)
        self.entries: dict[Key, Sequence[SavedEntry]] = {}
        """What the journal held when the process started, of the logs that are not open yet."""
        self.kept: dict[Key, list[SavedEntry]] = {}
        """The entries of logs that were not open when the journal began anew."""
        self.damaged: dict[Key, Damage] = {}
        """The losses of logs that are offline because of them."""
        self.suspects: set[JournaledLog] = set()
        """Logs that were there when a loss was reported without their names, and have not been opened since."""
        self.journal: Journal | None = None
        self.logs: list[JournaledLog] = []
        self._begin()
        for _ in range(random.randrange(1, MOST_LOGS + 1)):
            self.create()

    def act(self) -> None:
        """Do something: most often with one log."""
        try:
            self._act()
        except Killed:
            self.disk.heal()
            self.revive()

    def _act(self) -> None:
        online = [one for one in self.logs if one not in self.offline]
        chance = self.random.random()
        if not online or chance < 0.1:
            self.random.choice([self.create, self.delete, self.open_late, *([] if self.is_lazy else [self.sync_due] * 2)])()
        elif chance < 0.45:
            one = self.random.choice(online)
            for _ in range(self.random.choice([1, 1, 2, 6])):
                one.append()
            self.sync_together(one, one.work_a_little)
        else:
            self.random.choice(self.random.choice(online).acts())()

    # What a process does

    def sync_together(self, first: JournaledLog, meanwhile: Act | None = None) -> None:
        """Make logs durable: by one write to the journal where that is possible, otherwise in their own files.

        `meanwhile` is done while the syncs are under way. Raises `StorageFailed`.
        """
        others = [one for one in self.logs if one is not first and one not in self.offline and self.random.random() < 0.4]
        found: dict[JournaledLog, UnsyncedBatches] = {}
        room_bytes = self._room_bytes()
        for one in (first, *others):
            batches = one.log.unsynced_batches(self.most_bytes)
            if batches is None or batches.size + ROW_BYTES > room_bytes or self.random.random() < 0.05:
                one.sync_own_files_beside(meanwhile or _nothing)
            elif batches.size:
                found[one] = batches
                room_bytes -= batches.size + ROW_BYTES
        if found:
            self._write(found, meanwhile or _nothing)

    def _room_bytes(self) -> int:
        """Return how much the journal can take now. The first call makes it, as does the first sync of a broker."""
        if self.journal is None:
            self.journal = Journal(self.disk, DIRECTORY, self.file_bytes, self.contents.incarnation, self._on_full)
            outcomes: list[StorageFailed | None] = []
            self.journal.begin(outcomes.append)
            if self.random.random() < 0.5:
                self._await(outcomes)
        return self.journal.room_bytes() if self._is_usable else 0

    @property
    def _is_usable(self) -> bool:
        return self.journal is not None and self.journal.is_ready and not self.journal.is_writing

    @property
    def may_cut(self) -> bool:
        """Return whether a log may be cut now: a journal that has failed can take no void."""
        return self.journal is None or self._is_usable

    def _write(self, found: Mapping[JournaledLog, UnsyncedBatches], meanwhile: Act) -> None:
        """Write these batches into the journal, and wait for the end of the write."""
        entries = [
            JournalEntry(one.key, batches.base_offset, batches.end.offset, one.log.leader_epoch, batches.parts, batches.size)
            for one, batches in found.items()
        ]
        outcomes: list[StorageFailed | None] = []
        assert self.journal is not None, "it has said how much it can take"
        assert self.journal.write(entries, outcomes.append), "the journal refuses what it said it can take"
        meanwhile()
        self._suffer()
        self._await(outcomes)
        if outcomes[0] is not None:
            self.offline.update(one for one in found if one in self.logs)
            raise outcomes[0]
        for one, batches in found.items():
            one.log.mark_journaled(batches)
            one.synced = max(one.synced, batches.end.offset)

    def void(self, one: JournaledLog) -> None:
        """Make durable that the entries of a log count no longer, before it is cut. Raises `StorageFailed`."""
        if self.journal is None or not self.journal.holds(one.key):
            return
        outcomes: list[StorageFailed | None] = []
        if not self.journal.void([one.key], outcomes.append):
            for other in self.logs:
                if other not in self.offline:
                    other.sync_own_files()
            if not self.journal.void([one.key], outcomes.append):
                assert self.offline, "every log is synced, and the journal has no room for a void"
                raise StorageFailed(DIRECTORY, "it has no room for a void")
        self._suffer()
        self._await(outcomes)
        if outcomes[0] is not None:
            raise outcomes[0]
        for blocks in self.held.values():
            for _, ends in blocks:
                ends.pop(one.key, None)

    def _suffer(self) -> None:
        """Sometimes let a write to the journal be cut off: by a power cut, or by the end of the process."""
        chance = self.random.random()
        if chance < 0.03 and self.disk.cut_at >= 0:
            self.disk.cut_at = self.disk.operations
        elif chance < 0.05:
            raise Killed

    def _await(self, outcomes: list[StorageFailed | None]) -> None:
        while not outcomes:
            assert self.disk.run_syncs(), "the journal awaits nothing, and has not answered"

    def note_synced(self, one: JournaledLog) -> None:
        if self.journal is not None:
            self.journal.note_synced(one.key, one.log.synced_offset)
        self.due.pop(one.key, None)

    def _on_full(self, ends: Mapping[Key, int]) -> None:
        self.due.update(ends)

    def sync_due(self) -> None:
        """Sync the own files of one of the logs that the journal waits for, as a broker does in the background."""
        due = [one for one in self.logs if one.key in self.due and one not in self.offline]
        if due:
            self.random.choice(due).sync_own_files()

    # Topics

    def create(self) -> None:
        """Create a topic at a free path."""
        free = [path for path in PATHS if all(one.path != path for one in self.logs)]
        if free:
            self.logs.append(JournaledLog(self.random, self.disk, self.random.choice(free), self.random.randbytes(16), self))

    def delete(self) -> None:
        """Delete a topic for good. Another one gets its name later, and another id."""
        if self.random.random() < 0.5 or not self.logs:
            return
        one = self.random.choice(self.logs)
        self.logs.remove(one)
        if self.journal is not None:
            self.journal.forget(one.key)
        self._forget_kept(one.key)
        if one in self.offline:
            self.offline.discard(one)
            self.disk.remove_tree(one.path)
        else:
            one.log.delete()
        self.disk.sync_dir("")
        self.disk.run_syncs()

    # Ends and starts

    def stop(self) -> None:
        """Stop in order, and start."""
        if self.offline:
            self.revive()
            return
        before = {one: one.close() for one in self.logs}
        self.disk.kill()
        self._start(clean=True)
        for one, state in before.items():
            one.compare_after_stop(state)

    def revive(self) -> None:
        """Kill the process alone: nothing is lost."""
        before = {one: one.state for one in self.logs if one not in self.offline}
        self.disk.kill(self.random)
        self._rot()
        self._start_at_last()
        for one in self.logs:
            assert one not in self.offline or one not in before, f"{one.path} is offline: {self.damaged}"
            if one not in self.offline:
                one.compare_after_kill(before.get(one))

    def restart(self) -> None:
        """Restart after a power cut, perhaps with more of them during the start."""
        while True:
            self.cuts += 1
            self.disk.crash(self.random)
            self._rot()
            if self.random.random() < 0.3:
                self.disk.cut_soon(self.random.choice([40, 200]), self.random)
            try:
                self._start_at_last(left_closed=0.05)
                break
            except PowerCut:
                pass
        self.disk.cut_at = -1
        for one in self.logs:
            if one not in self.offline:
                one.accept_what_is_left()

    def _start_at_last(self, left_closed: float = 0.0) -> None:
        """Start. Sometimes the disk refuses something first, which must do no harm."""
        if self.random.random() < 0.2:
            self.disk.fail(self.random.randrange(80), self.random.choice([IO_ERROR, NO_SPACE]))
            has_failed = False
            try:
                self._start()
            except Damaged:
                raise
            except StorageFailed:
                has_failed = True
            self.disk.heal()
            if has_failed or self.disk.has_failed_names:
                self.disk.kill(self.random)
            else:
                return
        self._start(left_closed=left_closed)

    def _start(self, *, clean: bool = False, left_closed: float = 0.0) -> None:
        """Open every log, but for a share of them that is `left_closed`, and begin the journal anew."""
        self._read()
        self.offline = {one for one in self.logs if self.random.random() < left_closed}
        for one in self.logs:
            one.was_left_closed = one in self.offline
            if not one.was_left_closed:
                self._open(one, clean=clean)
        self._begin()

    def _open(self, one: JournaledLog, *, clean: bool = False) -> None:
        """Open a log, which goes offline if a flipped bit took records of it."""
        try:
            one.open(clean=clean)
        except Damaged:
            if one.key not in self.damaged and one not in self.suspects:
                raise
            self.offline.add(one)
            return
        if one in self.suspects:
            one.synced = 0  # also in the middle of a compacted log, where the loss can pass for another program's compaction

    def _rot(self) -> None:
        """Flip a bit of the journal, if it rots in this life."""
        if self.rot is not None and not self.rot.is_at_work:
            self.rot.flip(is_writing=self.journal is not None and self.journal.is_writing)

    def _read(self) -> None:
        """Read the journal, and remove what was left of deleted topics."""
        self.due.clear()
        self.contents = read_journal(self.disk, DIRECTORY)
        self.entries = {**self.contents.entries}
        damaged = self.contents.damaged
        if self.rot is None or not self.rot.is_at_work:
            is_expected = damaged.keys() <= self.damaged.keys() and not self.contents.unattributed
            assert is_expected, f"the journal is damaged: {damaged} {self.contents.unattributed}"
        if self.contents.unattributed:
            self.suspects.update(self.logs)
        self.damaged = {one.key: damaged[one.key] for one in self.logs if one.key in damaged}
        for path in PATHS:
            if all(one.path != path for one in self.logs) and self.disk.exists(path):
                self.disk.remove_tree(path)
        self.disk.sync_dir("")

    def has_entries(self, one: JournaledLog) -> bool:
        return one.key in self.entries or one.key in self.damaged

    def replay(self, one: JournaledLog) -> None:
        replay(one.log, self.entries.get(one.key, ()), one.now, self.damaged.get(one.key))

    def _begin(self) -> None:
        """Begin the journal anew, after the logs have been opened and have got what they lacked."""
        for one in self.logs:
            if one not in self.offline:
                one.sync_all()
                self.entries.pop(one.key, None)
        self.suspects &= self.offline
        there = {one.key for one in self.offline}
        kept = {key: entries for key, entries in self.entries.items() if key in there}
        self.damaged = {key: damage for key, damage in self.damaged.items() if key in there}
        self.kept = keep_unapplied(self.disk, DIRECTORY, kept, self.damaged)
        self.entries = {**self.kept}
        if self.contents.incarnation:
            self.contents.incarnation += 1
            begin_anew(self.disk, DIRECTORY, self.contents.incarnation)
        else:
            self.contents.incarnation = 1
        self.held.clear()
        self.journal = None
        if self.rot is not None:
            self.rot.end()

    def open_late(self) -> None:
        """Open a log that could not be opened when the process started."""
        late = [one for one in self.offline if one.key in self.kept or one.was_left_closed]
        if late:
            one = self.random.choice(sorted(late, key=lambda one: one.path))
            self.offline.discard(one)
            self._open(one)
            if one not in self.offline:
                self.suspects.discard(one)
                one.sync_all()
                self._forget_kept(one.key)
                one.accept_what_is_left()

    def _forget_kept(self, key: Key) -> None:
        """Make durable that the kept entries of a log count no longer."""
        has_damage = self.damaged.pop(key, None) is not None
        if self.kept.pop(key, None) is not None or has_damage:
            if self.kept or self.damaged:
                void_kept(self.disk, DIRECTORY, [key])
            else:
                drop_kept(self.disk, DIRECTORY)

    # What must be true

    def _look_at_write(self, path: str, position: int, data: bytes) -> None:
        """Check that what is overwritten is not needed, and note what is written."""
        if self.rot is not None:
            self.rot.note_write(path, position, len(data))
        blocks = self.held.setdefault(path, [])
        if blocks and position <= blocks[-1][0]:
            logs = {one.key: one for one in self.logs if one not in self.offline}
            for _, ends in blocks:
                for key, end in ends.items():
                    if key in logs and logs[key].log.synced_offset < end:
                        synced = logs[key].log.synced_offset
                        raise AssertionError(f"{path} is overwritten, and {logs[key].path} is synced up to {synced}, not to {end}")
            blocks.clear()
        count = HEADER.unpack_from(data)[10]
        rows = unpack_table(data[HEADER.size : HEADER.size + count * ENTRY.size])
        blocks.append((position, {row.key: row.next_offset for row in rows if row.kind == DATA}))


PATHS = tuple(f"t-{number}" for number in range(MOST_LOGS))


def _nothing() -> None:
    pass
