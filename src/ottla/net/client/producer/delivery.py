"""The result of `send`: a queued record. A caller can await it, wait for it on a thread, or ignore it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.arguments import short_repr, waitable
from ottla.client.errors import KafkaError, TimedOut
from ottla.client.producer.accumulator import PendingBatch
from ottla.client.types import RecordMetadata, TopicPartition
from ottla.net.client.background import check_exit
from ottla.records import kernel_send

if TYPE_CHECKING:
    Delivery = kernel_send.Delivery[RecordMetadata, KafkaError]
else:
    Delivery = kernel_send.Delivery


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


class AwaitableBatch(PendingBatch):
    """A batch for whose outcome threads and tasks can wait. `call_back` calls a callback, and raises nothing."""

    __slots__ = ("_call_back",)

    def __init__(
        self,
        where: TopicPartition,
        close_ms: int,
        deadline_ms: int,
        limit: int,
        out: bytearray | None = None,
        *,
        call_back: Callable[[Callable[[Delivery], object], Delivery], None],
    ) -> None:
        super().__init__(where, close_ms, deadline_ms, limit, out)
        self._call_back = call_back

    def result(self, index: int, timeout: float | None) -> RecordMetadata:
        """Return the outcome of record `index`. Wait for it up to `timeout` seconds; None waits without limit."""
        if timeout is not None and not isinstance(timeout, int | float):
            raise TypeError(f"timeout is a number of seconds, not {short_repr(timeout)}.")
        if not self.done:
            check_exit()
            # A lock of its own for each wait: unlike an event's, an interrupt can leave none locked that `finish` needs.
            arrived = threading.Lock()
            arrived.acquire()
            self.watch(arrived.release)
            limit_s = waitable(timeout)
            if not arrived.acquire(timeout=-1 if limit_s is None else max(0, limit_s)):
                raise TimedOut(f"The record was not acknowledged within {timeout} s.")
        return self.outcome(index)

    def call_when_done(self, callback: Callable[[Delivery], object], delivery: Delivery) -> None:
        """Call `callback(delivery)` once the batch is done, on the client's thread or at once. Raises `TypeError`."""
        if not callable(callback):
            raise TypeError(f"add_done_callback() takes a function of the record's Delivery, not {short_repr(callback)}.")
        self.watch(partial(self._call_back, callback, delivery))

    def arrive(self, index: int) -> Generator[None, None, RecordMetadata]:
        """Wait on the running loop for the outcome of record `index`, and return it."""
        if not self.done:
            yield from arrival(self)
        return self.outcome(index)


class SentRows(NamedTuple):
    """The numbers of the rows that one batch got, and the `Delivery` of the first of them.

    The others have the same outcome, and the offsets that follow.
    """

    delivery: Delivery
    rows: Sequence[int]
