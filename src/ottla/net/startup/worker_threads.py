"""The worker threads beside the broker's thread: one for large work, and one for all other work. They do not inspect the work."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ottla.net.disk.sync_workers import QueueWorker
from ottla.ports import Done, Post


class TurnWorker(QueueWorker):
    """A thread that runs functions in order. After `stop`, no function begins, and `done` of the current function is not called."""

    def run(self, work: Callable[[], None], done: Done) -> None:
        self._enqueue(partial(self._do, work, done))

    def stop(self) -> None:
        """Begin no more work. Do not wait for the current work, because compression can take many seconds."""
        with self._wake:
            self._asked.clear()
            self._stopping = True
            self._wake.notify()

    def _do(self, work: Callable[[], None], done: Done) -> None:
        if not self._stopping:
            work()
        with self._wake:
            if not self._stopping:
                self._post(partial(done, None))


class RealWorkers:
    """The port of worker threads. Each thread starts when it gets its first work."""

    def __init__(self, post: Post) -> None:
        self._ordinary = TurnWorker("ottla-check", post)
        self._large = TurnWorker("ottla-check-large", post)

    def run(self, work: Callable[[], None], done: Done, *, is_large: bool) -> None:
        """Run `work` on another thread, then call `done(None)` on the broker's thread."""
        (self._large if is_large else self._ordinary).run(work, done)

    def close(self) -> None:
        """Begin no more work, and call no more callbacks."""
        self._ordinary.stop()
        self._large.stop()
