"""The accumulator, which collects records into batches. A partition's open batch is closed when it is full or has lingered.

`append_quickly` runs once per record, everything else once per batch. User threads append while the event loop closes and finishes
batches. Therefore all changing state is private, and every method but `append_quickly` takes the lock. `records.kernel_send` says
why `append_quickly` needs no lock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from typing import Final, NamedTuple

from ottla.client.arguments import short_repr, whole
from ottla.client.errors import BrokerError, KafkaError, SettingError
from ottla.client.producer.batch_buffers import BatchBuffers
from ottla.client.producer.partitioner import UNKNOWN, Partitioner
from ottla.client.types import RecordMetadata, TopicPartition
from ottla.records.batches.builder import NO_ROWS, encode_headers
from ottla.records.batches.columns import open_batches
from ottla.records.batches.rows import Order, RowBatch, Rows
from ottla.records.kernel_send import RecordAppender
from ottla.wire.errors import MESSAGE_TOO_LARGE

RECORD_OVERHEAD_BYTES: Final = 21
"""The upper bound of a record's bytes beyond key, value and headers."""
BATCH_OVERHEAD_BYTES: Final = 61

Headers = Sequence[tuple[str, bytes | None]]
BYTES = (bytes, bytearray, memoryview, type(None))
"""The accepted types of a key or a value."""


class BatchPart(NamedTuple):
    """The outcome of some records of a batch, which the producer has split because the broker refused it as too large."""

    indexes: range
    base_offset: int
    log_append_time_ms: int
    error: KafkaError | None


class PendingBatch(RowBatch):
    """The records of one batch that is not written yet. Once the batch is `done`, it has the outcome of each record.

    The batch is closed at `close_ms` even if it is not full, and must be written by `deadline_ms`. `limit` bounds its size before
    compression.
    """

    __slots__ = (
        "_parts", "_watchers", "base_offset", "close_ms", "deadline_ms", "done", "error", "log_append_time_ms", "on_error_raised",
        "where",
    )  # fmt: skip

    def __init__(self, where: TopicPartition, close_ms: int, deadline_ms: int, limit: int, out: bytearray | None = None) -> None:
        super().__init__(limit, out)
        self.where = where
        self.close_ms = close_ms
        self.deadline_ms = deadline_ms
        self.done = False
        self.error: KafkaError | None = None
        self.on_error_raised: Callable[[int], None] | None = None
        """A callback that gets the index of each record whose error is raised."""
        self.base_offset = -1
        self.log_append_time_ms = -1
        self._parts: list[BatchPart] = []
        self._watchers: deque[Callable[[], object]] = deque()

    @property
    def size(self) -> int:
        """Return the size in bytes, header included, before compression."""
        return self.end

    def encode(self, codec: int) -> bytearray:
        """Return the whole batch, compressed in `codec`. No record can be added afterwards."""
        return self.seal(codec=codec)

    def watch(self, watcher: Callable[[], object]) -> None:
        """Call `watcher` once, when the batch is done, or at once if it is done already. Any thread may call this."""
        self._watchers.append(watcher)
        if self.done:
            self._call_watchers()

    def _call_watchers(self) -> None:
        """Call the watchers in their order, all of them even if one raises, and forget them."""
        found = []
        with suppress(IndexError):  # another thread can take the last one
            while self._watchers:
                found.append(self._watchers.popleft())
        if len(found) == 1:
            found[0]()
            return
        with ExitStack() as stack:
            for watcher in reversed(found):
                stack.callback(watcher)

    def timestamp(self, index: int) -> int:
        """Return the timestamp of record `index`, in ms. If rows have several, the batch must be encoded."""
        known = super().timestamp(index)
        return open_batches(self.out).timestamps[index] if known is None else known

    def finish(self, *, base_offset: int = -1, log_append_time_ms: int = -1, error: KafkaError | None = None) -> None:
        """Store the outcome of the batch, release its bytes, and call the watchers."""
        self.base_offset, self.log_append_time_ms, self.error = base_offset, log_append_time_ms, error
        if not self.has_unknown_times:
            self.out = bytearray()
        self.done = True
        self._call_watchers()

    def finish_part(self, part: BatchPart) -> None:
        """Store the outcome of some records. After the last of them, the batch is done."""
        if len(part.indexes) == self.record_count:
            self.finish(base_offset=part.base_offset, log_append_time_ms=part.log_append_time_ms, error=part.error)
            return
        is_last = self.is_last(part)
        self._parts.append(part)
        if is_last:
            self.finish()

    def is_last(self, part: BatchPart) -> bool:
        """Return whether the outcome of all other records is stored already."""
        return len(part.indexes) + sum(len(each.indexes) for each in self._parts) == self.record_count

    def _part(self, index: int) -> BatchPart:
        if self._parts and (found := next((part for part in self._parts if index in part.indexes), None)) is not None:
            return found
        return BatchPart(range(self.record_count), self.base_offset, self.log_append_time_ms, self.error)

    def error_of(self, index: int) -> KafkaError | None:
        """Return the error that prevented the writing of record `index`, without raising it. The batch must be done."""
        return self._part(index).error

    def outcome(self, index: int) -> RecordMetadata:
        """Return the metadata of record `index`, or raise the error that prevented its writing. The batch must be done."""
        part = self._part(index)
        if part.error is not None:
            if self.on_error_raised is not None:
                self.on_error_raised(index)
            raise part.error.with_traceback(None)
        offset = part.base_offset + index - part.indexes.start if part.base_offset >= 0 else -1
        timestamp = part.log_append_time_ms if part.log_append_time_ms >= 0 else self.timestamp(index)
        return RecordMetadata(*self.where, offset, timestamp)


