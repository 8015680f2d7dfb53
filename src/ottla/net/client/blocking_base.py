"""The parts of blocking clients that asynchronous clients lack. `tools/blocking.py` derives all other parts.

Everything runs on a client's background thread, except for the hot paths: a producer appends to the accumulator on the caller's
thread (`producer.blocking_producer`), and `Consumer.records` decodes there, so that fetching continues meanwhile.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Generic, Protocol, Self, TypeVar

from ottla.client.other_names import ClientType
from ottla.net.client.background import BackgroundLoop, UserCalls
from ottla.net.client.consumer.listeners import refuse_in_listener
from ottla.net.client.lifetime import OfOneProcess
from ottla.net.client.statistics import Statistics


class AsyncClient(Protocol):
    """An asynchronous client: a context manager that `start` enters."""

    @property
    def _statistics(self) -> Statistics | None: ...

    async def start(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


Client = TypeVar("Client", bound=AsyncClient)
Result = TypeVar("Result")


def _name_for_users(client: type) -> None:
    """Name the methods of a base class, such as `BlockingProducer`, after the class that users call: Python's errors show it."""
    for name, method in vars(client).items():
        if inspect.isfunction(method):
            shown = name.removeprefix("_").removesuffix("_intercepted") if name.endswith("_intercepted") else name
            method.__qualname__ = f"{client.__name__.removeprefix('Blocking')}.{shown}"


class BlockingClient(OfOneProcess, Generic[Client], metaclass=ClientType):
    """A context manager around an asynchronous client, which runs on a background thread."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__.startswith("ottla."):
            _name_for_users(cls)

    def __init__(self, client: Client, kind: str) -> None:
        self._async = client
        self._user_calls = UserCalls()
        if client._statistics is not None:
            client._statistics.bind(self._hand_over)
        self._background = BackgroundLoop.begin(f"ottla-{kind}", client.start)
        self._closed = False

    def _hand_over(self, function: Callable[[], None]) -> None:
        """Let a thread that uses the client run a function. Call this on the loop."""
        self._user_calls.put(function)

    def _run_serving(self, work: Coroutine[object, None, Result], undo: Callable[[], None] | None = None) -> Result:
        """Run a coroutine that waits for records. Meanwhile, this thread runs functions that are handed over."""
        return self._background.run(work, undo, self._user_calls)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end(lambda: self._async.__aexit__(kind, error, trace))

    def _end(self, closing: Callable[[], Coroutine[object, None, None]]) -> None:
        """Run `closing()`, except in a forked child and while the interpreter ends, and stop the thread. Later calls do nothing."""
        if self._closed:
            return
        refuse_in_listener(self._async, "close")
        self._background.check_thread()
        self._closed = True
        try:
            if not self._background.is_forked and not sys.is_finalizing():  # a `with` of a generator that was never finished
                self._run_closing(closing)
        finally:
            self._background.stop()

    def _run_closing(self, closing: Callable[[], Coroutine[object, None, None]]) -> None:
        self._background.run(closing())
