"""SQLite as the registry of one host's brokers. It uses the session's thread; the meaning of entries is unknown here."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Self, TypeVar

from ottla.broker.membership.membership import NotAMember
from ottla.net.sqlite.draft import CHILDREN, DATA
from ottla.net.sqlite.member import Member, lock_out
from ottla.net.sqlite.session import HostSession, RegistryJob
from ottla.net.sqlite.store import Changed, Entries, Names, RegistryStore, Results
from ottla.ports import Change, CommitSteps, Condition, Post, RegistryAway, RegistryDamaged, SessionEvent, Steps

T = TypeVar("T")
AT_ONCE: Final = 500
"""The number of entries that are read without a pause for other work."""


class HostRegistry:
    """Implements `ottla.ports.SharedRegistry` on a directory.

    `start` begins the registry's session; the callbacks of `on_session` report when it has begun.
    """

    def __init__(self, directory: Path, timeout_ms: int, post: Post) -> None:
        """Open the registry in `directory`. This blocks on the disk. Raises `RegistryDamaged` and `RegistryAway`."""
        self.timeout_ms = timeout_ms
        self._directory = directory
        try:
            with lock_out(directory, timeout_ms / 1000):
                store = RegistryStore(directory, timeout_ms // 3)
                try:
                    member = Member(directory)
                except BaseException:
                    store.close()
                    raise
        except OSError as error:
            raise RegistryDamaged(f"{directory} cannot be used ({os.strerror(error.errno or 0)}): make it accessible") from error
        self._session = HostSession(store, member, timeout_ms, post)
        self._store = store

    def start(self) -> Self:
        self._session.start()
        return self

    def session_end_ms(self) -> int:
        return self._session.lives_until_ms

    def on_session(self, told: Callable[[SessionEvent], None]) -> None:
        self._session.told.append(told)

    def close(self) -> None:
        """End the session. This blocks on the disk."""
        self._session.close()

    def read(self, paths: Sequence[str], *, changed: Changed | None = None) -> Steps[Entries]:
        return (yield from self._read(DATA, paths, self._store.read, changed))

    def list(self, paths: Sequence[str], *, changed: Changed | None = None) -> Steps[Names]:
        return (yield from self._read(CHILDREN, paths, self._store.list, changed))

    def commit(self, changes: Sequence[Change | Condition]) -> CommitSteps:
        def work() -> None:
            if self._store.commit(self._session.number, changes):
                self._session.wake_others()

        if changes:
            yield from self._run(work)

    def _read(
        self, kind: str, paths: Sequence[str], look: Callable[[Sequence[str]], tuple[int, Sequence[T]]], changed: Changed | None
    ) -> Steps[Results[T]]:
        def work(some: Sequence[str]) -> Sequence[T]:
            seen, found = look(some)
            if changed is not None:
                self._session.watches.leave(kind, some, changed, seen)
            return found

        found: Results[T] = []
        for start in range(0, len(paths), AT_ONCE):
            found += yield from self._run(partial(work, paths[start : start + AT_ONCE]))
        return found

    def _run(self, work: Callable[[], T]) -> Steps[T]:
        asked = RegistryJob(work)
        failure = yield partial(self._session.submit, asked)
        if failure is not None:
            raise failure
        if asked.refusal is not None:
            raise asked.refusal
        result: T = asked.result
        return result


async def opened_on_host(directory: str, timeout_ms: int, post: Post) -> HostRegistry:
    """Return a registry whose session has begun. Raises `NotAMember`."""
    try:
        registry = await asyncio.to_thread(HostRegistry, Path(directory), timeout_ms, post)
    except RegistryDamaged as damage:
        raise NotAMember(f"The registry of this host's brokers cannot be used: {damage}.") from damage
    except RegistryAway as away:
        raise NotAMember(f"The registry of this host's brokers is not available ({away}): try again.") from away
    begun = asyncio.Event()

    def on_event(event: SessionEvent) -> None:
        if event is SessionEvent.BEGUN:
            begun.set()

    registry.on_session(on_event)
    registry.start()
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await begun.wait()
    except TimeoutError:
        await asyncio.to_thread(registry.close)
        raise NotAMember(
            f"No session with the registry in {directory} began within {timeout_ms} ms: another process may be suspended while it "
            "writes there; kill or resume it."
        ) from None
    return registry