class RecordFields(NamedTuple):
    """A record's fields as batches store them: immutable bytes."""

    key: bytes | None
    value: bytes | None
    headers: Headers | None
    timestamp_ms: int | None


def checked_record(key: object, value: object, headers: Iterable[object] | None, timestamp_ms: int | None) -> RecordFields:
    """Copy a record's arguments into fields for a batch, because the caller may change them before the batch is built.

    Raises `TypeError` for a value that a record cannot hold. Raises `SettingError` for a timestamp out of range, and for a header
    name that cannot be encoded as UTF-8.
    """
    if timestamp_ms is not None:
        timestamp_ms = whole("A record's timestamp_ms", timestamp_ms, hint=": give the ms since 1970")
    if headers is not None and (not isinstance(headers, Iterable) or isinstance(headers, str | bytes | Mapping)):
        raise TypeError(f"A record's headers are a list of pairs of a string and bytes or None, not {short_repr(headers)}.")
    copied = tuple(_checked_header(header) for header in headers or ())
    return RecordFields(_checked_bytes("key", key), _checked_bytes("value", value), copied, timestamp_ms)


def _checked_bytes(name: str, given: object) -> bytes | None:
    if not isinstance(given, BYTES):
        raise TypeError(f"A record's {name} is bytes or None, not {type(given).__name__}: encode it first.")
    return None if given is None else bytes(given)


def _checked_header(header: object) -> tuple[str, bytes | None]:
    if isinstance(header, tuple | list) and len(header) == 2 and isinstance(header[0], str) and isinstance(header[1], BYTES):
        name, value = header
        try:
            name.encode()
        except UnicodeEncodeError:
            raise SettingError(f"The name of a header cannot be written as UTF-8: {name!r}.") from None
        return name, None if value is None else bytes(value)
    raise TypeError(f"A record's headers are pairs of a string and bytes or None, not {header!r}.")


class AddedRows(NamedTuple):
    """The numbers of the rows that a batch got, in their order: the first is record `first_index` of the batch."""

    batch: PendingBatch
    first_index: int
    rows: Sequence[int]


class Closing(NamedTuple):
    """The result of `Accumulator.close`: the closed batches, and the time in ms when the next open batch must be closed, or
    None.
    """

    batches: list[PendingBatch]
    next_close_ms: int | None


