"""An event loop on its own thread, on which blocking clients run asynchronous ones."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar, copy_context
from queue import Empty, SimpleQueue
from typing import Any, Generic, Self, TypeVar, cast

from ottla.client.errors import Closed, KafkaError
from ottla.records.kernel_send import note_fork

Result = TypeVar("Result")


class UserCalls:
    """Callbacks for the threads that use a blocking client. A thread runs them while it waits for records.

    `put`, `add_queue` and `remove_queue` run on the loop.
    """

    def __init__(self) -> None:
        self._queues: list[SimpleQueue[Any]] = []
        self._due: deque[Callable[[], None]] = deque()

    def put(self, function: Callable[[], None]) -> None:
        """Let a waiting thread run a function. If no thread waits, the next thread that waits runs it."""
        if self._queues:
            self._queues[-1].put(function)
        else:
            self._due.append(function)

    def add_queue(self, queue: SimpleQueue[Any]) -> None:
        self._queues.append(queue)
        while self._due:
            queue.put(self._due.popleft())

    def remove_queue(self, queue: SimpleQueue[Any]) -> None:
        if queue in self._queues:
            self._queues.remove(queue)

    def recover(self, queue: SimpleQueue[Any]) -> None:
        """Keep the functions that an interrupted thread has left in its queue. The next thread that waits runs them."""
        self.remove_queue(queue)
        with suppress(Empty):
            while not isinstance(left := queue.get_nowait(), asyncio.Task):
                self._due.append(left)


_SERVED_BY: ContextVar[SimpleQueue[Any] | None] = ContextVar("ottla_served_by", default=None)
"""The queue of functions for the thread that waits for the coroutine, if it runs them."""


async def run_for_caller(function: Callable[[], Result]) -> Result:
    """Call a function on the thread that waits for this coroutine, so that the loop goes on. Without such a thread, call it here.

    If the thread is interrupted, this coroutine is cancelled, and the function has ended or is not called any more.
    """
    queue = _SERVED_BY.get()
    if queue is None:
        return function()
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[Result] = loop.create_future()

    def settle(result: Result | None, error: Exception | None) -> None:
        if outcome.done():
            return
        if error is None:
            outcome.set_result(cast(Result, result))
        else:
            outcome.set_exception(error)

    def call() -> None:
        if outcome.done():  # the thread for which it was meant was interrupted
            return
        result, failed = None, None
        try:
            result = function()
        except Exception as error:
            failed = error
        with suppress(RuntimeError):  # another thread has closed the client: the coroutine is cancelled
            loop.call_soon_threadsafe(settle, result, failed)

    queue.put(call)
    return await outcome


class _Call(Generic[Result]):
    """A coroutine that runs on a loop for a waiting thread. `begin` and `abandon` run on the loop, in this order.

    The thread waits for `done`, which gets the task of the coroutine. A `Future` would wait by a condition, whose lock an interrupt
    can leave locked.
    """

    def __init__(
        self, work: Coroutine[object, None, Result], undo: Callable[[], None] | None, user_calls: UserCalls | None = None
    ) -> None:
        self.done: SimpleQueue[asyncio.Task[Result] | Callable[[], None]] = SimpleQueue()
        self._user_calls = user_calls
        self._work = work
        self._undo = undo
        self._task: asyncio.Task[Result] | None = None
        self.is_begun = False
        """Whether `begin` runs on the loop, or will: only the loop may close the coroutine then."""

    def begin(self) -> None:
        context = copy_context()
        if self._user_calls is not None:
            context.run(_SERVED_BY.set, self.done)
        self._task = asyncio.get_running_loop().create_task(self._work, context=context)
        if self._user_calls is not None:
            self._user_calls.add_queue(self.done)
            self._task.add_done_callback(self._remove_queue)
        self._task.add_done_callback(self.done.put)

    def _remove_queue(self, task: asyncio.Task[Result]) -> None:
        if self._user_calls is not None:
            self._user_calls.remove_queue(self.done)

    def wait(self) -> asyncio.Task[Result]:
        """Run the functions of `UserCalls` until the coroutine is done, and return its task."""
        while not isinstance(done := self.done.get(), asyncio.Task):
            done()
        return done

    def abandon(self) -> None:
        """Cancel the coroutine. If it returns a result nevertheless, call `undo`, because no thread gets the result."""
        if self._user_calls is not None:
            self._user_calls.recover(self.done)
        if self._task is None:
            self._work.close()
        else:
            self._task.cancel()
            self._task.add_done_callback(self._undo_result)

    def _undo_result(self, task: asyncio.Task[Result]) -> None:
        if not task.cancelled() and task.exception() is None and self._undo is not None:
            self._undo()


def check_exit() -> None:
    """Raise `Closed` once the interpreter ends, as in `__del__`: the threads of clients no longer run, and waits would not end."""
    if sys.is_finalizing():
        raise Closed("The program has ended, and with it its clients: use them before, for example in an atexit handler.")


class BackgroundLoop:
    """An event loop on a background thread, from construction to `stop`. An open client does not keep a program from exiting.

    A forked child process does not have the thread. In a child, `run` raises, and `stop` leaves the parent's loop unchanged.
    """

    _count = 0
    """The number of forks since the first process. `send` compares it for each record, because `os.getpid` is too slow."""

    @classmethod
    def _note_fork(cls) -> None:
        cls._count += 1
        note_fork()

    def __init__(self, name: str) -> None:
        self._lock = threading.Lock()
        self._stopped = False
        self._forks = BackgroundLoop._count
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run_loop, name=name, daemon=True)
        self._thread.start()

    def _run_loop(self) -> None:
        """Run the loop until `stop`. `SystemExit` of a callback leaves `run_forever`, but the loop can go on.

        The task of the callback has the exception too, so that the thread that waits for the task gets it.
        """
        while True:
            try:
                self._loop.run_forever()
            except (SystemExit, KeyboardInterrupt):
                continue
            return

    @classmethod
    def begin(cls, name: str, start: Callable[[], Coroutine[object, None, object]]) -> Self:
        """Create a loop, run `start()` on it, and return the loop. If `start()` raises, stop the thread, and raise the error."""
        made = cls(name)
        try:
            made.run(start())
        except BaseException:
            made.stop()
            raise
        return made

    def run(
        self,
        work: Coroutine[object, None, Result],
        undo: Callable[[], None] | None = None,
        user_calls: UserCalls | None = None,
    ) -> Result:
        """Run a coroutine on the loop, and return its result. An interrupt cancels it: Ctrl-C, or what a signal handler raises.

        If the coroutine ends before it is cancelled, its result is lost: `undo` is called then, on the loop. This thread runs the
        functions of `user_calls` while it waits.

        Raises `Closed` after `stop` and in a forked child. Raises `KafkaError` if called by a callback, which runs on the loop's
        own thread.
        """
        call = _Call(work, undo, user_calls)
        try:
            check_exit()
            self.check_process()
            self.check_thread()
            with self._lock:
                if self._stopped:
                    raise Closed
                call.is_begun = True
                self._loop.call_soon_threadsafe(call.begin)
            task = call.wait()
            if task.cancelled():
                raise Closed
            return task.result()
        except BaseException:  # of the coroutine, or an interrupt at any point
            if call.is_begun:
                self.call(call.abandon)
            else:
                work.close()
            raise

    def check_process(self) -> None:
        """Raise `Closed` in a forked child process. Call this before taking a lock, which the parent can have held at the fork."""
        if self.is_forked:
            raise Closed("The client belongs to the process that created it: create another one in a forked child.")

    def check_thread(self) -> None:
        """Raise `KafkaError` on the loop's own thread. A call that waits for the loop would never return there."""
        if not self.is_forked and threading.current_thread() is self._thread:
            raise KafkaError("A callback cannot call its own client, which would wait for itself: call it on another thread.")

    @property
    def is_forked(self) -> bool:
        """Return whether this process is a forked child of the process that made the loop."""
        return self._forks != BackgroundLoop._count

    def do(self, function: Callable[[], Result]) -> Result:
        """Call a function on the loop and return its result. Raises the exceptions of `run`."""

        async def work() -> Result:
            return function()

        return self.run(work())

    def call(self, function: Callable[[], object]) -> None:
        """Schedule a function on the loop, and return at once. After `stop`, do nothing. The function must not raise."""
        with self._lock:
            if not self._stopped:
                self._loop.call_soon_threadsafe(function)

    def hand_over(self, function: Callable[[], object], timeout_s: float) -> None:
        """Schedule a function as `call` does, and wait until the loop begins it, but no longer than `timeout_s`.

        A thread that never waits leaves Python's lock to the loop every 5 ms, and a request takes the loop several turns.
        """
        begun = threading.Lock()
        begun.acquire()

        def begin() -> None:
            begun.release()
            function()

        self.call(begin)
        if not self._stopped and threading.current_thread() is not self._thread:
            begun.acquire(timeout=timeout_s)

    def stop(self) -> None:
        """Stop the loop and its thread. Waiting calls of other threads raise `Closed`."""
        if self.is_forked or sys.is_finalizing():
            return
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
        asyncio.run_coroutine_threadsafe(_cancel_other_tasks(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


os.register_at_fork(after_in_child=BackgroundLoop._note_fork)


async def _cancel_other_tasks() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
