"""The partitions that this broker holds: each one a log, its leadership and what readers may see of it.

Knows `ottla.log` and the disk port; knows nothing of requests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from ottla.broker.failures import Changes
from ottla.broker.partitions.checkpoints import Checkpoints
from ottla.broker.partitions.durability import Syncs
from ottla.broker.partitions.flushing import Flushes, flushes
from ottla.broker.scheduler import Scheduler, Steps
from ottla.log.config import LOG_APPEND_TIME
from ottla.log.log import Appended, Damaged, Log, LogConfig
from ottla.ports import Clock, Disk, Now, StorageFailed, TryAgain
from ottla.records import codecs
from ottla.records.arrivals import Terms
from ottla.records.batch import LOG_OVERHEAD_BYTES, BatchHeader
from ottla.records.codecs import CodecFailed
from ottla.records.recompress import recompress
from ottla.records.verify import MOST_MS, Demands, Refused, Verdict, check_records
from ottla.wire.errors import INVALID_RECORD, KAFKA_STORAGE_ERROR, MESSAGE_TOO_LARGE, NONE

log = logging.getLogger("ottla.broker")

NO_TIMESTAMP = -1
TOO_LARGE = Refused(MESSAGE_TOO_LARGE, "The batch is larger than the topic's max.message.bytes.")


def demands(config: LogConfig) -> Demands:
    """What the settings of a topic ask of each record."""
    if config.message_timestamp_type == LOG_APPEND_TIME:
        return Demands(keyed=config.compacts, append_time=True)
    after_ms = min(config.message_timestamp_after_max_ms, MOST_MS)
    return Demands(keyed=config.compacts, before_ms=config.message_timestamp_before_max_ms, after_ms=after_ms)


def stored_codec(config: LogConfig) -> tuple[int | None, int | None]:
    """(codec, level) that the settings of a topic want batches to be stored in; (None, None) where each stays as it came."""
    match config.compression_type:
        case "producer":
            return None, None
        case "uncompressed":
            return codecs.NONE, None
        case "gzip":
            return codecs.GZIP, config.compression_gzip_level if config.compression_gzip_level >= 0 else None
        case "lz4":
            return codecs.LZ4, config.compression_lz4_level
        case "zstd":
            return codecs.ZSTD, config.compression_zstd_level
        case name:
            return codecs.NAMES.index(name), None


class Partition:
    """One partition led by this broker.

    `offline` says why it can't be used (damage, a failed sync), or is None. With one replica the high watermark is the log's end.
    """

    __slots__ = (
        "_changes",
        "_codec",
        "_flushes",
        "_flushing",
        "_level",
        "_on_change",
        "_syncs",
        "_waiting",
        "config",
        "demands",
        "index",
        "key",
        "leader_epoch",
        "log",
        "offline",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        index: int,
        topic_id: bytes,
        config: LogConfig,
        syncs: Syncs,
        flushing: Flushes,
        changes: Changes,
        on_change: Callable[[Partition], None],
    ) -> None:
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.configure(config)
        self.leader_epoch = 0
        self.offline: str | None = None
        self.key = ("partition", topic, index)
        self.log: Log
        self._syncs = syncs
        self._flushing = flushing
        self._changes = changes
        self._on_change = on_change
        self._waiting: list[tuple[int, Callable[[int], None]]] = []

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def high_watermark(self) -> int:
        return self.log.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        return self.log.last_stable_offset

    def configure(self, config: LogConfig) -> None:
        """Let changed settings of the topic take effect."""
        self.config = config
        self.demands = demands(config)
        self._flushes = flushes(config)
        self._codec, self._level = stored_codec(config)

    def terms(self, now: Now) -> Terms:
        """On what terms an old client's messages are taken."""
        size, codec, level = self.config.max_message_bytes, self._codec, self._level
        return Terms(self.demands, now.wall_ms, size, codec=codec, level=level)

    def check(self, view: memoryview, header: BatchHeader, now: Now) -> Verdict:
        """(header, None) if a client's batch may be appended as the topic's settings have it, or (header, why not)."""
        if header.batch_length + LOG_OVERHEAD_BYTES > self.config.max_message_bytes:
            return header, TOO_LARGE
        return check_records(view, header, self.demands, now.wall_ms)

    def encode(self, view: memoryview, header: BatchHeader) -> tuple[memoryview | bytearray, BatchHeader, Refused | None]:
        """A checked batch in the codec that the topic's compression.type wants, which mostly is the one it came in."""
        if self._codec in (None, header.codec):
            return view, header, None
        try:
            encoded, header = recompress(view, header, self._codec, self._level)
        except CodecFailed as failure:
            return view, header, Refused(INVALID_RECORD, f"The records cannot be opened: {failure}")
        return encoded, header, TOO_LARGE if header.size > self.config.max_message_bytes else None

    def append(
        self, view: bytearray | memoryview, headers: Sequence[BatchHeader], now: Now, *, origin_client: bool = True
    ) -> Appended:
        """Append checked batches; a refusal is an error code in the result, and nothing was written then."""
        if self.offline is not None:
            return Appended(KAFKA_STORAGE_ERROR, -1, -1, NO_TIMESTAMP, False)
        self._changes.made = True
        try:
            appended = self.log.append(view, headers, self.leader_epoch, now, origin_client=origin_client)
        except StorageFailed as failure:
            log.error(
                "%s: append refused by the disk: %s; the partition goes on reading, appends resume when there is room",
                self,
                failure,
            )
            return Appended(KAFKA_STORAGE_ERROR, -1, -1, NO_TIMESTAMP, False)
        if not appended.error_code:
            self._on_change(self)
            if self._flushes:
                self._flushing.appended(self, now)
        return appended

    @property
    def is_flush_due(self) -> bool:
        """Whether as many records as flush.messages allows, or more, are not on stable storage."""
        return self.log.log_end_offset - self.log.synced_offset >= self.config.flush_messages

    def must_sync(self, *, acks_all: bool) -> bool:
        """Whether the reply to the last append has to wait for stable storage."""
        return (acks_all and self.config.ottla_acks_all_sync) or (self._flushes and self.is_flush_due)

    def delete_records(self, offset: int) -> None:
        """Let the log begin at `offset`. Raises `StorageFailed`. The checkpoints are to be written before it is answered."""
        self._changes.made = True
        self.log.delete_records(offset)
        self._on_change(self)

    def is_synced(self, offset: int) -> bool:
        """Whether all records below `offset` are on stable storage; asks for a sync if not."""
        if self.log.synced_offset >= offset:
            return True
        self._syncs.want(self)
        return False

    def when_synced(self, offset: int, callback: Callable[[int], None]) -> None:
        """Call `callback(error_code)` once all records below `offset` are as safe as acks=all promises: at once if they are."""
        if self.offline is not None:
            callback(KAFKA_STORAGE_ERROR)
        elif not self.must_sync(acks_all=True) or self.is_synced(offset):
            callback(NONE)
        else:
            self._waiting.append((offset, callback))

    def release(self) -> None:
        """Call back those whose records are synced by now, or will never be."""
        waiting, self._waiting = self._waiting, []
        for offset, callback in waiting:
            if self.offline is not None:
                callback(KAFKA_STORAGE_ERROR)
            elif self.log.synced_offset >= offset:
                callback(NONE)
            else:
                self._waiting.append((offset, callback))

    def go_offline(self, reason: str) -> None:
        self.offline = reason


