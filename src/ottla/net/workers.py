"""Threads for what may take long: those that sync files, one that frees the room of files that are deleted. Knows no paths of logs.

One pass of syncs serves everybody who asked while the pass before was running; its files are synced side by side, for a disk puts
many small syncs together. Removals have a thread of their own, or the freeing of gigabytes would keep those waiting whom a sync was
promised.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol

from ottla.ports import StorageFailed, Syncable

log = logging.getLogger("ottla.net")

SYNCS_SIDE_BY_SIDE = 8

Done = Callable[[StorageFailed | None], None]
Post = Callable[[Callable[[], None]], None]


class Pinned(Syncable, Protocol):
    """What is synced by another thread than the broker's, and must stay open meanwhile."""

    def pin(self) -> None: ...

    def unpin(self) -> None: ...


class Worker(ABC):
    """One thread. It starts with the first thing to do, and ends when there is nothing left to do and `stop` was called."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopping = False

    def stop(self) -> None:
        """Wait until all that was asked for is done."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._wake.notify()

    @abstractmethod
    def _run(self) -> None:
        """Do what is asked for, as it comes; return once there is nothing left and `stop` was called."""


class SyncWorker(Worker):
    """Makes syncs, and has `post` tell of each pass on the broker's thread."""

    def __init__(self, post: Post) -> None:
        super().__init__("ottla-sync")
        self._post = post
        self._syncs: list[tuple[Sequence[Pinned], Done]] = []
        self._helpers = ThreadPoolExecutor(SYNCS_SIDE_BY_SIDE, "ottla-sync")

    def sync(self, files: Sequence[Pinned], done: Done) -> None:
        with self._wake:
            self._syncs.append((files, done))
            self._start()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not (self._syncs or self._stopping):
                    self._wake.wait()
                syncs, self._syncs = self._syncs, []
                if not syncs:
                    self._helpers.shutdown()
                    return
            self._sync_all(syncs)

    def _sync_all(self, syncs: list[tuple[Sequence[Pinned], Done]]) -> None:
        left = deque(dict.fromkeys(file for files, _ in syncs for file in files))
        failures: dict[Pinned, StorageFailed] = {}
        helping = [self._helpers.submit(_sync_each, left, failures) for _ in range(min(len(left), SYNCS_SIDE_BY_SIDE) - 1)]
        _sync_each(left, failures)
        for helper in helping:
            helper.result()
        outcomes = [(files, done, next(filter(None, map(failures.get, files)), None)) for files, done in syncs]
        self._post(partial(_finish, outcomes))


class Janitor(Worker):
    """Frees what was deleted, one thing after the other."""

    def __init__(self) -> None:
        super().__init__("ottla-janitor")
        self._asked: deque[Callable[[], object]] = deque()

    def ask(self, call: Callable[[], object]) -> None:
        """Have `call` made some time."""
        with self._wake:
            self._asked.append(call)
            self._start()

    def remove(self, path: str) -> None:
        """Remove a file some time; where that fails, it is told, and left."""
        self.ask(partial(_remove, path))

    def remove_tree(self, path: str) -> None:
        """Remove a directory some time; what cannot be removed is told, and left."""
        self.ask(partial(_remove_tree, path))

    def _run(self) -> None:
        while True:
            with self._wake:
                while not (self._asked or self._stopping):
                    self._wake.wait()
                if not self._asked:
                    return
                call = self._asked.popleft()
            with contextlib.suppress(OSError):
                call()


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError as failure:
        log.warning("%s is deleted, but could not be removed (%s); the next start tries again", path, failure.strerror)


def _remove_tree(path: str) -> None:
    shutil.rmtree(path, ignore_errors=True)
    if os.path.exists(path):
        log.warning("%s is deleted, but not all of its files could be; the next start tries again", path)


def _sync_each(left: deque[Pinned], failures: dict[Pinned, StorageFailed]) -> None:
    """Sync what is left, beside others who do the same."""
    while left:
        try:
            file = left.popleft()
        except IndexError:  # another one was quicker
            return
        try:
            file.sync()
        except StorageFailed as failure:
            failures[file] = failure


def _finish(outcomes: list[tuple[Sequence[Pinned], Done, StorageFailed | None]]) -> None:
    for files, done, failure in outcomes:
        for file in files:
            file.unpin()
        done(failure)
