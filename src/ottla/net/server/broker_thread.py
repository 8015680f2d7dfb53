"""Calls of other threads on a broker's thread. The broker's thread never waits for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

from ottla.net.server.exception_boundary import BrokerFailed
from ottla.net.server.server import Server

T = TypeVar("T")


class BrokerThread:
    """The thread of a broker. Any thread may call `request`."""

    def __init__(self, server: Server, loop: asyncio.AbstractEventLoop) -> None:
        self._server = server
        self._loop = loop

    def request(self, begin: Callable[[Callable[[T], None]], None]) -> Future[T]:
        """Call `begin(done)` on the broker's thread, and return a future of the value that `done` gets.

        The future fails with `BrokerFailed` if the broker has ended. Once the call has begun, the future cannot be cancelled, so
        that only the broker's thread changes it.
        """
        future: Future[T] = Future()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return
            self._server.complete(partial(begin, partial(_resolve, future)))
            if self._server.door.failure is not None and not future.done():
                future.set_exception(BrokerFailed())

        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:  # the loop is closed
            future.set_exception(BrokerFailed())
        return future


def _resolve(future: Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)
