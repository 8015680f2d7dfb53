"""A broker that records what its event loop does, for `bench.pauses`: `python -m bench.pause_probe FILE serve …`.

Nothing of it is in the broker: this module replaces functions of asyncio, the scheduler and the disk before the broker starts, so a
broker without it pays nothing. Each replaced function has a cause, and the time of the loop's thread is divided into spans without
gaps, each with the innermost cause. A span in which the thread did not run is split by the kernel's own count: time for which it
was ready to run, and time for which it was blocked. `FILE` receives the spans when the broker has stopped.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import re
import selectors
import sys
import threading
from array import array
from asyncio.events import Handle
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from time import perf_counter_ns, thread_time_ns
from typing import Any

from ottla.broker.partitions.syncs import Syncs
from ottla.broker.scheduler import Job, Scheduler
from ottla.cli.main import main
from ottla.net.disk import sync_workers
from ottla.net.server.exception_boundary import Door
from ottla.net.server.server import Server
from ottla.wire.releases import NAMES_BY_KEY

SELECT = "waits for events"
LOOP = "the event loop itself"
WAKE = "the system: runs another process than the woken broker"
READY = "the system: runs another process meanwhile"
LOCK = "another thread of the broker has Python's lock"
COLLECTOR = "garbage collector"
LARGE_BYTES = 64 * 1024
"""The size, in bytes, from which a request counts as large."""

NOTED_NS = 15_000
"""The time, in ns, for which the thread did not run above which the kernel is asked why."""

FILE_CALLS = ("pwritev", "pwrite", "pread", "open", "close", "stat", "unlink", "replace", "ftruncate", "fstat", "mkdir", "listdir")
DIGITS = re.compile(r"[-/#]?\d+")
HANDLES: Mapping[str, str] = {
    "_read_ready__on_eof": "reading from sockets",
    "_read_ready": "reading from sockets",
    "_begin_turn": "the end of a bundle",
    "_tick": "deadlines",
    "complete": "callbacks from other threads",
}
"""The causes of the loop's callbacks, by the name of the function."""


class Spans:
    """The spans of one thread: begin and end in ns of the monotonic clock, and the number of a cause."""

    def __init__(self) -> None:
        self.causes: dict[str, int] = {SELECT: 0}
        self.found = array("q")
        self._thread = 0
        self._stack = [LOOP]
        self._mark = self._cpu_ns = self._delay_ns = 0
        self._stat = -1
        self.pread = os.pread

    def begin(self) -> None:
        """Record the calling thread from now on."""
        self._stat = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)
        self._thread = threading.get_ident()
        self._mark, self._cpu_ns, self._delay_ns = perf_counter_ns(), thread_time_ns(), self._total_delay_ns()

    def _total_delay_ns(self) -> int:
        return int(self.pread(self._stat, 64, 0).split()[1])

    @property
    def is_here(self) -> bool:
        return threading.get_ident() == self._thread

    def push(self, cause: str) -> None:
        """Begin a span with this cause, inside the current one."""
        self._end_span()
        self._stack.append(cause)

    def pop(self) -> None:
        """End the current span, and continue the one around it."""
        self._end_span()
        self._stack.pop()

    def _end_span(self) -> None:
        now, cpu_ns = perf_counter_ns(), thread_time_ns()
        mark, idle_ns = self._mark, now - self._mark - (cpu_ns - self._cpu_ns)
        cause = self._stack[-1]
        if idle_ns > NOTED_NS:
            total_ns = self._total_delay_ns()
            ready_ns = min(total_ns - self._delay_ns, idle_ns)
            self._delay_ns = total_ns
            blocked = LOCK if not cause.startswith("file: ") else f"{cause}, blocked (or for Python's lock after it)"
            mark = self._add(mark, mark + ready_ns, READY)
            mark = self._add(mark, mark + idle_ns - ready_ns, blocked)
        self._add(mark, now, cause)
        self._mark, self._cpu_ns = perf_counter_ns(), thread_time_ns()

    def _add(self, begin: int, end: int, cause: str) -> int:
        if end > begin:
            self.found.extend((begin, end, self.causes.setdefault(cause, len(self.causes))))
        return end

    def waited(self, select: Callable[..., Any], *arguments: Any) -> Any:
        """Call `select`, in a span of its own. If events have come, the woken thread can have waited at its end for a processor."""
        if not self.is_here:
            return select(*arguments)
        self._end_span()
        found = select(*arguments)
        now, total_ns = perf_counter_ns(), self._total_delay_ns()
        late_ns = total_ns - self._delay_ns
        woken = max(now - late_ns, self._mark) if late_ns > NOTED_NS and found else now
        self._add(self._mark, woken, SELECT)
        self._add(woken, now, WAKE)
        self._delay_ns, self._mark, self._cpu_ns = total_ns, now, thread_time_ns()
        return found

    def save(self, path: Path) -> None:
        path.write_text(json.dumps({"causes": list(self.causes), "spans": self.found.tolist()}), encoding="utf-8")


