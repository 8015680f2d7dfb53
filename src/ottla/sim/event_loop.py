"""An asyncio event loop of one simulated process. Its time is the world's, and its connections are simulated.

Programs on asyncio run on it unchanged. Each callback takes no time; `SimEventLoop.callbacks` counts them, to find loops that never
wait.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextvars import Context, copy_context
from itertools import count
from math import ceil
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, TypeVarTuple

from ottla.sim.world import World

if TYPE_CHECKING:  # typeshed declares methods abstract that this loop has no use for
    from asyncio import BaseEventLoop as _EventLoop
else:
    from asyncio import AbstractEventLoop as _EventLoop

Result = TypeVar("Result")
Given = TypeVarTuple("Given")
_EARLY_MS = 1e-6
"""The part of a ms by which a timer may be early, because its time in seconds is rounded."""
_MOST_LAST_ROUNDS = 10_000
"""The number of rounds of callbacks after which the tasks of an ended process count as unstoppable."""
_ROUNDS_TO_CANCELLATION = 200
"""The rounds after which these tasks are cancelled again: what they await when they are cancelled gets no answer any more."""


class Dialer(Protocol):
    """A network that opens connections for a process."""

    async def connect(self, loop: SimEventLoop, factory: Callable[[], Any], host: str, port: int) -> tuple[Any, Any]:
        """Connect, and return (transport, protocol) as `loop.create_connection` does. Raises `OSError`."""

    def drop_all(self, loop: SimEventLoop) -> None:
        """Drop the connections of a process that has ended."""


class _SimFuture(asyncio.Future[Any]):
    """A future whose hash does not depend on its address, so that sets of futures have the same order in each run."""

    number = 0

    def __hash__(self) -> int:
        return self.number


class _SimTask(asyncio.Task[Any]):
    """A task whose hash does not depend on its address."""

    number = 0

    def __hash__(self) -> int:
        return self.number


class _SimHandle(asyncio.Handle):
    """A handle without what debugging needs, since one is made for each callback."""

    __slots__ = ()

    def __init__(self, callback: Callable[..., object], args: Sequence[Any], loop: SimEventLoop, context: Context | None) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = self._source_traceback = None


class SimEventLoop(_EventLoop):
    """The event loop of a process in `world`. `network` opens its connections.

    `failed(context)` is called for errors that no task awaits, as the exception handler of a real loop is.
    """

    def __init__(self, world: World, network: Dialer, failed: Callable[[dict[str, Any]], None]) -> None:
        self.world = world
        self.callbacks = 0
        self.has_ended = False
        self._network = network
        self._failed = failed
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = count(1)
        self._is_due = False
        self._wakes_ms: int | None = None
        self._paused_until_ms = 0
        self._tasks: dict[int, _SimTask] = {}
        self._skipped_s = 0.0
        self._is_cleared = False

    # --- the process

    def spawn(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Start a program."""
        return self.create_task(work)

    def pause(self, ms: int) -> None:
        """Pause the process for `ms`, as SIGSTOP does."""
        self._paused_until_ms = max(self._paused_until_ms, self.world.now_ms + ms)

    def end(self) -> None:
        """End the process at once, as SIGKILL does. Its network connections break."""
        self.has_ended = True
        self._network.drop_all(self)

    def clear(self) -> None:
        """Cancel the tasks of an ended process, and let them run to their ends, outside of the world's time."""
        self.has_ended = True
        for number in range(_MOST_LAST_ROUNDS):
            if not self._tasks:
                break
            if number % _ROUNDS_TO_CANCELLATION == 0:
                for task in list(self._tasks.values()):
                    task.cancel()
            if not self._ready:
                if not self._timers:
                    break
                self._skipped_s = max(self._skipped_s, self._timers[0][0] - self.world.now_ms / 1000)
                self._collect_timers()
            self._run_ready()
        self._is_cleared = True
        self._ready.clear()
        self._timers.clear()

    # --- running

    def _wake(self) -> None:
        if not self._is_due and not self.has_ended:
            self._is_due = True
            self.world.after(max(0, self._paused_until_ms - self.world.now_ms), self._run)

    def _run(self) -> None:
        self._is_due = False
        if self.has_ended:
            return
        if self.world.now_ms < self._paused_until_ms:
            self._wake()
            return
        if self._timers:
            self._collect_timers()
        if self._ready:
            self._run_ready()
        self._set_alarm()
        if self._ready:
            self._wake()

    def _on_alarm(self) -> None:
        if not self._is_due:
            self._run()

    def _collect_timers(self) -> None:
        timers, now = self._timers, self.time() + _EARLY_MS / 1000
        while timers and (timers[0][0] <= now or timers[0][2].cancelled()):
            _, _, handle = heapq.heappop(timers)
            if not handle.cancelled():
                self._ready.append(handle)

    def _run_ready(self) -> None:
        asyncio._set_running_loop(self)
        ready = self._ready
        try:
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle._cancelled:
                    self.callbacks += 1
                    handle._run()
        finally:
            asyncio._set_running_loop(None)

    def _set_alarm(self) -> None:
        """Schedule an event for the next timer, unless an earlier one is scheduled."""
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        if not timers or self.has_ended:
            return
        due_ms = ceil(timers[0][0] * 1000 - _EARLY_MS)
        if self._wakes_ms is None or due_ms < self._wakes_ms or self._wakes_ms <= self.world.now_ms:
            self._wakes_ms = due_ms
            self.world.after(due_ms - self.world.now_ms, self._on_alarm)

    # --- what asyncio uses

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def time(self) -> float:
        return self.world.now_ms / 1000 + self._skipped_s

    def create_future(self) -> asyncio.Future[Any]:
        future = _SimFuture(loop=self)
        future.number = next(self._numbers)
        return future

    def create_task(
        self,
        coro: Generator[Any, None, Result] | Coroutine[Any, Any, Result],
        *,
        name: object = None,
        context: Context | None = None,
        **more: Any,
    ) -> asyncio.Task[Result]:
        if self._is_cleared:  # by a destructor: nothing runs any more
            coro.close()
        task = _SimTask(coro, loop=self, name=None if name is None else str(name), context=context, **more)
        task.number = next(self._numbers)
        self._tasks[task.number] = task
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(hash(task), None)

    def call_soon(self, callback: Callable[[*Given], object], *args: *Given, context: Context | None = None) -> asyncio.Handle:
        handle = _SimHandle(callback, args, self, context)
        self._ready.append(handle)
        if not self._is_due:
            self._wake()
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Given], object], *args: *Given, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[*Given], object], *args: *Given, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*Given], object], *args: *Given, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._numbers), handle))
        if self._timers[0][2] is handle or self._wakes_ms is None or self._wakes_ms <= self.world.now_ms:
            self._set_alarm()
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing, because cancelled timers are dropped when they are due."""

    def run_in_executor(self, executor: Any, func: Callable[[*Given], Result], *args: *Given) -> asyncio.Future[Result]:
        """Call `func` soon: a simulated process has one thread."""

        async def call() -> Result:
            return func(*args)

        return self.create_task(call())

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.has_ended:
            self._failed(context)

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **given: Any) -> Any:
        """Connect over the simulated network, which has no TLS. Raises `OSError`."""
        assert not given.get("ssl"), "the simulated network has no TLS"
        if self.has_ended:
            raise ConnectionResetError("The process has ended.")
        return await self._network.connect(self, protocol_factory, host, port)
