"""One partition that this broker holds: its log, this broker's role, and the readable range.

Depends on `ottla.log` and `ottla.records`, and not on requests, other partitions or the schedule of syncs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from enum import Enum
from typing import Protocol

from ottla.broker.failures import Changes
from ottla.broker.partitions.traffic import UNCOUNTED
from ottla.cluster.replicas.follower import FollowerState
from ottla.cluster.replicas.leader import LeaderState
from ottla.log.config import FOREVER, LOG_APPEND_TIME
from ottla.log.errors import Vanished
from ottla.log.log import Appended, Log, LogConfig
from ottla.log.unsynced_batches import UnsyncedBatches
from ottla.ports import Now, StorageFailed, SyncFailed
from ottla.records.batches.header import LOG_OVERHEAD_BYTES, BatchHeader
from ottla.records.batches.recompression import Recompression, recompress
from ottla.records.batches.verification import MOST_MS, Demands, Refused, check_at_once, check_slowly
from ottla.records.compression import codecs
from ottla.records.compression.limits import OverLimit
from ottla.records.message_sets.up_conversion import Terms
from ottla.wire.errors import (
    FENCED_LEADER_EPOCH,
    KAFKA_STORAGE_ERROR,
    MESSAGE_TOO_LARGE,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    UNKNOWN_LEADER_EPOCH,
    UNKNOWN_TOPIC_OR_PARTITION,
)

log = logging.getLogger("ottla.broker")

NO_TIMESTAMP = -1
NO_LEADER_EPOCH = -1
STOPPED = "the broker has stopped"
RECOMPRESSED_AT_ONCE_BYTES = 16 * 1024
"""Upper limit of a batch, in bytes, that is recompressed in one step, because strong codecs take milliseconds for it."""

TOO_LARGE = Refused(MESSAGE_TOO_LARGE, "The batch is larger than the topic's max.message.bytes.")

Wait = tuple[int, Callable[[int], None]]
"""A wait for durable records: (the offset below which all must be durable, a callback with the error code)."""

Checked = tuple[memoryview | bytearray, BatchHeader, Refused | None]
"""A client's batch after its check: (bytes to store, header, None), or (bytes, header, refusal)."""


class Role(Enum):
    """The role of this broker's replica of a partition: whether it leads or follows."""

    LEADER = "leader"
    FOLLOWER = "follower"


LEADER = Role.LEADER
"""`Role.LEADER` as a constant, because reading an enum member takes longer than the rest of `leader_error`."""


def demands(config: LogConfig) -> Demands:
    """Return the requirements of a topic's config for each record."""
    if config.message_timestamp_type == LOG_APPEND_TIME:
        return Demands(keyed=config.compacts, append_time=True)
    after_ms = min(config.message_timestamp_after_max_ms, MOST_MS)
    return Demands(keyed=config.compacts, before_ms=config.message_timestamp_before_max_ms, after_ms=after_ms)


def stored_codec(config: LogConfig) -> tuple[int | None, int | None]:
    """Return the (codec, level) of stored batches by a topic's config; (None, None) if each batch keeps its own codec."""
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


class Accountable(Protocol):
    """The client that writes batches. Its `owner` is the name under which new producer ids are counted."""

    @property
    def owner(self) -> str: ...


