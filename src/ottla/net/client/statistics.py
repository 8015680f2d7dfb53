"""The periodic calls of `on_statistics`: on the loop of an asynchronous client, or on the thread that uses a blocking client."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable

from ottla.client.errors import SettingError
from ottla.client.metrics.registry import MetricsSnapshot
from ottla.client.settings.clients import ObservedSettings

log = logging.getLogger("ottla.client")


class Statistics:
    """The statistics callback of one client. Its exceptions are logged. Only the newest snapshot waits for a user's thread."""

    def __init__(self, on_statistics: Callable[[MetricsSnapshot], Awaitable[None] | None], interval_ms: int) -> None:
        self._function = on_statistics
        self._interval_s = interval_ms / 1000
        self._hand_over: Callable[[Callable[[], None]], None] | None = None
        self._latest: MetricsSnapshot | None = None

    def bind(self, hand_over: Callable[[Callable[[], None]], None]) -> None:
        """Let `hand_over` pass the calls to a user's thread. Raises `SettingError` for a coroutine function."""
        if inspect.iscoroutinefunction(self._function):
            raise SettingError(
                "on_statistics is a coroutine function, which a blocking client cannot await: use an asynchronous one."
            )
        self._hand_over = hand_over

    async def run(self, snapshot: Callable[[], MetricsSnapshot]) -> None:
        """Call the callback at intervals, without end."""
        while True:
            await asyncio.sleep(self._interval_s)
            is_scheduled, self._latest = self._latest is not None, snapshot()
            if self._hand_over is None:
                if (result := self._call()) is not None:
                    await self._wait_for(result)
            elif not is_scheduled:
                self._hand_over(self._call_on_thread)

    def _call_on_thread(self) -> None:
        self._call()

    def _call(self) -> Awaitable[None] | None:
        latest, self._latest = self._latest, None
        if latest is None:
            return None
        try:
            return self._function(latest)
        except Exception as error:
            _log_failure(error)
            return None

    async def _wait_for(self, result: object) -> None:
        try:
            if inspect.isawaitable(result):
                await result
        except Exception as error:
            _log_failure(error)


def statistics_of(settings: ObservedSettings) -> Statistics | None:
    """Return the statistics callback of a client with these settings, or None if it has none."""
    function = settings.on_statistics
    return None if function is None else Statistics(function, settings.statistics_interval_ms)


def _log_failure(error: Exception) -> None:
    log.error("on_statistics raised an exception", exc_info=error)
