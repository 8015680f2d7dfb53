"""The threads of file syncs, which can take long. Paths of logs are unknown here.

One pass of syncs serves all requests that arrived during the previous pass. A sync of many megabytes runs outside the passes. On a
slow disk, a pass syncs its files in parallel, because the disk combines many small syncs. On a quick disk, a pass syncs its files
one by one, because waking threads takes longer. Removals have their own thread (`space_release`), because freeing gigabytes would
delay syncs.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import TypeVar

from ottla.net.kernel_sync import sync_each
from ottla.ports import Done, Post, StorageFailed

log = logging.getLogger("ottla.net")

SYNCS_SIDE_BY_SIDE = 8
SLOW_SIDE_BY_SIDE = 2
SHORT_NS = 1_000_000
"""The expected duration of a pass, in ns, above which several threads share it, because a slow disk combines their syncs."""

GATHER_S = 0.005
TOLD_AT_ONCE = 100

F = TypeVar("F")


class Pinned(ABC):
    """An object that another thread syncs. It must be pinned until the sync is done, so that its handles stay open."""

    __slots__ = ("_pins", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._pins = 0

    @abstractmethod
    def pin(self) -> None:
        """Open all handles that a sync by another thread needs. Raises `StorageFailed` if a handle cannot be opened."""

    @abstractmethod
    def unpin(self) -> None: ...

    def sync(self) -> None:
        """Sync the object, which is pinned meanwhile. Raises `StorageFailed`."""
        if self._pins:
            self._sync()
            return
        self.pin()
        try:
            self._sync()
        finally:
            self.unpin()

    @abstractmethod
    def _sync(self) -> None: ...

    @property
    def is_slow(self) -> bool:
        """Return whether the sync will take long."""
        return False

    def begin_sync(self) -> int:
        """Return the handle by which another function syncs the object; -1 if the caller must call `sync` instead.

        The outcome of the other function is passed to `end_sync`.
        """
        return -1

    def end_sync(self, outcome: int) -> None:
        """Process the outcome of `kernel_sync.sync_each` for the handle of `begin_sync`. Raises `SyncFailed` if the sync failed."""
        raise AssertionError(f"a sync of {self.path} ended that had not begun ({outcome})")


class Handover:
    """A context manager on other threads that passes unexpected exceptions to the broker's thread, where the `Door` handles them.

    Otherwise an exception would only end its own thread, and callers would wait for this thread without end.
    """

    def __init__(self, post: Post) -> None:
        self._post = post

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if error is not None:
            self._post(partial(_raise, error))
        return True


class Worker(ABC):
    """A thread for slow system calls, which starts with the first request. It ends after `stop`, when all requests are done.

    `post` schedules a call on the broker's thread. An unexpected exception ends the thread, and is raised on the broker's thread.
    """

    def __init__(self, name: str, post: Post) -> None:
        self._name = name
        self._post = post
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopping = False

    def stop(self) -> None:
        """Wait until all requested work is done and the thread has ended."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run_guarded, name=self._name, daemon=True)
            self._thread.start()
        self._wake.notify()

    def _run_guarded(self) -> None:
        with Handover(self._post):
            self._run()

    @abstractmethod
    def _run(self) -> None:
        """Process the requested work. Return when `stop` was called and no work is left."""


class QueueWorker(Worker):
    """A thread that makes calls one by one, in order."""

    def __init__(self, name: str, post: Post) -> None:
        super().__init__(name, post)
        self._asked: deque[Callable[[], object]] = deque()

    def _enqueue(self, call: Callable[[], object]) -> None:
        with self._wake:
            self._asked.append(call)
            self._start()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not (self._asked or self._stopping):
                    self._wake.wait()
                if not self._asked:
                    return
                call = self._asked.popleft()
            call()
            del call  # it can hold much memory, and the next call may come late


