"""The worker threads beside the broker's thread: one for large work, and one for all other work. They do not inspect the work."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from ottla.net.disk.sync_workers import Post, Worker
from ottla.ports import Done


class TurnWorker(Worker):
    """A thread that does pieces of work in order.

    After `stop`, no work begins, and `done` of the current work is not called.
    """

    def __init__(self, name: str, post: Post) -> None:
        super().__init__(name, post)
        self._turns: deque[tuple[Callable[[], None], Done]] = deque()

    def run(self, work: Callable[[], None], done: Done) -> None:
        with self._wake:
            self._turns.append((work, done))
            self._start()

    def stop(self) -> None:
        """Begin no more work, and do not wait for the current work, because a codec can take many seconds."""
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
            del work, done  # these references hold much memory, and the next work may come late


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
