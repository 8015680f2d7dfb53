"""Records on their way into batches: one open draft per partition, closed when full or when it has lingered (Kafka's accumulator).

Appending is the producer's hot path, once per record; everything else here is once per batch. Knows neither brokers nor wire.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Final

from ottla.client.errors import BrokerError, KafkaError
from ottla.client.partitioner import Partitioner
from ottla.client.types import RecordMetadata, TopicPartition
from ottla.wire.errors import MESSAGE_TOO_LARGE

RECORD_OVERHEAD_BYTES: Final = 21
"""The most that a record takes beside key, value and headers."""
BATCH_OVERHEAD_BYTES: Final = 61

Headers = Sequence[tuple[str, bytes | None]]
BYTES = (bytes, bytearray, memoryview, type(None))
"""What a key or a value may be."""


class PendingBatch:
    """The records of one batch to be, and later what became of them. `size` is an upper bound, in bytes, before compression."""

    __slots__ = (
        "_watchers",
        "base_offset",
        "close_ms",
        "done",
        "error",
        "headers",
        "keys",
        "log_append_time_ms",
        "size",
        "timestamps",
        "values",
        "where",
    )  # fmt: skip

    def __init__(self, where: TopicPartition, close_ms: int) -> None:
        self.where = where
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.timestamps: list[int] = []
        self.headers: list[Headers] | None = None
        self.size = BATCH_OVERHEAD_BYTES
        self.close_ms = close_ms
        self.done = False
        self.error: KafkaError | None = None
        self.base_offset = self.log_append_time_ms = -1
        self._watchers: list[Callable[[], None]] = []

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` when done; at once (perhaps a second time) if that is already so. From any thread."""
        self._watchers.append(watcher)
        if self.done:
            watcher()

    def finish(self, *, base_offset: int, log_append_time_ms: int, error: KafkaError | None) -> None:
        self.base_offset, self.log_append_time_ms, self.error = base_offset, log_append_time_ms, error
        self.done = True
        # A watcher that raises keeps none of the others from hearing.
        with ExitStack() as watchers:
            for watcher in reversed(self._watchers):
                watchers.callback(watcher)

    def outcome(self, index: int) -> RecordMetadata:
        """Where record `index` landed; raises why it did not. Only when done."""
        if self.error is not None:
            raise self.error
        offset = self.base_offset + index if self.base_offset >= 0 else -1
        timestamp = self.log_append_time_ms if self.log_append_time_ms >= 0 else self.timestamps[index]
        return RecordMetadata(*self.where, offset, timestamp)


def check_record(key: object, value: object, headers: Iterable[object] | None, timestamp_ms: object) -> None:
    """Raise `TypeError` for what cannot be in a record, before it is in a batch with others."""
    for name, given in (("key", key), ("value", value)):
        if not isinstance(given, BYTES):
            raise TypeError(f"A record's {name} is bytes or None, not {type(given).__name__}: encode it first.")
    for header in headers or ():
        pair = isinstance(header, tuple | list) and len(header) == 2
        if not pair or not isinstance(header[0], str) or not isinstance(header[1], BYTES):  # type: ignore[index]  # a pair
            raise TypeError(f"A record's headers are pairs of a text and bytes or None; {header!r} is none.")
    if timestamp_ms is not None and not (isinstance(timestamp_ms, int) and 0 <= timestamp_ms < 1 << 63):
        raise TypeError(f"A record's timestamp_ms is a whole number, the ms since 1970, not {timestamp_ms!r}.")


def headers_size(headers: Headers) -> int:
    """An upper bound of the bytes of a record's headers."""
    return sum(10 + 3 * len(name) + len(value or b"") for name, value in headers)


class Accumulator:
    """All open drafts. `pending_bytes` counts what is not done yet; `news` says that a driver should look in."""

    def __init__(self, *, batch_size: int, linger_ms: int, max_record_bytes: int, partitioner: Partitioner) -> None:
        self.pending_bytes = 0
        self.news = False
        self.undone: set[PendingBatch] = set()
        self._open: dict[tuple[str, int], PendingBatch] = {}
        self._full: list[PendingBatch] = []
        self._batch_size = batch_size
        self._linger_ms = linger_ms
        self._max_record_bytes = max_record_bytes
        self.partitioner = partitioner

    def append(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None,
        timestamp_ms: int,
        now_ms: int,
    ) -> PendingBatch:
        """Add one record to its partition's draft, as its last. Raises `BrokerError` (MESSAGE_TOO_LARGE)."""
        size = RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
        if headers:
            size += headers_size(headers)
        draft = self._open.get((topic, partition))
        if draft is None or draft.size + size > self._batch_size:
            draft = self._next(topic, partition, size, now_ms)
        draft.keys.append(key)
        draft.values.append(value)
        draft.timestamps.append(timestamp_ms)
        if headers or draft.headers is not None:
            self._add_headers(draft, headers or ())
        draft.size += size
        self.pending_bytes += size
        return draft

    def _add_headers(self, draft: PendingBatch, headers: Headers) -> None:
        if draft.headers is None:
            draft.headers = [()] * (len(draft.values) - 1)
        draft.headers.append(headers)

    def _next(self, topic: str, partition: int, size: int, now_ms: int) -> PendingBatch:
        if size + BATCH_OVERHEAD_BYTES > self._max_record_bytes:
            raise BrokerError(
                MESSAGE_TOO_LARGE, "send()", f"A record of {size} bytes is over max_request_size={self._max_record_bytes}."
            )
        full = self._open.pop((topic, partition), None)
        if full is not None:
            self._full.append(full)
        draft = self._open[topic, partition] = PendingBatch(TopicPartition(topic, partition), now_ms + self._linger_ms)
        self.undone.add(draft)
        self.pending_bytes += draft.size
        self.news = True
        return draft

    def close(self, now_ms: int, hold: Callable[[TopicPartition], bool]) -> list[PendingBatch]:
        """Take the drafts that are full, and those that have lingered and are not on `hold`: those may grow on."""
        closed, self._full = self._full, []
        for key, draft in list(self._open.items()):
            if draft.close_ms <= now_ms and not hold(draft.where):
                closed.append(self._open.pop(key))
        for draft in closed:
            self.partitioner.leave(*draft.where)
        return closed

    def hurry(self) -> None:
        """Nothing open lingers any longer."""
        for draft in self._open.values():
            draft.close_ms = 0

    def next_close_ms(self, now_ms: int) -> int | None:
        """When the next open draft will have lingered; those that have already wait for something else than time."""
        return min((draft.close_ms for draft in self._open.values() if draft.close_ms > now_ms), default=None)

    def finished(self, draft: PendingBatch) -> None:
        """`draft` is done: its memory is free."""
        self.pending_bytes -= draft.size
        self.undone.discard(draft)

    def abandon(self) -> list[PendingBatch]:
        """Forget all that is not done, and return it: nobody will send it."""
        gone, self._full, self._open = list(self.undone), [], {}
        self.undone.clear()
        return gone
