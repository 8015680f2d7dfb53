"""The life of one log whose unsynced records go into a journal: the acts of `LogLife`, and those that a journal must outlive.

Beside what `LogLife` checks: nothing of a cut log comes back above the cut, and everything is left that was durable in the journal
or in the log's own files. The journal, and the other logs in it, are of `JournalLife`.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from struct import Struct
from typing import Protocol

from ottla.log.journal.format import Key
from ottla.log.log import Log
from ottla.ports import StorageFailed
from ottla.records.batches.builder import build
from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import batches
from ottla.sim import invariants
from ottla.sim.power import CutDisk
from tests.sim.lives.life import Act, LogLife, State

BASE_OFFSET, LEADER_EPOCH, LEADER_EPOCH_AT = Struct(">q"), Struct(">i"), 12


class Process(Protocol):
    """The process that has the logs open: it has a journal, and ends as a whole."""

    @property
    def may_cut(self) -> bool: ...

    def sync_together(self, first: JournaledLog, meanwhile: Callable[[], None] | None = None) -> None:
        """Make the log durable, by the journal where that is possible, together with other logs. Raises `StorageFailed`."""

    def void(self, one: JournaledLog) -> None:
        """Make durable in the journal that its entries of this log count no longer. Raises `StorageFailed`."""

    def note_synced(self, one: JournaledLog) -> None: ...

    def stop(self) -> None: ...

    def revive(self) -> None: ...

    def has_entries(self, one: JournaledLog) -> bool:
        """Return whether the journal had batches of this log when the process started."""

    def replay(self, one: JournaledLog) -> None:
        """Put back from the journal what the log, which was just opened, lacks. Raises `StorageFailed`."""


class JournaledLog(LogLife):
    """One log, and what is known of it."""

    def __init__(self, random: Random, disk: CutDisk, path: str, topic_id: bytes, process: Process) -> None:
        self.process = process
        self.key = Key(topic_id, 0)
        self.was_left_closed = False
        """Whether the process has not opened it when it started."""
        self.written: set[tuple[int, int]] = set()
        """(base offset, CRC) of the batches that were written."""
        self.ghosts: set[tuple[int, int]] = set()
        """(base offset, CRC) of batches that were cut off, or lost in a power cut."""
        super().__init__(random, disk, path, topic_id)

    def acts(self) -> list[Act]:
        acts = [act for act in super().acts() if act != self.truncate or self.process.may_cut]
        if not self.compacted_to and self.process.may_cut and self.random.random() < 0.3:
            acts.append(self.begin_anew)
        if self.config.compacts and self.random.random() < 0.1:
            acts.append(self.copy)
        return acts

    # Keeping

    def sync(self) -> None:
        self.process.sync_together(self)

    def sync_beside_work(self) -> None:
        self.process.sync_together(self, self._work_a_little)

    def work_a_little(self) -> None:
        """Do what may happen while a sync is under way."""
        self._work_a_little()

    def sync_own_files(self) -> None:
        """Sync the files of the log itself."""
        super().sync()
        self.log.names_are_synced()
        self.process.note_synced(self)

    def sync_own_files_beside(self, meanwhile: Callable[[], None]) -> None:
        """Sync the files of the log itself, with other work between the request and the sync."""
        end = self.log.log_end_offset
        outcomes: list[StorageFailed | None] = []
        self.disk.sync_soon(self.log.dirty_files(), outcomes.append)
        meanwhile()
        self.disk.run_syncs()
        if outcomes[0] is not None:
            raise outcomes[0]
        self.log.mark_synced(end)
        self.synced = max(self.synced, end)
        self.process.note_synced(self)

    def stop(self) -> None:
        self.process.stop()

    def revive(self) -> None:
        self.process.revive()

    def close(self) -> State:
        """Close the log in order; returns its state."""
        before = self._state()
        self.log.close()
        self.synced = self.log.log_end_offset
        self.checkpoint()
        return before

    def open(self, *, clean: bool = False) -> None:
        """Open the log in a new process."""
        self.log = self._open(clean=clean)

    def compare_after_stop(self, before: State) -> None:
        """Check that the log is as it was before an orderly stop."""
        assert self._state() == before, f"an orderly restart made {self._state()} of {before}"
        self._check()

    def compare_after_kill(self, before: State | None) -> None:
        """Check that a kill of the process lost nothing. `before` is the state then, or None if the log was not served."""
        if before is None:
            self.accept_what_is_left()
            return
        self._compare_with(before)
        self.synced = max(self.synced, self.log.synced_offset)
        self._check()

    def sync_all(self) -> None:
        """Sync what a start has put back."""
        end = self.log.log_end_offset
        for file in self.log.dirty_files():
            file.sync()
        self.log.mark_synced(end)

    @property
    def state(self) -> State:
        return self._state()

    @property
    def is_journaled(self) -> bool:
        return self.process.has_entries(self)

    def _open(self, *, clean: bool = False) -> Log:
        self.log = super()._open(clean=clean)
        self.process.replay(self)
        return self.log

    # Forgetting

    def truncate(self) -> None:
        self._leave(super().truncate)

    def begin_anew(self) -> None:
        """Drop the whole log, and begin it behind its end."""
        self._leave(self._begin_anew)

    def _begin_anew(self) -> None:
        offset = self.log.log_end_offset + self.random.choice([0, 1, 7])
        self.recovery_point = min(self.recovery_point, self.log.segments[0].base_offset)
        self.synced, self.written_to = 0, offset
        self.log.restart_at(offset)
        self.synced = offset
        self._forget(lambda record: False)
        self._go_on_with_sequences()
        self._note_ghosts(0)

    def _leave(self, cut: Act) -> None:
        """Make a cut, before which nothing of the log may be in the journal alone, and nothing may come back from it."""
        self._sync_before_cut()
        self.process.void(self)
        cut()
        self._note_ghosts(self.log.log_end_offset)

    def _sync_before_cut(self) -> None:
        self.sync_own_files()

    # Appending

    def copy(self) -> None:
        """Append as a follower of a leader whose compaction has left a gap."""
        offset = self.log.log_end_offset + self.random.choice([0, 1, 2])
        batch = build([b"key-0"], [self.random.randbytes(20)], self.now.wall_ms)
        BASE_OFFSET.pack_into(batch, 0, offset)
        LEADER_EPOCH.pack_into(batch, LEADER_EPOCH_AT, self.epoch)
        headers = [header for _, header in batches(batch)]
        self.compacted_to = max(self.compacted_to, 1)
        self._note_written(offset, batch)
        self.log.append_as_follower(memoryview(batch), headers, self.now)
        self.written_to = self.log.log_end_offset
        self.known += open_batches(batch).records()

    def _write(self, batch: bytearray, *, origin_client: bool = True) -> None:
        self._note_written(self.log.log_end_offset, batch)
        super()._write(batch, origin_client=origin_client)

    def _note_written(self, offset: int, batch: bytearray) -> None:
        """Note that a batch may be in the log from now on, at this offset."""
        found = {(offset, header.crc) for _, header in batches(batch)}
        self.written |= found
        self.ghosts -= found

    def _note_ghosts(self, end_offset: int) -> None:
        """Note that no batch from `end_offset` on that was written until now may be seen again."""
        gone = {each for each in self.written if each[0] >= end_offset}
        self.written -= gone
        self.ghosts |= gone

    # What must be true

    def accept_what_is_left(self) -> None:
        super().accept_what_is_left()
        self._note_ghosts(self.log.log_end_offset)

    def faults(self) -> list[str]:
        found = super().faults()
        if self.ghosts:
            stored = {
                (header.base_offset, header.crc) for batch in invariants.stored_batches(self.log) for _, header in batches(batch)
            }
            found += [f"the batch of offset {offset} was gone" for offset, _ in self.ghosts & stored]
        if self.log.durable_offset > self.log.log_end_offset:
            found.append(f"{self.log.durable_offset} is durable, and the log ends at {self.log.log_end_offset}")
        return found