class Partitions:
    """All partitions of this broker, by topic and index."""

    def __init__(
        self, disk: Disk, clock: Clock, scheduler: Scheduler, changes: Changes, on_change: Callable[[Partition], None]
    ) -> None:
        self.syncs = Syncs(disk, clock, scheduler, self._synced, self.failed)
        self.checkpoints = Checkpoints(disk, self.failed)
        self._flushing = Flushes(scheduler, self.syncs)
        self._disk = disk
        self._changes = changes
        self._on_change = on_change
        self._topics: dict[str, dict[int, Partition]] = {}

    def __iter__(self) -> Iterator[Partition]:
        return (partition for topic in self._topics.values() for partition in topic.values())

    def get(self, topic: str, index: int) -> Partition | None:
        found = self._topics.get(topic)
        return None if found is None else found.get(index)

    def open(self, topic: str, index: int, topic_id: bytes, config: LogConfig, now: Now, *, clean: bool = False) -> Partition:
        """Open a partition's log, making it if it is new; damage leaves the partition offline and the others untouched."""
        self._changes.made = True
        partition = Partition(topic, index, topic_id, config, self.syncs, self._flushing, self._changes, self._changed)
        try:
            partition.log = self._open_log(partition, now, clean=clean)
            if not self.checkpoints.is_known(partition):
                self.checkpoints.touch(partition)
        except (Damaged, StorageFailed) as failure:
            log.error("%s is offline: %s", partition, failure)
            partition.go_offline(str(failure))
        self._topics.setdefault(topic, {})[index] = partition
        return partition

    def _open_log(self, partition: Partition, now: Now, *, clean: bool) -> Log:
        path = str(partition)
        recovery_point = self.checkpoints.recovery_point(partition.topic, partition.index)
        log_start_offset = self.checkpoints.log_start_offset(partition.topic, partition.index)
        if recovery_point > log_start_offset and not self._disk.exists(path):
            sentence = f"the directory is missing, though it held records below offset {recovery_point}"
            raise StorageFailed(path, f"{sentence}: restore it, or delete the topic to give them up.")
        return Log.open(
            self._disk,
            path,
            partition.config,
            now,
            topic_id=partition.topic_id,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
        )

    def configure(self, topic: str, config: LogConfig, now: Now) -> None:
        """Let a topic's changed settings take effect."""
        for partition in self._topics.get(topic, {}).values():
            partition.configure(config)
            if partition.offline is None:
                partition.log.config = config
                self._flushing.configured(partition, now)
            self._on_change(partition)

    def drop(self, topic: str, index: int) -> bool:
        """Close a partition's log and delete its files; False if they are still there.

        The checkpoints are to be written before its name may come back.
        """
        self._changes.made = True
        self.checkpoints.forget(topic, index)
        partition = self._topics.get(topic, {}).pop(index, None)
        if not self._topics.get(topic):
            self._topics.pop(topic, None)
        if partition is None or partition.offline is not None:
            return not self._disk.exists(f"{topic}-{index}")
        partition.go_offline("the topic was deleted")
        try:
            partition.log.delete()
            return True
        except StorageFailed as failure:
            log.error("%s is deleted, but its files could not be: %s; the next start deletes them", partition, failure)
            return False
        finally:
            partition.release()
            self._on_change(partition)

    def retain(self, now: Now) -> Steps[None]:
        """Apply retention everywhere, a partition with each step."""
        for partition in list(self):
            self._retain(partition, now)
            yield None

    def _retain(self, partition: Partition, now: Now) -> None:
        """Delete one segment if one has to go; the next one goes when it is certain that this one will not come back."""
        if partition.offline is not None:
            return
        start = partition.log.log_start_offset
        removed = partition.log.retain(now, most=1)
        if partition.log.log_start_offset != start:
            self._changed(partition)
        if removed:
            try:
                self._disk.sync_soon([partition.log.directory], partial(self._retained, partition, now))
            except TryAgain as failure:
                log.warning("%s: more of it is deleted the next time: a sync could not begin (%s)", partition, failure)
            except StorageFailed as failure:
                self.failed(partition, failure)

    def _retained(self, partition: Partition, now: Now, failure: StorageFailed | None) -> None:
        if partition.offline is not None:
            return
        if failure is not None:
            self.failed(partition, failure)
            return
        partition.log.names_are_synced()
        self._retain(partition, now)

    def failed(self, partition: Partition, failure: StorageFailed) -> None:
        """A sync failed: what is on stable storage is not known any more. Of one that is deleted, or offline, it is no news."""
        if partition.offline is None:
            log.error("%s: a sync failed (%s); the partition is offline until the broker is started anew", partition, failure)
            partition.go_offline(str(failure))
            self._changed(partition)
        partition.release()

    def checkpoint(self) -> Steps[None]:
        """Note how far each log is on stable storage, and ask for the syncs of segments that were sealed since."""
        for partition in self.checkpoints.touched():
            if partition.offline is None and partition.log.has_unsynced_segments:
                self.syncs.want(partition)
        return self.checkpoints.write_soon()

    def close(self) -> bool:
        """Close every log; False if one is not as an orderly stop leaves it, so that the next start must look closely."""
        clean = True
        for partition in self:
            if partition.offline is None:
                try:
                    partition.log.close()
                    if not self.checkpoints.is_known(partition):
                        self.checkpoints.touch(partition)
                except StorageFailed as failure:
                    clean = False
                    log.error("%s was not closed cleanly: %s", partition, failure)
            else:
                clean = False
        return self.checkpoints.write() and clean

    def _changed(self, partition: Partition) -> None:
        self.checkpoints.touch(partition)
        self._on_change(partition)

    def _synced(self, partition: Partition) -> None:
        self.checkpoints.touch(partition)
        partition.release()
