"""The life of one log: random work on a simulated disk, power cuts, disk faults, restarts, and checks after each.

Everything a log can do happens: plain, idempotent and transactional appends under growing leader epochs, syncs, rolls, retention,
deleted records, truncations, compaction, checkpoints, changes of the cleanup policy. Knows what was acknowledged and what of it was
synced; the invariants say what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from random import Random

from ottla.log.cleaner.compaction import Compaction, CompactionSteps
from ottla.log.cleaner.dirty_range import Dirtiness, dirtiness
from ottla.log.errors import Damaged
from ottla.log.log import Log, LogConfig
from ottla.log.partition_metadata import NO_TOPIC_ID
from ottla.log.segments.transaction_index import ABORT, COMMIT
from ottla.ports import Now, StorageFailed, TryAgain
from ottla.records.batches.builder import build
from ottla.records.batches.columns import Record, open_batches
from ottla.records.batches.header import batches
from ottla.sim import invariants
from ottla.sim.disk import IO_ERROR, NO_SPACE, TOO_MANY_FILES
from ottla.sim.power import CutDisk, PowerCut

KEYS = 12
START_MS = 1_700_000_000_000
PATH = "t-0"
POLICIES = ("delete", "compact", "compact,delete")
IDEMPOTENT, TRANSACTIONAL = (1, 2), (3, 4)
MOST_RECORDS = 4

Act = Callable[[], None]

State = tuple[int, int, int, dict[int, int]]
"""(start, end, last stable offset, open transactions)"""


class LogLife:
    """One log, its disk, and what is known of it. Every choice comes from `random`."""

    def __init__(self, random: Random, disk: CutDisk | None = None, path: str = PATH, topic_id: bytes = NO_TOPIC_ID) -> None:
        self.random = random
        self.disk = CutDisk() if disk is None else disk
        self.path = path
        self.topic_id = topic_id
        self.now = Now(START_MS, 0)
        self.config = LogConfig(
            segment_bytes=random.choice([400, 900, 3000]),
            index_interval_bytes=random.choice([0, 150, 1000]),
            cleanup_policy=random.choice(POLICIES),
            delete_retention_ms=random.choice([0, 5000]),
            file_delete_delay_ms=random.choice([0, 3000]),
            retention_bytes=random.choice([-1, 3000]),
        )
        self.known: list[Record] = []
        self.aborted: set[int] = set()
        """Offsets of records whose transaction is, or will be, aborted."""
        self.begun: dict[int, list[int]] = {producer_id: [] for producer_id in TRANSACTIONAL}
        """Where each producer's transactions began."""
        self.gone: dict[bytes | None, int] = {}
        self.synced = self.recovery_point = self.kept_start = self.cleaned = self.compacted_to = self.written_to = self.epoch = 0
        self.sequences = dict.fromkeys((*IDEMPOTENT, *TRANSACTIONAL), 0)
        self.has_lost = False
        self.log = self._open()

    def acts(self) -> list[Act]:
        """List what may happen next; frequent things are listed several times."""
        acts = [self.append] * 6 + [self.append_idempotently] * 4 + [self.transact] * 3 + [self.end_transaction] * 3
        acts += [self.sync] * 2 + [self.sync_beside_work] * 2 + [self.roll, self.pass_time, self.retain_beside_work]
        acts += [self.checkpoint, self.delete_records, self.stop, self.meet_faults]
        if self.random.random() < 0.2:
            acts += [self.change_policy, self.revive, self.disk.close_handles]
        return acts + ([self.compact] * 3 if self.config.compacts else [] if self.compacted_to else [self.truncate])

    # Appending

    def append(self) -> None:
        self._append(-1)

    def append_idempotently(self) -> None:
        self._append(self.random.choice(IDEMPOTENT))

    def transact(self) -> None:
        """Append records of a transaction, of a new one if none is open."""
        producer_id = self.random.choice(TRANSACTIONAL)
        offset = self.log.log_end_offset
        if producer_id not in self.log.producers.open_transactions:
            self.begun[producer_id].append(offset)
        count = self._append(producer_id, transactional=True)
        if self._is_aborted(producer_id):
            self.aborted.update(range(offset, offset + count))

    def end_transaction(self) -> None:
        producer_id = self.random.choice(TRANSACTIONAL)
        if producer_id not in self.log.producers.open_transactions:
            return
        kind = ABORT if self._is_aborted(producer_id) else COMMIT
        key, value = b"\0\0" + kind.to_bytes(2, "big"), b"\0\0" + self.epoch.to_bytes(4, "big")
        wall_ms = self.now.wall_ms
        batch = build([key], [value], wall_ms, producer_id=producer_id, producer_epoch=0, transactional=True, control=True)
        self._write(batch, origin_client=False)
        self.sync()  # no coordinator begins another transaction before

    def _is_aborted(self, producer_id: int) -> bool:
        """Decide how a transaction ends when it begins, so that it ends the same way if a power cut took its end."""
        return bool((self.begun[producer_id][-1] + producer_id) % 2)

    def _append(self, producer_id: int, *, transactional: bool = False) -> int:
        """Append one batch; returns the number of records."""
        count = self.random.randrange(1, MOST_RECORDS + 1)
        keys = [b"key-%d" % self.random.randrange(KEYS) for _ in range(count)]
        values = [None if self.random.random() < 0.15 else self.random.randbytes(self.random.randrange(60)) for _ in keys]
        batch = build(
            keys,
            values,
            self.now.wall_ms,
            codec=self.random.choice([0, 0, 3, 4]),
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=self.sequences.get(producer_id, -1),
            transactional=transactional,
        )
        if self.random.random() < 0.1:
            self.epoch += 1
        self._write(batch)
        self.known += open_batches(batch).records()
        if producer_id >= 0:
            self.sequences[producer_id] += count
        return count

    def _write(self, batch: bytearray, *, origin_client: bool = True) -> None:
        headers = [header for _, header in batches(batch)]
        appended = self.log.append(batch, headers, self.epoch, self.now, origin_client=origin_client)
        assert (appended.error_code, appended.duplicate) == (0, False), f"an append was answered with {appended}"
        self.written_to = appended.last_offset + 1

    # Keeping

    def sync(self) -> None:
        end = self.log.log_end_offset
        for file in self.log.dirty_files():
            file.sync()
        self.log.mark_synced(end)
        self.synced = end

    def sync_beside_work(self) -> None:
        """Sync as the broker does: asked for now and made later, with other work between."""
        end = self.log.log_end_offset
        outcomes: list[StorageFailed | None] = []
        self.disk.sync_soon(self.log.dirty_files(), outcomes.append)
        self._work_a_little()
        self.disk.run_syncs()
        if outcomes[0] is not None:
            raise outcomes[0]
        self.log.mark_synced(end)
        self.synced = max(self.synced, end)

    def retain_beside_work(self) -> None:
        """Retain as the broker does: one segment after the other, each once the names are synced."""
        self._let_time_pass()
        for _ in range(3):
            if not self.log.retain(self.now, most=1):
                return
            self.disk.sync_soon([self.log.directory], _raise)
            self._work_a_little()
            self.disk.run_syncs()
            self.log.names_are_synced()

    def _work_a_little(self) -> None:
        works = [self.append, self.roll, self.delete_records, self._let_go]
        for _ in range(self.random.randrange(3)):
            self.random.choice(works)()

    def _let_go(self) -> None:
        """Delete what retention may delete, and remove what it deleted before."""
        self._let_time_pass()
        self.log.retain(self.now)

    def roll(self) -> None:
        self.log.roll()

    def checkpoint(self) -> None:
        self.recovery_point = self.log.checkpoint()
        self.kept_start = self.log.log_start_offset

    def stop(self) -> None:
        """Stop in order, and start."""
        before = self._state()
        self.log.close()
        self.synced = self.log.log_end_offset
        self.checkpoint()
        self.disk.kill()
        self.log = self._open(clean=True)
        assert self._state() == before, f"an orderly restart made {self._state()} of {before}"
        self._check()

    # Forgetting

    def pass_time(self) -> None:
        self._let_time_pass()
        self.log.retain(self.now)

    def _let_time_pass(self) -> None:
        self.now = Now(self.now.wall_ms + 2000, self.now.mono_ms + 2000)

    def delete_records(self) -> None:
        start, end = self.log.log_start_offset, self.log.log_end_offset
        if self.random.random() < 0.3:
            self.log.delete_records(self.random.randrange(start, end + 1))

    def truncate(self) -> None:
        """Truncate as a diverged follower does; never in a compacted part, on which all replicas agree."""
        start, end = self.log.log_start_offset, self.log.log_end_offset
        begins = [header.base_offset for batch in invariants.stored_batches(self.log) for _, header in batches(batch)]
        offset = self.random.choice([end, *(begin for begin in begins if begin >= start)])
        self.recovery_point = min(self.recovery_point, offset)
        self.synced = min(self.synced, offset)
        self.log.truncate_to(offset)
        self.written_to = end = self.log.log_end_offset
        assert end == offset, f"the log was to end at {offset}, and ends at {end}"
        self._forget(lambda record: record.offset < end)
        self._go_on_with_sequences()

    def compact(self) -> None:
        """Do one pass, with other work in between; a new pass begins where a dropped one stopped."""
        found = dirtiness(self.log, self.cleaned, self.now)
        if not found.dirty_bytes:
            return
        memory_bytes = self.random.choice([1, 1 << 20])
        self.compacted_to = max(self.compacted_to, found.end_offset)
        compaction = Compaction(self.log, self.disk, found, self.now, self.random.randbytes(16), memory_bytes)
        pauses = compaction.run()
        try:
            self._go_through(pauses, found)
        finally:
            with suppress(PowerCut):
                pauses.close()  # a dropped pass cleans up, if it still can
        self.cleaned = compaction.result.cleaned_offset
        for record in self.known:  # a complete pass is durable: what it left out must never be seen again
            if found.first_dirty_offset <= record.offset < self.cleaned and record.offset not in self.aborted:
                self.gone[record.key] = record.offset

    def _go_through(self, pauses: CompactionSteps, found: Dirtiness) -> None:
        for files in pauses:
            for file in files or ():
                file.sync()
            if self.synced >= found.first_dirty_offset:  # a pass begins by syncing what it will look at, not what is before
                self.synced = max(self.synced, found.end_offset)
            if self.random.random() < 0.1:
                self.random.choice([self.append, self.roll, self.checkpoint])()

    def change_policy(self) -> None:
        """Change the policy, unless a lost segment was taken for a compacted one: it would be missed once gaps are not expected."""
        if self.has_lost:
            return
        self.config = replace(self.config, cleanup_policy=self.random.choice(POLICIES))
        self.log.config = self.config

    # Suffering

    def meet_faults(self) -> None:
        """Let the disk refuse something. What was reported durable stays, whatever the log has to give up.

        Half of the time that is the next sync of names: a segment that is begun waits for one, and whoever is refused tries again.
        """
        syncing = [self.sync, self.compact, self.checkpoint, self.sync_beside_work, self.retain_beside_work]
        act = self.random.choice([self.append, self.transact, self.roll, self.pass_time, *syncing])
        if act == self.compact and not self.config.compacts:
            act = self.append
        if self.random.random() < 0.5:
            act = self.random.choice([act, self.roll])
            self.disk.fail_names(self.random.choice([IO_ERROR, NO_SPACE]))
        else:
            reason = self.random.choice([IO_ERROR, NO_SPACE, TOO_MANY_FILES])
            self.disk.fail(self.random.randrange(12), reason, count=self.random.choice([1, 1, 5]))
        end = self.log.log_end_offset
        try:
            act()
        except StorageFailed as failure:
            assert act in syncing or self.log.log_end_offset == end, "what was refused is there"
            self.disk.heal()
            if act in syncing and not isinstance(failure, TryAgain):  # the broker would go offline until it is restarted
                self.revive()
        self.disk.heal()
        if self.disk.has_failed_names:  # whoever needs them next takes the partition offline
            self.revive()

    def revive(self) -> None:
        """Kill the process alone: nothing is lost."""
        before = self._state()
        self.disk.kill()
        self.log = self._open_at_last()
        self._compare_with(before)
        self.synced = max(self.synced, self.log.synced_offset)
        self._check()

    def _compare_with(self, before: State) -> None:
        """Compare open transactions with those before. If a transaction's first records were deleted, the first one left counts."""
        _, end, _, was_open = before
        first, is_open = self.log.segments[0].base_offset, self.log.producers.open_transactions
        same = all(is_open.get(one) == offset or offset < first <= is_open.get(one, first) for one, offset in was_open.items())
        same = same and self.log.log_end_offset == end and not is_open.keys() - was_open.keys()
        assert same, f"a restart made {self._state()} of {before}"

    def restart(self) -> None:
        """Restart after a power cut, perhaps with another one while the log is opened."""
        self.disk.crash(self.random)
        if self.random.random() < 0.2:
            self.disk.cut_soon(40, self.random)
        try:
            self.log = self._open_at_last()
        except PowerCut:
            self.disk.crash(self.random)
            self.log = self._open()
        self.disk.cut_at = -1
        self.accept_what_is_left()

    def accept_what_is_left(self) -> None:
        """Compare the log, which was opened after a power cut, with what must be left of it, and go on from there."""
        end, last = self.log.log_end_offset, self.written_to
        assert self.synced <= end, f"the log ends at {end}, though everything below {self.synced} had been synced"
        assert end <= last + MOST_RECORDS, f"the log ends at {end}, though nothing was written beyond {last}"
        self._take_what_was_not_answered(last)
        self.written_to = end
        self._forget_what_was_not_synced(end)
        self.synced = max(self.synced, self.log.synced_offset)
        self._go_on_with_sequences()
        self._check()

    def _go_on_with_sequences(self) -> None:
        """Let producers go on from what is left of their batches."""
        for producer_id in self.sequences:
            producer = self.log.producers.by_id.get(producer_id)
            self.sequences[producer_id] = producer.batches[-1].last_sequence + 1 if producer and producer.batches else 0

    def _open(self, *, clean: bool = False) -> Log:
        return Log.open(
            self.disk,
            self.path,
            self.config,
            self.now,
            topic_id=self.topic_id,
            clean=clean,
            recovery_point=self.recovery_point,
            log_start_offset=self.kept_start,
            is_journaled=self.is_journaled,
        )

    @property
    def is_journaled(self) -> bool:
        """Return whether a journal has batches of the log."""
        return False

    def _open_at_last(self) -> Log:
        """Open the log. Sometimes the disk refuses something first, which must do no harm."""
        if self.random.random() < 0.2:
            self.disk.fail(self.random.randrange(30))
            try:
                self._open()
            except Damaged:
                raise
            except StorageFailed:
                self.disk.kill()
            self.disk.heal()
            if self.disk.has_failed_names:
                self.disk.kill()
        return self._open()

    def _state(self) -> State:
        """(start, end, last stable offset, open transactions). The first and third may go back if nobody noted the start."""
        log = self.log
        return log.log_start_offset, log.log_end_offset, log.last_stable_offset, dict(log.producers.open_transactions)

    def _take_what_was_not_answered(self, last: int) -> None:
        """Accept an append that was cut off and is there: nobody was told that it is not."""
        for batch in invariants.stored_batches(self.log, last):
            records = [record for record in open_batches(batch, check_crcs=True).records() if record.offset >= last]
            header = next(batches(batch))[1]
            self.known += records
            if records and header.is_transactional and self._is_aborted(header.producer_id):
                self.aborted.update(record.offset for record in records)

    def _forget_what_was_not_synced(self, end: int) -> None:
        """Accept that a compacted log with a lost segment looks as if its records were compacted away: later ones may be left."""
        there = {record.offset for record in invariants.stored_records(self.log)} if self.config.compacts else range(end)
        before = len(self.known)
        self._forget(lambda record: record.offset < end and (record.offset < self.synced or record.offset in there))
        self.has_lost |= len(self.known) < before

    def _forget(self, stays: Callable[[Record], bool]) -> None:
        self.known = [record for record in self.known if stays(record)]
        self.aborted.intersection_update(record.offset for record in self.known)
        end = self.log.log_end_offset
        self.begun = {producer_id: [at for at in begun if at < end] for producer_id, begun in self.begun.items()}

    def _check(self) -> None:
        disk, left = self.disk, self.disk.cut_at - self.disk.operations
        cut_at, disk.cut_at = disk.cut_at, -1
        faults = self.faults()
        disk.cut_at = disk.operations + left if cut_at >= 0 else -1
        assert not faults, "; ".join(faults[:5])

    def faults(self) -> list[str]:
        """List everything that is wrong now, a sentence each."""
        log = self.log
        found = invariants.offsets_grow(log) + invariants.sizes_add_up(log) + invariants.indexes_point_at_batches(log, self.disk)
        found += invariants.leader_epochs_fit_the_batches(log)
        compacts = bool(self.compacted_to) or self.config.compacts
        if not (compacts and self.has_lost):
            found += invariants.producers_equal_a_replay(log)
        if compacts:
            found += invariants.newest_of_every_key_is_kept(log, self.known, self.compacted_to, self.aborted)
            return found + invariants.removed_records_stay_removed(log, self.gone)
        found += invariants.transactions_equal_a_replay(log)
        return found + invariants.offsets_are_dense(log) + invariants.acknowledged_records_are_readable(log, self.known)


def _raise(failure: StorageFailed | None) -> None:
    if failure is not None:
        raise failure
