"""The readings of one session, by their ids. There are at most `MOST_RUNS`; the one that was viewed longest ago ends first."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from typing import Final

from ottla.console.messages.schema_cache import SchemaCache
from ottla.console.messages.search import Search
from ottla.console.messages.selection import TAIL, Selection
from ottla.console.messages.tail import Tail
from ottla.console.messages.topic_reading import IDLE_S, QueriedCluster, TopicReading

MOST_RUNS: Final = 8
WAIT_S: Final = 0.5
"""The time, in s, for which a page waits for a search to finish before it shows the progress."""


class SessionReadings:
    """The readings of a session. `place` is that of its schemas, empty without a registry."""

    def __init__(self, cluster: QueriedCluster, place: str) -> None:
        self.schemas = SchemaCache(place)
        self._cluster = cluster
        self._runs: OrderedDict[str, TopicReading] = OrderedDict()

    async def view(self, selection: Selection, run_id: str, wait_s: float = WAIT_S) -> tuple[str, TopicReading]:
        """Return the reading with this id, or a new one with its id, after it has finished or `wait_s` is over.

        Raises `BadSelection`.
        """
        run = self._runs.get(run_id)
        if run is None or run.selection != selection:
            run_id, run = secrets.token_urlsafe(9), self._new(selection)
            self._runs[run_id] = run
        self._runs.move_to_end(run_id)
        run.touch()
        await self._end_excess()
        asyncio.get_running_loop().call_later(IDLE_S + 1, self._forget_idle)
        try:
            async with asyncio.timeout(wait_s):
                await run.progress.wait()
        except TimeoutError:
            pass
        return run_id, run

    def has(self, run_id: str) -> bool:
        """Return whether a reading with this id goes on, or its result is still kept."""
        return run_id in self._runs

    def _new(self, selection: Selection) -> TopicReading:
        kind = Tail if selection.start == TAIL else Search
        return kind(selection, self._cluster, self.schemas)

    async def _end_excess(self) -> None:
        """End the readings beyond the maximum, those first that were viewed longest ago."""
        while len(self._runs) > MOST_RUNS:
            _, run = self._runs.popitem(last=False)
            await run.close()

    def _forget_idle(self) -> None:
        """Release the messages of readings that nobody views. Their tasks end by themselves."""
        for run_id, run in list(self._runs.items()):
            if run.is_idle:
                del self._runs[run_id]

    async def close(self) -> None:
        """End all readings."""
        runs, self._runs = list(self._runs.values()), OrderedDict()
        for run in runs:
            await run.close()
