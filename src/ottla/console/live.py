"""Live pages by server-sent events: the regions of a page that have changed, for all viewers of it from one refresh.

The number of streams is limited, for each session and for the console; a page beyond it refreshes itself now and then.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from ottla.console.cluster_session import ClusterSession
from ottla.console.declarations import PageRefused
from ottla.console.sessions import BrowserSession

MOST_STREAMS, MOST_OF_SESSION = 256, 16
KEEP_ALIVE_S = 15.0
"""The time, in s, after which a stream without changes sends a comment, so that a dead connection is noticed."""
RECONNECT_MS = 2_000

Regions = Mapping[str, str]
"""The HTML of each region of a page, by its id."""
Refresh = Callable[[ClusterSession, str], Awaitable[Regions]]


class ViewedPage(NamedTuple):
    """A page as one user sees it: the user's session with the cluster, and the page's path with its query."""

    cluster: ClusterSession
    path: str


class SharedRefresh:
    """One viewed page, made again while somebody views it."""

    def __init__(self, viewed: ViewedPage, refresh: Refresh, every_s: float) -> None:
        self._viewed, self._refresh, self._every_s = viewed, refresh, every_s
        self.regions: dict[str, str] = {}
        self.changed = asyncio.Event()
        self.viewers = 0
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            nudge = self._viewed.cluster.changed
            fresh = {**self.regions, **await self._refresh(*self._viewed)}
            if fresh != self.regions:
                self.regions = fresh
                self.changed.set()
                self.changed = asyncio.Event()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._every_s):
                    await nudge.wait()


class LiveStreams:
    """All streams of a console. `refresh` makes the regions of a page; it raises nothing."""

    def __init__(self, refresh: Refresh) -> None:
        self._refresh = refresh
        self._shared: dict[ViewedPage, SharedRefresh] = {}
        self.count = 0

    def check(self, session: BrowserSession) -> None:
        """Raise `PageRefused` if the console or the session has as many streams as it may have."""
        if self.count >= MOST_STREAMS:
            raise PageRefused(503, f"The console has {MOST_STREAMS} live pages open, its maximum: close some of them.")
        if session.streams >= MOST_OF_SESSION:
            raise PageRefused(503, f"This browser has {MOST_OF_SESSION} live pages open, its maximum: close some of them.")

    async def stream(self, session: BrowserSession, viewed: ViewedPage, every_s: float) -> AsyncIterator[dict[str, str]]:
        """Yield the regions of a page that have changed since the last ones, an empty dictionary as a sign of life."""
        self.count += 1
        session.streams += 1
        shared = self._shared.get(viewed)
        if shared is None:
            shared = self._shared[viewed] = SharedRefresh(viewed, self._refresh, every_s)
        shared.viewers += 1
        sent: dict[str, str] = {}
        try:
            while not session.has_ended:
                changed = shared.changed
                fresh = {name: html for name, html in shared.regions.items() if sent.get(name) != html}
                if fresh:
                    sent.update(fresh)
                    yield fresh
                try:
                    async with asyncio.timeout(KEEP_ALIVE_S):
                        await changed.wait()
                except TimeoutError:
                    yield {}
        finally:
            self.count -= 1
            session.streams -= 1
            shared.viewers -= 1
            if not shared.viewers:
                self._shared.pop(viewed, None)
                await shared.close()

    async def close(self) -> None:
        """End all refreshes."""
        shared, self._shared = list(self._shared.values()), {}
        for each in shared:
            await each.close()


def event(regions: Regions) -> str:
    """Return an event with regions, or a comment without any."""
    return f"event: regions\ndata: {json.dumps(regions)}\n\n" if regions else ": still here\n\n"
