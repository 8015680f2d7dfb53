"""Throttles of the replication of moved or new replicas: the rates of a broker as leader and as follower (KIP-73).

Topic configs list the throttled replicas: `*`, or partition:broker for each replica. Only replicas that lag are throttled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ottla.broker.settings import SettingsInForce


class Window(NamedTuple):
    """One time window of a replication quota: the bytes replicated since `began_ms`."""

    began_ms: int
    used: int


class ReplicationQuota:
    """The quota of bytes that leaders send, or that followers receive, for throttled replicas. `rate` returns bytes per second.

    The use is measured over the last `replication.quota.window.num` windows of `replication.quota.window.size.seconds`, and divided
    by the time since the first of these windows began. Idle time before the first window is not saved up.
    """

    def __init__(self, node_id: int, rate: Callable[[], int], settings: SettingsInForce) -> None:
        self._node_id = node_id
        self._rate = rate
        self._settings = settings
        self._windows: deque[Window] = deque()
        self._used = 0

    def use(self, size: int, now_ms: int) -> None:
        """Record replicated bytes of throttled replicas."""
        window_ms = self._settings.value.replication_quota_window_size_seconds * 1000
        self._forget(now_ms)
        if not self._windows or now_ms - self._windows[-1].began_ms >= window_ms:
            self._windows.append(Window(now_ms, 0))
        last = self._windows.pop()
        self._windows.append(Window(last.began_ms, last.used + size))
        self._used += size

    def is_used_up(self, now_ms: int) -> bool:
        """Return whether the rate is exceeded."""
        self._forget(now_ms)
        if not self._windows:
            return False
        window_ms = self._settings.value.replication_quota_window_size_seconds * 1000
        measured_ms = max(now_ms - self._windows[0].began_ms, window_ms)
        return self._used * 1000 > self._rate() * measured_ms

    def _forget(self, now_ms: int) -> None:
        settings = self._settings.value
        kept_ms = settings.replication_quota_window_num * settings.replication_quota_window_size_seconds * 1000
        while self._windows and now_ms - self._windows[0].began_ms >= kept_ms:
            self._used -= self._windows.popleft().used

    def covers(self, throttled: str, index: int) -> bool:
        """Return whether a topic config lists this broker's replica of a partition."""
        return bool(throttled) and (throttled == "*" or f"{index}:{self._node_id}" in throttled.split(","))
