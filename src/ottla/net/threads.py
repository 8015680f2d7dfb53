"""Threads that work beside the broker's own: one for large work, one for all other. Knows nothing of what the work is."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from ottla.net.workers import Done, Post, Worker


class TurnWorker(Worker):
    """Does pieces of work one after another. After `stop` none is begun any more, and nothing is told of the one at hand."""

    def __init__(self, name: str, post: Post) -> None:
        super().__init__(name, post)
        self._turns: deque[tuple[Callable[[], None], Done]] = deque()

    def run(self, work: Callable[[], None], done: Done) -> None:
        with self._wake:
            self._turns.append((work, done))
            self._start()

    def stop(self) -> None:
        """Return at once: nobody waits for the end of what a codec is busy with, perhaps for many seconds."""
        with self._wake:
            self._turns.clear()
            self._stopping = True
            self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                while not (self._turns or self._stopping):
                    self._wake.wait()
                if self._stopping:
                    return
                work, done = self._turns.popleft()
            work()
            with self._wake:
                if not self._stopping:
                    self._post(partial(done, None))
            del work, done  # what they hold is large, and the next may be long in coming


class RealWorkers:
    """The port of threads. They begin with the first work that each is given."""

    def __init__(self, post: Post) -> None:
        self._ordinary = TurnWorker("ottla-check", post)
        self._large = TurnWorker("ottla-check-large", post)

    def run(self, work: Callable[[], None], done: Done, *, is_large: bool) -> None:
        """Have `work` done by another thread, and `done(None)` called on the broker's."""
        (self._large if is_large else self._ordinary).run(work, done)

    def close(self) -> None:
        """Begin nothing any more, and tell of nothing."""
        self._ordinary.stop()
        self._large.stop()