class Accumulator:
    """The batches of all partitions that are not written yet. `pending_bytes` counts their bytes.

    A batch must be written within `delivery_timeout_ms` of its first record, and lingers for at most half of this time. `check` is
    called before each record, and can raise. `lock` is held during every change but `append_quickly`, which needs none. Without a
    lock, all calls must come from one thread. `clock` returns ns since 1970. `opener` makes the batches.
    """

    def __init__(
        self,
        *,
        batch_size: int,
        linger_ms: int,
        delivery_timeout_ms: int,
        max_record_bytes: int,
        partitioner: Partitioner,
        clock: Callable[[], int],
        most_pending_bytes: int = 1 << 62,
        has_own_partitions: bool = False,
        check: Callable[[], object] | None = None,
        lock: AbstractContextManager[object] | None = None,
        opener: Callable[[TopicPartition, int, int, int, bytearray | None], PendingBatch] = PendingBatch,
    ) -> None:
        self._unfinished: dict[PendingBatch, None] = {}
        """The unfinished batches, in the order in which they were opened."""
        self._open: dict[tuple[str, int], PendingBatch] = {}
        self._full: list[PendingBatch] = []
        self._batch_size = batch_size
        self._linger_ms = min(linger_ms, delivery_timeout_ms // 2)
        self._delivery_timeout_ms = delivery_timeout_ms
        self._max_record_bytes = max_record_bytes
        self._partitioner = partitioner
        self._check = check
        self._lock: AbstractContextManager[object] = nullcontext() if lock is None else lock
        self._open_new = opener
        self._spare = BatchBuffers()
        self._appender = RecordAppender(
            clock,
            self._lock,
            check,
            partitions=not has_own_partitions,
            most_pending_bytes=most_pending_bytes,
            most_record_bytes=max_record_bytes,
        )
        self.append_quickly = self._appender.append
        """A function of topic, value, key, partition, headers and timestamp (None: now) that adds a record to an open batch.

        It returns the record's `Delivery`, or None if nothing was done and `append` must be called, which also finds mistakes.
        """

    @property
    def pending_bytes(self) -> int:
        """Return the bytes of all batches that are not written."""
        return self._appender.pending_bytes

    @property
    def full_count(self) -> int:
        """Return the number of full batches that `close` has not returned yet. This takes no lock."""
        return len(self._full)

    def append(
        self,
        topic: str,
        partition: int | None,
        count: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None,
        timestamp_ms: int,
        now_ms: Callable[[], int],
    ) -> tuple[PendingBatch, int]:
        """Add a record to the open batch of its partition. Return the batch and the record's index.

        With `partition` None, the partitioner chooses one of `count` partitions. `now_ms` is called only if the record opens a
        batch: its index is then 0, and `close` must be called soon. Raises `BrokerError` (MESSAGE_TOO_LARGE), and what `check`
        raises.
        """
        encoded = encode_headers(headers) if headers else None
        size = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"") + len(encoded or b"")
        with self._lock:
            if self._check is not None:
                self._check()
            if size + BATCH_OVERHEAD_BYTES > self._max_record_bytes:
                raise BrokerError(
                    MESSAGE_TOO_LARGE, "send()", f"A record of {size} bytes is over max_request_size={self._max_record_bytes}."
                )
            self._appender.set_count(topic, count)
            if partition is None:
                partition = self._choose(topic, key, count)
            batch = self._open.get((topic, partition))
            index = -1 if batch is None else self._appender.add(batch, key, value, encoded, timestamp_ms)
            if batch is None or index < 0:
                batch = self._open_batch(TopicPartition(topic, partition), now_ms())
                index = self._appender.add(batch, key, value, encoded, timestamp_ms)
        return batch, index

    def _choose(self, topic: str, key: bytes | None, count: int) -> int:
        partition = self._partitioner.partition(topic, key, count)
        if key is None:
            self._appender.stick(topic, partition)
        return partition

    def extend(
        self,
        topic: str,
        partition: int | None,
        count: int,
        rows: Rows,
        start: int,
        stop: int,
        now_ms: Callable[[], int],
        spread: Mapping[int, Order] | None = None,
    ) -> list[AddedRows]:
        """Add the rows from `start` to `stop`, without a Python object for each. Return the rows that each batch got.

        `topic`, `partition` and `count` are those of `append`. `spread` has the rows of each partition, in their order, if the
        caller has chosen them. A row that can exceed the maximum size of a record is not added, and
        no row after it. Raises exceptions of `check`.
        """
        stop = rows.first_above(self._max_record_bytes - BATCH_OVERHEAD_BYTES, start, stop)
        added: list[AddedRows] = []
        with self._lock:
            if self._check is not None:
                self._check()
            self._appender.set_count(topic, count)
            if spread is None and partition is None and rows.key_data is not None and count > 1:
                spread = self._partitioner.spread(topic, rows, start, stop, count)
            if spread is not None:
                for chosen, order in spread.items():
                    at, end = 0, bisect_left(order, stop)
                    while at < end:
                        at = self._extend(TopicPartition(topic, chosen), rows, order, at, end, now_ms, added)
                return added
            while start < stop:
                chosen = self._choose(topic, None, count) if partition is None else partition
                start = self._extend(TopicPartition(topic, chosen), rows, NO_ROWS, start, stop, now_ms, added)
        return added

    def _extend(
        self,
        where: TopicPartition,
        rows: Rows,
        order: Order,
        start: int,
        stop: int,
        now_ms: Callable[[], int],
        added: list[AddedRows],
    ) -> int:
        """Add rows to one batch. Return the first index in `order` that was not added."""
        batch = self._open.get(where)
        if batch is None or batch.size >= self._batch_size - RECORD_OVERHEAD_BYTES:
            batch = self._open_batch(where, now_ms())
        end = self._extend_batch(batch, rows, order, start, stop, added)
        if end == start:
            end = self._extend_batch(self._open_batch(where, now_ms()), rows, order, start, stop, added)
        return end

    def _extend_batch(self, batch: PendingBatch, rows: Rows, order: Order, start: int, stop: int, added: list[AddedRows]) -> int:
        batch.is_open = False  # from here on, no other thread adds a record, and the numbers stay
        index, size = batch.record_count, batch.size
        try:
            end = batch.extend(rows, order, start, stop, self._batch_size)
        except BaseException:
            if not index:  # an open batch without records would take one by `append_quickly`, and be closed by no call of `close`
                self._pop_open(batch.where)
                self._forget(batch)
            raise
        self._appender.count(batch.size - size)
        if end > start:
            added.append(AddedRows(batch, index, order[start:end] if len(order) else range(start, end)))
        return end

    def _open_batch(self, where: TopicPartition, now_ms: int) -> PendingBatch:
        """Open a batch. The partition's open batch, if there is one, is full."""
        full = self._pop_open(where)
        if full is not None:
            self._full.append(full)
        times = now_ms + self._linger_ms, now_ms + self._delivery_timeout_ms
        batch = self._open_new(where, *times, self._batch_size, self._spare.pop())
        self._open[where] = batch
        self._unfinished[batch] = None
        self._appender.count(batch.size)
        self._appender.open(*where, batch)
        return batch

    def _pop_open(self, where: tuple[str, int]) -> PendingBatch | None:
        """Take out and close the open batch of a partition."""
        batch = self._open.pop(where, None)
        if batch is not None:
            self._appender.close(*where, batch)
        return batch

    def _leave(self, batch: PendingBatch) -> None:
        """Let the next records without a key go to another partition."""
        self._partitioner.leave(*batch.where)
        self._appender.stick(batch.where.topic, UNKNOWN)

    def close(self, now_ms: int, hold: Callable[[TopicPartition], bool]) -> Closing:
        """Close and return the full batches and the batches that have lingered.

        A partition for which `hold` returns True keeps its open batch until it is full or at its deadline.
        """
        if not self._open and not self._full:  # without the lock, because a thread that opens a batch has this called afterwards
            return Closing([], None)
        with self._lock:
            closed, self._full = self._full, []
            for where, batch in list(self._open.items()):
                if batch.close_ms <= now_ms and (batch.deadline_ms <= now_ms or not hold(batch.where)):
                    self._pop_open(where)
                    closed.append(batch)
            for batch in closed:
                self._leave(batch)
            # A batch that has lingered and is on hold must be closed at its deadline.
            times = (batch.close_ms if batch.close_ms > now_ms else batch.deadline_ms for batch in self._open.values())
            return Closing(closed, min(times, default=None))

    def recount(self) -> None:
        """Let the next record of each topic be added by `append`, because the numbers of partitions may have changed."""
        self._appender.recount()

    def end_linger(self) -> list[PendingBatch]:
        """End the linger time of all open batches. Return all unfinished batches."""
        with self._lock:
            for batch in self._open.values():
                batch.close_ms = 0
            return list(self._unfinished)

    def unwritten(self) -> dict[str, int]:
        """Return the number of records of unfinished batches, by topic."""
        counts: dict[str, int] = {}
        with self._lock:
            for batch in self._unfinished:
                counts[batch.where.topic] = counts.get(batch.where.topic, 0) + batch.record_count
        return counts

    def release(self, batch: PendingBatch) -> None:
        """Subtract the bytes of a finished batch from `pending_bytes`, so that new records can use this memory."""
        with self._lock:
            self._forget(batch)

    def _forget(self, batch: PendingBatch) -> None:
        if batch in self._unfinished:
            del self._unfinished[batch]
            self._appender.count(-batch.size)
            self._spare.add(batch.out)

    def _drop_open(self) -> None:
        for where in list(self._open):
            self._pop_open(where)

    def drop(self) -> list[PendingBatch]:
        """Remove and return the batches that are still open or full, so that they are never written."""
        with self._lock:
            dropped = [*self._full, *self._open.values()]
            self._full = []
            self._drop_open()
            for batch in dropped:
                self._leave(batch)
                self._forget(batch)
            return dropped

    def end(self, check: Callable[[], object]) -> None:
        """Accept no more records: from now on `check`, which always raises, is called before each record."""
        with self._lock:
            self._appender.is_open = False
            self._check = check

    def abandon(self) -> list[PendingBatch]:
        """Remove and return all unfinished batches, including the batches that the sender has already got."""
        with self._lock:
            self._drop_open()
            gone, self._full = list(self._unfinished), []
            for batch in gone:
                self._forget(batch)
            return gone