class SyncWorker(Worker):
    """The thread of syncs. It calls callbacks on the broker's thread, a limited number at once."""

    def __init__(self, post: Post) -> None:
        super().__init__("ottla-sync", post)
        self._syncs: list[tuple[Sequence[Pinned], Done]] = []
        self._is_urgent = False
        self._helpers = ThreadPoolExecutor(SYNCS_SIDE_BY_SIDE, "ottla-sync")
        self._slow = ThreadPoolExecutor(SLOW_SIDE_BY_SIDE, "ottla-sync-slow")
        self._sync_ns = SHORT_NS
        """The estimated duration of one undisturbed sync, in ns, averaged over the previous passes."""

    def sync(self, files: Sequence[Pinned], done: Done, *, is_urgent: bool = True) -> None:
        """Request a sync of these files.

        A sync that is not urgent waits up to `GATHER_S` for more requests, because a sync of names blocks changes of names.
        """
        with self._wake:
            self._syncs.append((files, done))
            self._is_urgent |= is_urgent
            self._start()

    def stop(self) -> None:
        super().stop()
        self._helpers.shutdown()
        self._slow.shutdown()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not (self._syncs or self._stopping):
                    self._wake.wait()
                self._wake.wait_for(lambda: self._is_urgent or self._stopping, GATHER_S)
                syncs, self._syncs, self._is_urgent = self._syncs, [], False
                if not syncs:
                    return
            slow = [ask for ask in syncs if any(file.is_slow for file in ask[0])]
            for files, done in slow:
                self._slow.submit(self._sync_slowly, files, done)
            self._sync_all([ask for ask in syncs if ask not in slow] if slow else syncs)

    def _sync_slowly(self, files: Sequence[Pinned], done: Done) -> None:
        """Sync large files, in parallel with all other syncs. Then schedule the callback `done` on the broker's thread."""
        with Handover(self._post):
            failures: dict[Pinned, StorageFailed] = {}
            _sync_each(deque(files), failures)
            self._post(partial(_finish, deque([(files, done, next(iter(failures.values()), None))]), self._post))

    def _sync_all(self, syncs: list[tuple[Sequence[Pinned], Done]]) -> None:
        failures: dict[Pinned, StorageFailed] = {}
        left = deque[Pinned]()
        handles: dict[Pinned, int] = {}
        for file in dict.fromkeys(file for files, _ in syncs for file in files):
            handle = file.begin_sync()
            if handle >= 0:
                handles[file] = handle
            else:
                left.append(file)
        parts = divide(list(handles), self._sync_ns)
        threads = min(max(len(left), len(parts)), SYNCS_SIDE_BY_SIDE)
        work = partial(_sync_some, parts, left, handles, failures)
        helping = [self._helpers.submit(work) for _ in range(threads - 1)]
        shortest = [work(), *(helper.result() for helper in helping)]
        if handles:
            self._sync_ns += (min(ns for ns in shortest if ns is not None) - self._sync_ns) // 8
        outcomes = deque((files, done, next(filter(None, map(failures.get, files)), None)) for files, done in syncs)
        if outcomes:
            self._post(partial(_finish, outcomes, self._post))


def divide(files: list[F], sync_ns: int) -> deque[list[F]]:
    """Divide files into parts for several threads, if one sync takes `sync_ns`.

    If all syncs together take little time, there is one part, because waking a thread takes time.
    """
    count = min(len(files), SYNCS_SIDE_BY_SIDE, 1 + sync_ns * len(files) // SHORT_NS)
    return deque(files[number::count] for number in range(count))


def _sync_some(
    parts: deque[list[Pinned]], left: deque[Pinned], handles: dict[Pinned, int], failures: dict[Pinned, StorageFailed]
) -> int | None:
    """Sync parts that no other thread has taken. Return the shortest sync by handle in ns; None if this thread made none."""
    shortest_ns = None
    while parts:
        try:
            part = parts.popleft()
        except IndexError:  # another thread has taken the last part
            break
        took_ns = _sync_handles(part, array("i", [handles[file] for file in part]), failures)
        shortest_ns = took_ns if shortest_ns is None else min(shortest_ns, took_ns)
    _sync_each(left, failures)
    return shortest_ns


def _sync_handles(files: Sequence[Pinned], handles: array[int], failures: dict[Pinned, StorageFailed]) -> int:
    outcomes = array("i", bytes(len(handles) * handles.itemsize))
    shortest_ns = sync_each(handles, outcomes)
    for file, outcome in zip(files, outcomes, strict=True):
        try:
            file.end_sync(outcome)
        except StorageFailed as failure:
            failures[file] = failure.with_traceback(None)  # a traceback would create a reference cycle with the file
    return shortest_ns


def _sync_each(left: deque[Pinned], failures: dict[Pinned, StorageFailed]) -> None:
    """Sync files until no file is left. Other threads take files from the same queue."""
    while left:
        try:
            file = left.popleft()
        except IndexError:  # another thread has taken the last file
            return
        try:
            file.sync()
        except StorageFailed as failure:
            failures[file] = failure.with_traceback(None)  # a traceback would create a reference cycle with the file


def _raise(error: BaseException) -> None:
    raise error


def _finish(outcomes: deque[tuple[Sequence[Pinned], Done, StorageFailed | None]], post: Post) -> None:
    """Call the first callbacks, and schedule the others on the broker's thread, because thousands of callbacks take time."""
    for _ in range(min(len(outcomes), TOLD_AT_ONCE)):
        files, done, failure = outcomes.popleft()
        for file in files:
            file.unpin()
        done(failure)
    if outcomes:
        post(partial(_finish, outcomes, post))