SPANS = Spans()


def _spanned(function: Callable[..., Any], cause: Callable[..., str]) -> Callable[..., Any]:
    """Return the function with a span around each of its calls on the loop's thread; `cause` names it by the arguments."""

    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        if not SPANS.is_here:
            return function(*arguments, **named)
        SPANS.push(cause(*arguments))
        try:
            return function(*arguments, **named)
        finally:
            SPANS.pop()

    return call


def _plain(name: object) -> str:
    """Return the name of a job or a deadline without partitions and numbers, for all of one kind to have one cause."""
    if isinstance(name, Job):
        return f"job: {_plain(name.name)}"
    return DIGITS.sub("", name if isinstance(name, str) else str(name[0]) if isinstance(name, tuple) else type(name).__name__)


def _of_handle(handle: Any) -> str:
    function = getattr(handle._callback, "func", handle._callback)
    name = getattr(function, "__name__", type(function).__name__)
    return HANDLES.get(name, f"callback: {name}")


def _of_request(door: object, frame: Any, *_: object) -> str:
    size = "large request" if len(frame) >= LARGE_BYTES else "request"
    return f"{size}: {NAMES_BY_KEY.get(int.from_bytes(frame[:2], 'big'), '?')}"


def _record_collections(phase: str, info: Mapping[str, int]) -> None:
    if SPANS.is_here:
        if phase == "start":
            SPANS.push(f"{COLLECTOR}, generation {info['generation']}")
        else:
            SPANS.pop()


def _replace(owner: Any, name: str, cause: Callable[..., str]) -> None:
    setattr(owner, name, _spanned(getattr(owner, name), cause))


def install() -> None:
    """Replace the functions that have causes."""
    bootstrap: Any = importlib._bootstrap
    _replace(Handle, "_run", _of_handle)
    _replace(Door, "receive", _of_request)
    _replace(Scheduler, "_step", lambda _, job: _plain(job))
    _replace(Syncs, "start", lambda _: "requests for syncs")
    _replace(sync_workers, "_finish", lambda *_: "callbacks of syncs")
    _replace(bootstrap, "_find_and_load", lambda name, _: f"import of {name}")
    for name in FILE_CALLS:
        _replace(os, name, lambda *_, cause=f"file: {name}": cause)
    for name in ("write", "writev", "sendfile"):
        _replace(os, name, lambda *_: "writing to sockets")
    _replace_others(Scheduler, selectors.EpollSelector, Server)
    gc.callbacks.append(_record_collections)


def _replace_others(scheduler: Any, selector: Any, server: Any) -> None:
    """Replace the functions that are not only surrounded by a span."""
    at, select, start = scheduler.at, selector.select, server.start

    def begin(*arguments: Any, **named: Any) -> None:
        start(*arguments, **named)
        SPANS.begin()

    def at_with_span(self: Scheduler, key: Any, mono_ms: int, due: Any) -> None:
        at(self, key, mono_ms, due if isinstance(key, Job) else _spanned(due, lambda _: f"deadline: {_plain(key)}"))

    scheduler.at, server.start = at_with_span, begin
    selector.select = lambda *arguments: SPANS.waited(select, *arguments)


if __name__ == "__main__":
    install()
    try:
        code = main(sys.argv[2:])
    finally:
        SPANS.save(Path(sys.argv[1]))
    sys.exit(code)
