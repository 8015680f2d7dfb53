"""The result of `send`: a queued record. A caller can await it, wait for it on a thread, or ignore it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import NamedTuple

from ottla.client.arguments import short_repr
from ottla.client.errors import KafkaError, TimedOut
from ottla.client.producer.accumulator import PendingBatch
from ottla.client.types import RecordMetadata


def arrival(batch: PendingBatch) -> asyncio.Future[None]:
    """Return a future of the running loop that is done once `batch` is done. Any thread can finish the batch."""
    loop, thread = asyncio.get_running_loop(), threading.get_ident()
    arrived: asyncio.Future[None] = loop.create_future()

    def on_batch() -> None:
        if not arrived.done():
            arrived.set_result(None)

    def finish() -> None:
        if threading.get_ident() == thread:
            on_batch()
        else:
            with suppress(RuntimeError):  # the loop was closed, and nothing awaits the future
                loop.call_soon_threadsafe(on_batch)

    batch.watch(finish)
    return arrived


class Delivery:
    """The future result of a record that is being sent. `index` is the record's position in its batch, counted from 0."""

    __slots__ = ("_batch", "index")

    def __init__(self, batch: PendingBatch, index: int) -> None:
        self._batch = batch
        self.index = index

    @property
    def topic(self) -> str:
        """Return the topic of the record."""
        return self._batch.where.topic

    @property
    def partition(self) -> int:
        """Return the partition of the record."""
        return self._batch.where.partition

    def done(self) -> bool:
        """Return whether the record was written or has failed."""
        return self._batch.done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Return the record's metadata. Wait for it up to `timeout` seconds; None waits without limit.

        Raises `TimedOut`, or the `KafkaError` that prevented the writing of the record.
        """
        if timeout is not None and not isinstance(timeout, int | float):
            raise TypeError(f"timeout is a number of seconds, not {short_repr(timeout)}.")
        if not self._batch.done:
            arrived = threading.Event()
            self._batch.watch(arrived.set)
            if not arrived.wait(timeout):
                raise TimedOut(f"The record was not acknowledged within {timeout} s.")
        return self._batch.outcome(self.index)

    def error(self) -> KafkaError | None:
        """Return the error of a record that has failed, and None otherwise. Unlike `result`, this does not count as reading it."""
        return self._batch.error_of(self.index) if self._batch.done else None

    def add_done_callback(self, callback: Callable[[Delivery], None]) -> None:
        """Call `callback(delivery)` once the record is written or has failed, on the client's thread or at once."""
        left = [callback]

        def once() -> None:
            with suppress(IndexError):
                left.pop()(self)

        self._batch.watch(once)

    def __await__(self) -> Generator[None, None, RecordMetadata]:
        if not self._batch.done:
            yield from arrival(self._batch)
        return self._batch.outcome(self.index)


class SentRows(NamedTuple):
    """The numbers of the rows that one batch got, and the `Delivery` of the first of them.

    The others have the same outcome, and the offsets that follow.
    """

    delivery: Delivery
    rows: Sequence[int]
