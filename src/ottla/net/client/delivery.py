"""What `send` returns: a record on its way, to be awaited, waited for, or left alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import suppress

from ottla.client.accumulator import PendingBatch
from ottla.client.errors import TimedOut
from ottla.client.types import RecordMetadata


def arrival(draft: PendingBatch) -> asyncio.Future[None]:
    """A future of the running loop that is done with `draft`, whichever thread that is on."""
    loop, thread = asyncio.get_running_loop(), threading.get_ident()
    arrived: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not arrived.done():
            arrived.set_result(None)

    def done() -> None:
        if threading.get_ident() == thread:
            tell()
        else:
            with suppress(RuntimeError):  # the loop was closed, and nobody waits any more
                loop.call_soon_threadsafe(tell)

    draft.watch(done)
    return arrived


class Delivery:
    """One record's way to the broker. Knows its batch and its place in it."""

    __slots__ = ("_draft", "_index")

    def __init__(self, draft: PendingBatch, index: int) -> None:
        self._draft = draft
        self._index = index

    def done(self) -> bool:
        """Whether it has been written, or given up."""
        return self._draft.done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Where the record landed; waits up to `timeout` seconds. Raises `KafkaError` if it was not written, `TimedOut`."""
        if not self._draft.done:
            arrived = threading.Event()
            self._draft.watch(arrived.set)
            if not arrived.wait(timeout):
                raise TimedOut(f"The record was not acknowledged within {timeout} s.")
        return self._draft.outcome(self._index)

    def add_done_callback(self, callback: Callable[[Delivery], None]) -> None:
        """Call `callback(delivery)` once it is done, on the client's own thread; at once if it is done already."""
        left = [callback]

        def once() -> None:
            with suppress(IndexError):
                left.pop()(self)

        self._draft.watch(once)

    def __await__(self) -> Generator[None, None, RecordMetadata]:
        if not self._draft.done:
            yield from arrival(self._draft)
        return self._draft.outcome(self._index)
