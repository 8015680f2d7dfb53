"""How much is done between two pauses: counted in calls and in objects made, so that no clock and no busy machine matters."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from ottla.broker.scheduler import Scheduler


class Piece(NamedTuple):
    """What was done in one go: calls of functions, objects that are left of it (those that the collector knows), and the job."""

    calls: int
    objects: int
    job: str


class Work:
    """All pieces of work while it was measured: steps of jobs, and what comes before, between and after them."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self._calls = 0
        self._objects = 0
        self._within: list[str] = []

    @property
    def most_calls(self) -> Piece:
        return max(self.pieces)

    @property
    def most_objects(self) -> Piece:
        return max(self.pieces, key=lambda piece: piece.objects)

    @contextmanager
    def piece(self, name: str) -> Iterator[None]:
        """Measure what is done meanwhile; steps of jobs within it are pieces of their own."""
        self._cut()
        self._within.append(name)
        try:
            yield
        finally:
            self._cut()
            self._within.pop()

    def _cut(self) -> None:
        sys.setprofile(None)
        if self._within:
            self.pieces.append(Piece(self._calls, gc.get_count()[0] - self._objects, self._within[-1]))
        self._calls = 0
        self._objects = gc.get_count()[0]
        sys.setprofile(self._count)

    def _count(self, frame: Any, event: str, arg: Any) -> None:
        if event.endswith("call"):
            self._calls += 1


@contextmanager
def measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[Work]:
    """Measure each step of each job, of all schedulers."""
    work, was_enabled = Work(), gc.isenabled()
    step: Callable[[Scheduler, Any], bool] = Scheduler._step

    def counted(scheduler: Scheduler, job: Any) -> bool:
        with work.piece(f"{job.name} {job.steps}"):
            return step(scheduler, job)

    with monkeypatch.context() as patch:
        patch.setattr(Scheduler, "_step", counted)
        gc.disable()
        try:
            yield work
        finally:
            sys.setprofile(None)
            if was_enabled:
                gc.enable()
