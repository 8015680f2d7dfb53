"""The session of one process with its host's registry, on a thread of its own: heartbeats, expiry and renewal.

A pipe wakes the thread, and it checks for missed events every second. The kernel reports the end of a process at once, and the
first process that gets the report ends the session. A suspended process is detected after its timeout, by processes that were not
suspended at the same time.
"""

from __future__ import annotations

import logging
import os
import selectors
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import monotonic_ns
from typing import Any, Final

from ottla.broker.failures import CONFLICTS
from ottla.net.sqlite.member import Member, StuckWriter
from ottla.net.sqlite.store import Changed, RegistryStore, SessionOver, SessionRow, WatchTable
from ottla.ports import Done, Post, RegistryAway, SessionEvent, StorageFailed

log = logging.getLogger("ottla.net")

HEARTBEATS: Final = 6
"""The number of heartbeats within a session's timeout."""

LOOK_MS: Final = 1_000
CLOSE_S: Final = 10.0
NONE: Final = 0
"""The session number that means no session."""


@dataclass(slots=True, eq=False)
class RegistryJob:
    """A function that reads or writes the registry on the session's thread, and its result."""

    work: Callable[[], Any]
    result: Any = None
    refusal: Exception | None = None
    done: Done = lambda failure: None


class HostSession:
    """The sessions of this process, one after another.

    The callbacks `told` and `done` are called on the broker's thread through `post`. Everything else runs on the session's thread.
    """

    def __init__(self, store: RegistryStore, member: Member, timeout_ms: int, post: Post) -> None:
        self.told: list[Callable[[SessionEvent], None]] = []
        self.timeout_ms = timeout_ms
        self.lives_until_ms = 0
        """The monotonic time, in ms, before which no other process ends the session. All processes of a host share one clock."""
        self.number = NONE
        self.watches = WatchTable()
        self._store = store
        self._member = member
        self._post = post
        self._jobs: deque[RegistryJob] = deque()
        self._is_closing = False
        self._is_reached = False
        self._seen = 0
        self._next_look_ms = 0
        self._next_beat_ms = 0
        self._awake_since_ms = 0
        self._looked_ms = 0
        self._stuck = StuckWriter(store.file)
        self._selector = selectors.DefaultSelector()
        self._selector.register(member.bell, selectors.EVENT_READ)
        self._processes: dict[int, int] = {}
        """pid -> handle of another process, which reports the process's end"""
        self._thread = threading.Thread(target=self._run, name="ottla-registry", daemon=True)

    # --- for the broker's thread

    def start(self) -> None:
        self._thread.start()

    def submit(self, asked: RegistryJob, done: Done) -> None:
        """Queue work for the session's thread. `done` is called afterwards on the broker's thread.

        `done` gets `RegistryAway` if the registry was unavailable.
        """
        asked.done = done
        if self._thread.is_alive() and not self._is_closing:
            self._jobs.append(asked)
            self._member.wake()
        else:
            self._post(partial(done, RegistryAway("the registry", "it is closed")))

    def close(self) -> None:
        """End the session and the thread. This blocks on the disk. Any other thread may call this."""
        if self._is_closing:
            return
        self._is_closing = True
        if self._thread.is_alive():
            self._member.wake()
            self._thread.join(CLOSE_S)
        self._member.close()

    # --- on the session's thread

    def wake_others(self) -> None:
        """Wake the other processes after a change, so that they call their watches."""
        with suppress(StorageFailed):  # they check each second anyway
            for row in self._store.sessions():
                if row.name != self._member.name:
                    self._member.wake_other(row.name)

    def _run(self) -> None:
        self._keep_up(_mono_ms())
        while not self._is_closing:
            wait_ms = min(self._next_look_ms, self._next_beat_ms) - _mono_ms()
            dead = [key.fd for key, _ in self._selector.select(max(wait_ms, 0) / 1000) if key.fd != self._member.bell]
            self._member.drain_wakeups()
            while self._jobs:
                self._do(self._jobs.popleft())
            self._attempt(self._notify_changes)
            now_ms = _mono_ms()
            if dead or now_ms >= min(self._next_look_ms, self._next_beat_ms):
                self._forget(dead)
                self._keep_up(now_ms)
        self._end()

    def _do(self, asked: RegistryJob) -> None:
        try:
            if not self._is_reached:
                raise RegistryAway("the registry", "it is not available, or the session has expired")
            asked.result = asked.work()
        except SessionOver as over:
            self._lose()
            self._post(partial(asked.done, over))
        except RegistryAway as away:
            self._next_beat_ms = 0
            self._post(partial(asked.done, away))
        except (StorageFailed, *CONFLICTS) as refusal:
            asked.refusal = refusal
            self._post(partial(asked.done, None))
        else:
            self._post(partial(asked.done, None))

    def _keep_up(self, now_ms: int) -> None:
        """Extend the lifetime of this process's session, and end the sessions of other processes that have expired."""
        if now_ms - self._looked_ms > self.timeout_ms // 2:
            self._awake_since_ms = now_ms  # the machine may have been suspended: others are about to extend their sessions
        self._looked_ms = now_ms
        self._next_look_ms = now_ms + min(LOOK_MS, self.timeout_ms // HEARTBEATS)
        if not self._is_reached:
            self._attempt(self._check_writer)
        self._attempt(partial(self._expire_sessions, now_ms))

    def _attempt(self, work: Callable[[], None]) -> None:
        """Run `work`, which concerns the session. If the registry is unavailable, report the state `AWAY` to the callbacks."""
        try:
            work()
        except StorageFailed as failure:
            self._next_beat_ms = _mono_ms() + min(LOOK_MS, self.timeout_ms // HEARTBEATS)
            if self._is_reached:
                self._is_reached = False
                log.warning("the registry is not available: %s", failure)
                self._notify(SessionEvent.AWAY)

    def _expire_sessions(self, now_ms: int) -> None:
        if self.number == NONE:
            until_ms = now_ms + self.timeout_ms
            self.number = self._store.begin_session(self._member.name, os.getpid(), until_ms)
            self._kept_up(until_ms, SessionEvent.BEGUN)
        elif now_ms >= self._next_beat_ms:
            until_ms = now_ms + self.timeout_ms
            if not self._store.keep_up(self.number, until_ms):
                self._lose()
                return
            self._kept_up(until_ms, None if self._is_reached else SessionEvent.BACK)
        others = [row for row in self._store.sessions() if row.number != self.number]
        if any(self._is_over(row) for row in others) and self._store.end_sessions(self._is_over):
            self.wake_others()
            self._notify_changes()
        self._follow(others)

    def _check_writer(self) -> None:
        """End a suspended process that blocks all writes, because the other sessions would otherwise expire too."""
        self._stuck.check({row.pid for row in self._store.sessions()})

    def _kept_up(self, until_ms: int, event: SessionEvent | None) -> None:
        self.lives_until_ms = until_ms
        self._next_beat_ms = until_ms - self.timeout_ms + self.timeout_ms // HEARTBEATS
        self._is_reached = True
        if event is not None:
            self._stuck.forget()
            self._awake_since_ms = _mono_ms()  # other processes could not extend their sessions either, and are about to
            self._notify(event)

    def _lose(self) -> None:
        """Handle the end of the session by another process. The next session begins at once."""
        self.number = NONE
        self.lives_until_ms = 0
        self._is_reached = False
        self._next_look_ms = 0
        self._call(self.watches.all())
        self._notify(SessionEvent.ENDED)

    def _is_over(self, row: SessionRow) -> bool:
        if row.number == self.number:
            return False
        now_ms = _mono_ms()
        was_watched = now_ms - self._awake_since_ms >= self.timeout_ms // 2
        return self._member.is_dead(row.name) or (was_watched and row.until_ms < now_ms)

    def _follow(self, others: Iterable[SessionRow]) -> None:
        """Ask the kernel to report the end of the processes of these sessions, on systems that support it."""
        for pid in {row.pid for row in others} - {os.getpid()} - self._processes.keys():
            with suppress(OSError, AttributeError):
                handle = os.pidfd_open(pid)
                self._processes[pid] = handle
                self._selector.register(handle, selectors.EVENT_READ)

    def _forget(self, dead: Iterable[int]) -> None:
        for handle in dead:
            self._selector.unregister(handle)
            os.close(handle)
            self._processes = {pid: other for pid, other in self._processes.items() if other != handle}

    def _notify_changes(self) -> None:
        seen, changes = self._store.changes(self._seen)
        self._seen = seen
        self._call(self.watches.all() if changes is None else self.watches.pop_touched(changes))

    def _call(self, watches: Iterable[tuple[Changed, str]]) -> None:
        called = [partial(changed, path) for changed, path in watches]
        if called:
            self._post(partial(_each, called))

    def _notify(self, event: SessionEvent) -> None:
        self._post(lambda: _each([partial(told, event) for told in self.told]))

    def _end(self) -> None:
        own = self._member.name
        with suppress(StorageFailed):  # otherwise another process ends it
            if self._store.end_sessions(lambda row: row.name == own):
                self.wake_others()
        self.lives_until_ms = 0
        self._forget([*self._processes.values()])
        self._selector.close()
        self._store.close()
        while self._jobs:
            self._post(partial(self._jobs.popleft().done, RegistryAway("the registry", "it is closed")))


def _each(calls: Iterable[Callable[[], None]]) -> None:
    for call in calls:
        call()


def _mono_ms() -> int:
    return monotonic_ns() // 1_000_000
