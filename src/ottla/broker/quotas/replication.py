"""How fast replicas are copied that are moved or new: rates of a broker as leader and as follower (KIP-73).

What is covered, topics' settings say: `*`, or partition:broker for each replica. Only replicas that lag are held back.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.quotas.buckets import TokenBucket


class ReplicationQuota:
    """One of both rates. `rate` tells its bytes in each second, `window_s` for how long unused ones are saved up."""

    def __init__(self, node_id: int, rate: Callable[[], int], window_s: Callable[[], int], now_ms: int) -> None:
        self._node_id = node_id
        self._rate = rate
        self._window_s = window_s
        self._bucket = TokenBucket(rate(), rate() * window_s(), now_ms)

    def use(self, size: int, now_ms: int) -> None:
        """Count bytes of replicas that are covered."""
        self._present(now_ms).take(size, now_ms)

    def is_used_up(self, now_ms: int) -> bool:
        return self._present(now_ms).left(now_ms) <= 0

    def _present(self, now_ms: int) -> TokenBucket:
        """The bucket of the rate that is set now."""
        rate = self._rate()
        if rate != self._bucket.per_second:
            self._bucket = TokenBucket(rate, rate * self._window_s(), now_ms)
        return self._bucket

    def covers(self, throttled: str, index: int) -> bool:
        """Whether a topic's setting names the replica of a partition on this broker."""
        return bool(throttled) and (throttled == "*" or f"{index}:{self._node_id}" in throttled.split(","))
