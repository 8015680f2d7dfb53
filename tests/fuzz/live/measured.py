"""`ottla serve` whose steps are timed: a step that takes the broker's thread for too long is told on standard error.

A step is one callback of the event loop: nobody else is served meanwhile. Its processor time counts, not how long it took: a busy
machine is no fault of the broker's. Knows asyncio and the names of functions that it wraps; changes nothing that they do.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import os
import signal
import sys
from collections.abc import Callable
from time import thread_time_ns
from typing import Any

from ottla.broker.scheduler import Scheduler
from ottla.cli.main import main
from ottla.net.server.exception_boundary import Door
from ottla.net.server.server import Server

LONGEST_STEP_MS = 50
LIMIT = "FUZZ_LONGEST_STEP_MS"
"""The variable of the environment that says otherwise."""
TOLD = "SLOW STEP"
Wrapped = Callable[..., Any]


class Stopwatch:
    """Takes the time of every step, and notes what was done in the one at hand."""

    def __init__(self, limit_ms: float) -> None:
        self.limit_ns = int(limit_ms * 1_000_000)
        self._serves = False
        """Whether a request has come and no stop has begun: starts and stops may take their time."""
        self._done: list[str] = []
        self._collected_ns = 0
        self._collecting_ns = 0

    def install(self) -> None:
        """Wrap what steps are made of."""
        faulthandler.register(signal.SIGUSR1)
        gc.callbacks.append(self._collected)
        _wrap(asyncio.Handle, "_run", self._step)  # there is no public place through which every step goes
        _wrap(Door, "receive", self._request)
        _wrap(Scheduler, "_step", self._job)
        _wrap(Server, "close", self._stop)

    def _step(self, run: Wrapped, handle: Any) -> None:
        began_ns = thread_time_ns()
        run(handle)
        used_ns = thread_time_ns() - began_ns
        if used_ns > self.limit_ns and self._serves:
            self._tell(used_ns, handle)
        self._done.clear()
        self._collected_ns = 0

    def _request(self, receive: Wrapped, door: Any, frame: Any, *others: Any) -> Any:
        self._serves = True
        began_ns, head = thread_time_ns(), bytes(frame[:4]).hex()
        try:
            return receive(door, frame, *others)
        finally:
            self._note(f"request {head} of {len(frame)} bytes", began_ns)

    def _job(self, step: Wrapped, scheduler: Any, job: Any) -> Any:
        began_ns, steps = thread_time_ns(), _chain(job.steps)
        try:
            return step(scheduler, job)
        finally:
            self._note(f"job {steps}", began_ns)

    def _stop(self, close: Wrapped, server: Any) -> Any:
        self._serves = False
        return close(server)

    def _note(self, what: str, began_ns: int) -> None:
        used_ms = (thread_time_ns() - began_ns) / 1_000_000
        if used_ms > 5:
            self._done.append(f"{what} {used_ms:.0f} ms")

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._collecting_ns = thread_time_ns()
        else:
            self._collected_ns += thread_time_ns() - self._collecting_ns

    def _tell(self, used_ns: int, handle: asyncio.Handle) -> None:
        done = "; ".join(self._done) or repr(handle)[:300]
        collected = f", of which {self._collected_ns / 1_000_000:.0f} ms collected garbage" if self._collected_ns else ""
        print(f"{TOLD} of {used_ns / 1_000_000:.0f} ms{collected}: {done}", file=sys.stderr, flush=True)


def _chain(steps: Any) -> str:
    """The generators that wait for each other, the innermost last."""
    names = list[str]()
    while hasattr(steps, "gi_frame"):
        known = steps.gi_frame.f_locals if steps.gi_frame else {}
        asked = getattr(known.get("request"), "api", None)
        names.append(steps.__qualname__ if asked is None else f"{steps.__qualname__} of {asked.name}")
        steps = steps.gi_yieldfrom or known.get("steps")
    return " > ".join(names)


def _wrap(cls: type, name: str, around: Callable[..., Any]) -> None:
    """Have a method called by way of `around`, which is given it first."""
    method = getattr(cls, name)

    def wrapped(*given: Any) -> Any:
        return around(method, *given)

    setattr(cls, name, wrapped)


if __name__ == "__main__":
    Stopwatch(float(os.environ.get(LIMIT, LONGEST_STEP_MS))).install()
    sys.exit(main())
