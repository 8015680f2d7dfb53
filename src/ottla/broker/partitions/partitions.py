"""All partitions that this broker holds: opening, checkpoints, retention, syncs.

Depends on `ottla.log` and the disk port, and not on requests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from functools import partial

from ottla.broker.failures import Changes
from ottla.broker.partitions.checkpoints import Checkpoints
from ottla.broker.partitions.journals import NO_JOURNAL, JournalLimits
from ottla.broker.partitions.log_directories import LogDirectories
from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.syncs import Syncs
from ottla.broker.partitions.traffic import Traffic
from ottla.broker.scheduler import Countdown, Scheduler
from ottla.log.errors import Unfinished, Vanished
from ottla.log.journal.format import Key
from ottla.log.log import Damaged, Log, LogConfig
from ottla.log.producer_state.producer_limit import ProducerShares
from ottla.log.sidecars import SidecarFormat
from ottla.ports import Clock, Disk, Now, Steps, StorageFailed, TryAgain
from ottla.wire.errors import NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION

log = logging.getLogger("ottla.broker")

AGAIN_MS = 250
"""Pause before the opening of a partition is retried after a lack of file handles, in ms."""


def _has_none(name: str) -> bool:
    return True


def _has_no_steps(name: str) -> None:
    return None


def _nowhere(topic: str, index: int) -> bool:
    return False


class Partitions:
    """All partitions of this broker, by topic and index."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        scheduler: Scheduler,
        changes: Changes,
        on_change: Callable[[Partition], None],
        kind: Callable[..., Partition] = Partition,
        is_elsewhere: Callable[[str, int], bool] = _nowhere,
        directories: LogDirectories | None = None,
        journal: JournalLimits = NO_JOURNAL,
    ) -> None:
        """Create an empty collection.

        `on_change(partition)` is called when a partition's readable range can have changed. `kind` makes partitions.
        `is_elsewhere(topic, index)` returns whether other brokers have a partition. `directories` are the log directories, by
        default the data directory alone. `journal` are the limits of their journals.
        """
        self.directories = directories or LogDirectories(disk)
        self.checkpoints = Checkpoints(disk, scheduler)
        self.producers = ProducerShares()
        self.traffic = Traffic()
        self.syncs = Syncs(disk, clock, scheduler, self.checkpoints.has_vanished, self.directories, journal)
        self._disk = disk
        self._clock = clock
        self._scheduler = scheduler
        self._changes = changes
        self._on_change = on_change
        self._partition = partial(
            kind,
            changes=changes,
            touched=self.checkpoints.touched,
            on_change=on_change,
            want_sync=self.syncs.want,
            want_name=self.syncs.want_name,
            flush=self.syncs.flush,
        )
        self._is_elsewhere = is_elsewhere
        self._topics: dict[str, dict[int, Partition]] = {}
        self._unopened: dict[Partition, bool] = {}
        self.was_killed = False
        """Whether the last process was killed while the machine kept running, so that all written data is present."""
        self.sidecars: SidecarFormat | None = None
        """The format of additional files beside the segments of logs; None if there are none."""
        self.drop_copies: Callable[[str], bool] = _has_none
        """Removes other directories of a partition that is deleted. Returns False if one still exists."""
        self.clear_copies: Callable[[str], Steps[None] | None] = _has_no_steps
        """Returns the steps that remove other directories of a partition; None if there are none."""
        self.opens = 0
        """How many partitions were opened, online or not."""

    def __iter__(self) -> Iterator[Partition]:
        return (partition for topic in self._topics.values() for partition in topic.values())

    @property
    def are_all_online(self) -> bool:
        return all(partition.offline is None for partition in self)

    def get(self, topic: str, index: int) -> Partition | None:
        found = self._topics.get(topic)
        return None if found is None else found.get(index)

    def holds(self, topic: str) -> bool:
        """Return whether this broker has any partition of a topic."""
        return topic in self._topics

    def absent_error(self, topic: str, index: int) -> int:
        """Return NOT_LEADER_OR_FOLLOWER for a partition that other brokers have, else UNKNOWN_TOPIC_OR_PARTITION."""
        return NOT_LEADER_OR_FOLLOWER if self._is_elsewhere(topic, index) else UNKNOWN_TOPIC_OR_PARTITION

    def open(self, topic: str, index: int, topic_id: bytes, config: LogConfig, now: Now, *, clean: bool = False) -> Partition:
        """Open a partition's log, or create it. Damage takes this partition offline, and no others.

        A partition without an available file handle is offline until one is free.
        """
        self._changes.made = True
        partition = self._partition(topic, index, topic_id, config)
        partition.traffic = self.traffic.of(topic)
        self._topics.setdefault(topic, {})[index] = partition
        if not self._is_opened(partition, now, clean=clean):
            self._unopened[partition] = clean
            self._open_later()
        return partition

    def _is_opened(self, partition: Partition, now: Now, *, clean: bool) -> bool:
        """Open a partition's log, or take the partition offline. Return False if opening it must be retried."""
        self.opens += 1
        try:
            partition.use_log(self._open_log(partition, now, clean=clean))
            partition.log.producers.join(self.producers)
            if not self.checkpoints.is_known(partition):
                self.checkpoints.touched[partition] = None
        except TryAgain as failure:
            if partition.offline is None:
                sentence = "%s is offline until it can be opened: %s; allow more open files, or fewer max.connections"
                log.error(sentence, partition, failure, extra={"cause": "open"})
            partition.offline = str(failure)
            return False
        except (Damaged, StorageFailed) as failure:
            log.error("%s is offline: %s", partition, failure)
            partition.offline = str(failure)
        return True

    def _open_later(self) -> None:
        def again(now: Now) -> None:
            self._scheduler.begin("open", self._open_rest(now))

        self._scheduler.at("open", self._clock.now().mono_ms + AGAIN_MS, again)

    def _open_rest(self, now: Now) -> Steps[None]:
        """Open the remaining partitions one after another. Stop at the first partition that still can't be opened."""
        for partition, clean in list(self._unopened.items()):
            if self.get(partition.topic, partition.index) is partition:
                if not self._is_opened(partition, now, clean=clean):
                    break
                if partition.offline is None:
                    log.info("%s could be opened", partition)
                    partition.notify_online()
            del self._unopened[partition]
            yield None
        if self._unopened:
            self._open_later()

    def _open_log(self, partition: Partition, now: Now, *, clean: bool) -> Log:
        name = str(partition)
        if not self.checkpoints.remove_deleted([partition.topic]):
            raise StorageFailed(name, "the checkpoints still have the offsets of a deleted partition of this name: mend the disk.")
        recovery_point = self.checkpoints.recovery_point(partition.topic, partition.index)
        log_start_offset = self.checkpoints.log_start_offset(partition.topic, partition.index)
        if recovery_point > log_start_offset and not self._disk.exists(name):
            sentence = f"the directory is missing, though it held records below offset {recovery_point}"
            raise StorageFailed(name, f"{sentence}: restore it, or delete the topic to give them up.")
        self.directories.place(name)
        opened = Log.open(
            self._disk,
            name,
            partition.config,
            now,
            topic_id=partition.topic_id,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            is_noted=self.checkpoints.is_noted(partition.topic, partition.index),
            is_start_known=self.checkpoints.knows_starts,
            was_killed=self.was_killed,
            is_journaled=self.syncs.journals.has_entries(partition),
            sidecars=self.sidecars,
        )
        self.syncs.journals.replay(partition, opened, now)
        return opened

    def configure(self, topic: str, index: int, config: LogConfig, now: Now) -> None:
        """Apply a changed topic config to a partition, if this broker holds the partition."""
        partition = self.get(topic, index)
        if partition is not None:
            partition.configure(config)
            if partition.offline is None:
                partition.log.config = config
                self.syncs.apply_config(partition, now)
            self._on_change(partition)

    def before_cut(self, partition: Partition, offset: int, latest_start: int) -> Steps[None]:
        """Prepare the truncation of a log: wait for running syncs, make its entries in the journal void, lower the checkpoints.

        The recorded log start offset is then at most `latest_start`. Raises `StorageFailed`.
        """
        syncs, journals = self.syncs, self.syncs.journals
        journals.void_kept(Key(partition.topic_id, partition.index))
        while True:
            if journals.journals_with(partition):
                yield from syncs.sync_and_void(partition)
            elif syncs.is_under_way(partition):
                yield partial(syncs.when_ended, partition)
            elif self.checkpoints.is_beyond(partition, offset, latest_start):
                yield from self.checkpoints.lower(partition, offset, latest_start)
            else:
                return

    def note_gaps(self, partition: Partition) -> Steps[None]:
        """Add the newest segment of a partition to the list of segments that may lack offsets.

        This must happen before the partition copies batches between which offsets are missing. Raises `StorageFailed`.
        """
        with closing(partition.log.note_gaps_soon()) as files:
            for file in files:
                failure = yield partial(self._disk.sync_soon, [file])
                if partition.offline is not None:
                    return
                if failure is not None:
                    raise failure

    def before_drop(self, dropped: Iterable[Partition]) -> Steps[set[Partition]]:
        """Make the journals' entries of partitions void, so that a later replica of the same topic does not get them back.

        Former directories of moved replicas are removed first. Return the partitions that cannot be dropped, because a journal
        refused that.
        """
        refused: set[Partition] = set()
        withdrawing = Countdown()
        for partition in dropped:
            if (clearing := self.clear_copies(f"{partition}")) is not None:
                self._scheduler.begin(("clear", partition), withdrawing.count(clearing), urgent=True)
            if self.syncs.journals.journals_with(partition):
                steps = withdrawing.count(self._withdraw(partition, refused))
                self._scheduler.begin(("withdraw", partition), steps, urgent=True)
        while withdrawing.left:
            yield withdrawing.wait
        return refused

    def _withdraw(self, partition: Partition, refused: set[Partition]) -> Steps[None]:
        try:
            yield from self.syncs.void(partition)
        except StorageFailed as failure:
            sentence = "%s cannot be deleted until the broker restarts, because its entries in the journal cannot be made void: %s"
            log.error(sentence, partition, failure)
            refused.add(partition)

    def drop(self, topic: str, index: int) -> bool:
        """Delete a partition's log and files, and return False if the files still exist.

        Call `checkpoints.settle` before the partition's name can be reused.
        """
        self._changes.made = True
        self.checkpoints.forget(topic, index)
        partition = self._topics.get(topic, {}).pop(index, None)
        if not self._topics.get(topic):
            self._topics.pop(topic, None)
            self.traffic.forget(topic)
        name = f"{topic}-{index}"
        are_gone = self.drop_copies(name)
        if partition is not None:
            self.forget_entries(Key(partition.topic_id, index))
        if partition is None or partition.offline is not None:
            is_gone = not self._disk.exists(name)
            if is_gone:
                self.directories.forget(name)
            return is_gone and are_gone
        partition.end_deleted()
        self.checkpoints.touched.pop(partition, None)
        try:
            partition.log.delete()
            self.directories.forget(name)
        except StorageFailed as failure:
            log.error("%s is deleted, but its files could not be removed: %s; the next start removes them", partition, failure)
            return False
        return are_gone

    def forget_entries(self, key: Key) -> None:
        """Forget what the journals have of a deleted partition, open or not."""
        try:
            self.syncs.journals.forget(key)
        except StorageFailed as failure:
            log.error("%s: the entries of a deleted partition could not be made void; the next clean stop does", failure)

    def retain(self, now: Now) -> Steps[None]:
        """Start a retention job for each partition."""
        for partition in list(self):
            self._scheduler.begin(("retention", partition), self._retain(partition, now))
            yield None

    def _retain(self, partition: Partition, now: Now) -> Steps[None]:
        """Delete old segments, each only after the deletion of the previous one is durable."""
        yield from self._finish_swap(partition)
        while partition.offline is None and not partition.log.is_swapping:
            start = partition.log.log_start_offset
            try:
                removed = partition.log.retain(now, until_offset=partition.high_watermark, most=1)
            except Unfinished:
                yield None
                continue
            if partition.log.log_start_offset != start:
                partition.notify_change()
            if not removed:
                return
            failure = yield partial(self._disk.sync_soon, [partition.log.directory])
            if isinstance(failure, TryAgain):
                log.warning("%s: a sync could not begin (%s); more old segments are deleted next time", partition, failure)
                return
            if failure is None:
                partition.log.names_are_synced()
            else:
                partition.fail(failure)

    def _finish_swap(self, partition: Partition) -> Steps[None]:
        """Complete the swap of compacted segments, because a segment under replacement can't be deleted."""
        while partition.offline is None and partition.log.is_swapping:
            step = partition.log.swap_step
            failure = yield partial(self._disk.sync_soon, [partition.log.directory])
            try:
                if failure is None:
                    partition.log.run_swap_step(step)
                    continue
            except StorageFailed as refused:
                failure = refused
            log.warning("%s: compacted segments are not in place yet (%s); old ones are deleted next time", partition, failure)
            return

    def checkpoint(self) -> Steps[None]:
        """Record how far each log is on stable storage, and sync segments sealed since the last checkpoint."""
        for partition in self.checkpoints.touched:
            if partition.offline is None and partition.log.has_unsynced_segments:
                self.syncs.want_own(partition)
        return self.checkpoints.write_soon()

    def write_out(self) -> Steps[None]:
        """Write and sync all changed partitions in parallel before a shutdown. `close` reports the errors that this ignores."""
        writing = Countdown()
        for partition in list(self.checkpoints.touched):
            if partition.offline is None:
                self._scheduler.begin(("write out", partition), writing.count(self._write_out(partition)), urgent=True)
            yield None
        while writing.left:
            yield writing.wait

    def _write_out(self, partition: Partition) -> Steps[None]:
        yield from self.syncs.pause(partition)
        upto = partition.log.log_end_offset
        is_synced = False
        with suppress(StorageFailed):
            is_synced = (yield partial(self._disk.sync_soon, partition.log.write_out())) is None
        if is_synced:
            partition.record_sync(upto, self._scheduler.now())
        else:
            partition.log.was_not_flushed()
        self.syncs.resume(partition)

    def close(self) -> bool:
        """Close every log. Return False if a log was not closed cleanly; the next startup must then check the logs.

        Syncs that end afterwards have no effect, and nothing can be appended.
        """
        clean = True
        for partition in self:
            if partition.offline is None:
                try:
                    partition.log.check_place()
                    partition.log.close()
                    if not self.checkpoints.is_known(partition):
                        self.checkpoints.touched[partition] = None
                except Vanished as vanished:
                    clean = False
                    self.checkpoints.has_vanished(partition, vanished)
                except StorageFailed as failure:
                    clean = False
                    log.error("%s was not closed cleanly: %s", partition, failure)
            else:
                clean = False
        clean = self.checkpoints.write() and clean
        self.syncs.journals.close()
        for partition in self:
            partition.seal()
        return clean