class Partition:
    """One replica of a partition.

    `offline` says why it can't be used (damage, a failed sync), or is None. `high_watermark` is where readers stop: every record
    below it is on all in-sync replicas. `log` is set unless the partition was offline from the start. `replicas` is the state of a
    leader or follower, or None without a role; a partition without other replicas is always led here.
    """

    __slots__ = (
        "_changes",
        "_codec",
        "_flush",
        "_has_flush_settings",
        "_level",
        "_offline_code",
        "_on_change",
        "_touched",
        "_waiting",
        "_want_name",
        "_want_sync",
        "config",
        "demands",
        "high_watermark",
        "index",
        "key",
        "leader_epoch",
        "log",
        "offline",
        "replicas",
        "role",
        "topic",
        "topic_id",
        "traffic",
    )

    def __init__(
        self,
        topic: str,
        index: int,
        topic_id: bytes,
        config: LogConfig,
        *,
        changes: Changes,
        touched: dict[Partition, None],
        on_change: Callable[[Partition], None],
        want_sync: Callable[[Partition], None],
        want_name: Callable[[Partition], None],
        flush: Callable[[Partition, Now], None],
    ) -> None:
        """Create a partition.

        `changes` records that the current request has changed something. `touched` collects partitions with outdated checkpoints.
        `on_change` is called when the readable range can have changed, and `flush` after each append if the topic has flush.*
        configs. `want_sync` requests a sync of the log, and `want_name` a sync of the newest segment's name.
        """
        self.topic = topic
        self.index = index
        self.topic_id = topic_id
        self.configure(config)
        self.role = LEADER
        self.replicas: LeaderState | FollowerState | None = None
        self.leader_epoch = 0
        self.high_watermark = 0
        self.offline: str | None = None
        self._offline_code = KAFKA_STORAGE_ERROR
        self.key = ("partition", topic, index)
        self.log: Log
        self._changes = changes
        self._touched = touched
        self._on_change = on_change
        self._want_sync = want_sync
        self._want_name = want_name
        self._flush = flush
        self.traffic = UNCOUNTED
        self._waiting: list[Wait] | tuple[()] = ()  # thousands of partitions are idle: they share the empty tuple

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    def use_log(self, log: Log) -> None:
        """Use a recovered log. All of it is readable, because this is the only in-sync replica.

        A log that other brokers wrote continues in its newest leader epoch, because epochs only increase.
        """
        self.log = log
        self.leader_epoch = max(self.leader_epoch, log.leader_epoch)
        self.offline = None
        self.high_watermark = log.log_end_offset

    def configure(self, config: LogConfig) -> None:
        """Apply a changed topic config."""
        self.config = config
        self.demands = demands(config)
        self._has_flush_settings = config.flush_messages < FOREVER or config.flush_ms < FOREVER
        self._codec, self._level = stored_codec(config)

    # Leadership

    def leader_error(self, current_leader_epoch: int = NO_LEADER_EPOCH) -> int:
        """Return the error code for a request that only the leader serves; NONE if it may be served.

        `current_leader_epoch` is the leader epoch in the client's request (KIP-320); -1 skips the check.
        """
        if self.offline is not None:
            return self._offline_code
        if self.role is not LEADER:
            return NOT_LEADER_OR_FOLLOWER
        if current_leader_epoch == NO_LEADER_EPOCH:
            return NONE
        if current_leader_epoch < self.leader_epoch:
            return FENCED_LEADER_EPOCH
        return UNKNOWN_LEADER_EPOCH if current_leader_epoch > self.leader_epoch else NONE

    def reader_error(self, current_leader_epoch: int = NO_LEADER_EPOCH) -> int:
        """Return the error code for a request that any replica serves; NONE if it may be served."""
        return self.leader_error(current_leader_epoch)

    @property
    def last_stable_offset(self) -> int:
        """Return the last stable offset: no transaction is open below it."""
        return min(self.log.last_stable_offset, self.high_watermark)

    @property
    def compactable_offset(self) -> int:
        """Return the offset below which every transaction has ended, by a marker below the high watermark."""
        unreplicated = self.log.producers.first_unreplicated_offset(self.high_watermark)
        return self.last_stable_offset if unreplicated is None else min(self.last_stable_offset, unreplicated)

    @property
    def low_watermark(self) -> int:
        """Return the low watermark: no live replica has records below it."""
        start = self.log.log_start_offset
        return self.replicas.low_watermark(start) if isinstance(self.replicas, LeaderState) else start

    # Appending

    def terms(self, now: Now) -> Terms:
        """Return the current settings by which messages of old formats are converted to batches."""
        size, codec, level = self.config.max_message_bytes, self._codec, self._level
        return Terms(self.demands, now.wall_ms, size, codec=codec, level=level)

    def check_at_once(self, view: memoryview, header: BatchHeader, now: Now) -> Checked | None:
        """Return a client's batch in the form to be stored, or the refusal; None if the check takes long."""
        if header.batch_length + LOG_OVERHEAD_BYTES > self.config.max_message_bytes:
            return view, header, TOO_LARGE
        if self._codec is None or self._codec == header.codec:
            verdict = check_at_once(view, header, self.demands, now.wall_ms)
            return None if verdict is None else (view, *verdict)
        if header.batch_length > RECOMPRESSED_AT_ONCE_BYTES:
            return None
        verdict = check_at_once(view, header, self.demands, now.wall_ms, RECOMPRESSED_AT_ONCE_BYTES)
        if verdict is None:
            return None
        header, refused = verdict
        if refused is not None:
            return view, header, refused
        encoded, header = recompress(view, header, self._codec, self._level)
        return encoded, header, TOO_LARGE if header.size > self.config.max_message_bytes else None

    def check_slowly(self, view: memoryview, header: BatchHeader, now: Now) -> Generator[int, None, Checked]:
        """Check a client's batch of any size, with the pauses of `verify.check_slowly`. Only the batch itself is changed."""
        most_bytes = self.config.max_message_bytes
        if header.batch_length + LOG_OVERHEAD_BYTES > most_bytes:
            return view, header, TOO_LARGE
        if self._codec is None or self._codec == header.codec:
            return (view, *(yield from check_slowly(view, header, self.demands, now.wall_ms)))
        change = Recompression(self._codec, self._level, most_bytes)
        try:
            looking = check_slowly(view, header, self.demands, now.wall_ms, taken=change.add, keeps_all=change.keeps_all)
            header, refused = yield from looking
        except OverLimit:
            return view, header, TOO_LARGE
        if refused is not None:
            return view, header, refused
        encoded, header = change.finish(header)
        return encoded, header, TOO_LARGE if header.size > most_bytes else None

    def append(
        self,
        view: bytearray | memoryview,
        headers: Sequence[BatchHeader],
        now: Now,
        *,
        origin_client: bool = True,
        writer: Accountable | None = None,
    ) -> Appended:
        """Append checked batches as the leader. If the result has an error code, nothing was written.

        `writer` has the owner of an idempotent producer. Beyond the limit of producer ids, ids of the same owner expire first.
        """
        if self.offline is not None or self.role is not LEADER:
            return Appended(self.leader_error(), -1, -1, NO_TIMESTAMP, False)
        self._changes.made = True
        try:
            appended = self.log.append(view, headers, self.leader_epoch, now, origin_client=origin_client)
        except SyncFailed as failure:
            self.fail(failure)
            return Appended(KAFKA_STORAGE_ERROR, -1, -1, NO_TIMESTAMP, False)
        except Vanished:
            self._touched[self] = None  # the next checkpoint takes it offline, and logs why
            return Appended(KAFKA_STORAGE_ERROR, -1, -1, NO_TIMESTAMP, False)
        except StorageFailed as failure:
            sentence = (
                "%s: the disk refused an append: %s; free space on it, or mend it: the partition can be read, and tries again"
            )
            log.error(sentence, self, failure, extra={"cause": "append"})
            return Appended(KAFKA_STORAGE_ERROR, -1, -1, NO_TIMESTAMP, False)
        if not appended.error_code:
            if headers[0].producer_id >= 0 and writer is not None:
                self.log.producers.claim(headers[0].producer_id, writer.owner)
            if self.log.unnamed is not None:
                self._want_name(self)
            if self.replicas is None:
                self.high_watermark = self.log.log_end_offset  # there are no other replicas
            else:
                self._raise_high_watermark(now)
            self._touched[self] = None
            self._on_change(self)
            if self._has_flush_settings:
                self._flush(self, now)
        return appended

    def _raise_high_watermark(self, now: Now) -> None:
        """Advance the high watermark of a partition with other replicas to the end that all in-sync replicas have."""
        raise NotImplementedError

    def acks_error(self) -> int:
        """Return the error code for acks=all before an append. Without other replicas, it is always NONE."""
        return NONE

    def notify_change(self) -> None:
        """Notify readers and checkpoints of a change, such as a new log start offset."""
        self._touched[self] = None
        self._on_change(self)

    def delete_records(self, offset: int) -> None:
        """Advance the log start offset, which the checkpoint file already contains."""
        self._changes.made = True
        self.log.delete_records(offset)
        self.notify_change()

    # Durability

    @property
    def is_flush_due(self) -> bool:
        """Return whether at least flush.messages records are not on stable storage."""
        return self.log.log_end_offset - self.log.durable_offset >= self.config.flush_messages

    def must_sync(self, *, acks_all: bool) -> bool:
        """Return whether the reply to the last append must wait for stable storage."""
        return (acks_all and self.config.ottla_acks_all_sync) or (self._has_flush_settings and self.is_flush_due)

    def when_committed(self, offset: int, callback: Callable[[int], None]) -> None:
        """Call `callback(error_code)` once all records below `offset` satisfy acks=all. Without other replicas, a sync suffices."""
        self.when_synced(offset, callback)

    def when_synced(self, offset: int, callback: Callable[[int], None]) -> None:
        """Call `callback(error_code)` once all records below `offset` are as durable as acks=all requires. This can be at once."""
        if self.offline is not None:
            callback(self._offline_code)
        elif self.log.durable_offset >= offset or not self.must_sync(acks_all=True):
            callback(NONE)
        else:
            self._wait(offset, callback)
            self._want_sync(self)

    def want_sync(self) -> None:
        """Request a sync of everything appended to the log so far."""
        self._want_sync(self)

    def after_sync(self, callback: Callable[[int], None]) -> None:
        """Request a sync, and call `callback(error_code)` after it, or with an error once the partition goes offline."""
        assert self.offline is None, "nothing is synced of what is offline"
        self._wait(0, callback)
        self._want_sync(self)

    def _wait(self, offset: int, callback: Callable[[int], None]) -> None:
        if isinstance(self._waiting, list):
            self._waiting.append((offset, callback))
        else:
            self._waiting = [(offset, callback)]

    def record_sync(self, upto: int, now: Now) -> None:
        """Record that the log's own files are synced up to `upto`, and call the callbacks that waited for it."""
        self.log.mark_synced(upto)
        self._touched[self] = None
        self._on_durable(now)

    def record_journaled(self, batches: UnsyncedBatches, now: Now) -> None:
        """Record that these batches are durable in the journal, and call the callbacks that waited for them."""
        self.log.mark_journaled(batches)
        self._on_durable(now)

    def _on_durable(self, now: Now) -> None:
        """Call the callbacks that waited for the durable part of the log."""
        waiting, end = self._waiting, self.log.durable_offset
        if len(waiting) == 1 and waiting[0][0] <= end:  # mostly so, and then without two loops
            self._waiting = ()
            waiting[0][1](NONE)
            return
        self._waiting = [(offset, callback) for offset, callback in waiting if offset > end] or ()
        for offset, callback in waiting:
            if offset <= end:
                callback(NONE)

    def fail(self, failure: StorageFailed) -> None:
        """Go offline after a failed sync, because the content of stable storage is unknown. Do nothing if already offline."""
        if self.offline is None:
            log.error("%s: a sync failed (%s); the partition is offline until the broker restarts", self, failure)
            self.fail_offline(str(failure))

    def notify_online(self) -> None:
        """Notify waiting requests that the log is open, although it could not be opened at first."""
        self.notify_change()

    def seal(self) -> None:
        """Go offline without notice, because the log is closed. A callback after a sync might append, so drop all that wait.

        The next start would treat records beyond the end of a cleanly closed log as damage.
        """
        self._waiting = ()
        if self.offline is None:
            self.offline = STOPPED

    def fail_offline(self, reason: str) -> None:
        """Go offline, and call all waiting callbacks with KAFKA_STORAGE_ERROR, or with the error code of a deleted log."""
        self.offline = reason
        self.log.producers.leave()
        self.notify_change()
        waiting, self._waiting = self._waiting, ()
        for _, callback in waiting:
            callback(self._offline_code)

    def end_deleted(self) -> None:
        """Go offline, because the log is deleted, with the topic or because the broker no longer has a replica of it."""
        self._offline_code = UNKNOWN_TOPIC_OR_PARTITION if self.role is LEADER else NOT_LEADER_OR_FOLLOWER
        self.fail_offline("the topic was deleted")
