"""Counts the records that were not written and whose sender has not asked: what `flush` and `close` raise, and the log says."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from ottla.client.accumulator import PendingBatch
from ottla.client.errors import DeliveryFailed, KafkaError


def counted(topics: dict[str, int]) -> str:
    """Return a number of records by topic for people: "3 records of topic a, 1 of topic b"."""
    found = [f"{count} of topic {topic}" for topic, count in sorted(topics.items()) if count]
    if not found:
        return "no record"
    number, rest = found[0].split(" ", 1)
    return ", ".join([f"{number} {'record' if number == '1' else 'records'} {rest}", *found[1:]])


class _Tally:
    """Failures since the last report: records by topic, and the first error."""

    def __init__(self) -> None:
        self.topics: dict[str, int] = {}
        self.error: KafkaError | None = None


class Losses:
    """Failed records by topic. A user's threads ask for outcomes while the loop adds failures: `lock` is held for each change."""

    def __init__(self, lock: AbstractContextManager[object] | None = None) -> None:
        self._lock: AbstractContextManager[object] = nullcontext() if lock is None else lock
        self._tally = _Tally()

    def add(self, batch: PendingBatch, error: KafkaError) -> None:
        """Count a batch that is about to fail with `error`. Each record counts until its outcome is asked for."""
        topic = batch.where.topic
        told: set[int] = set()
        with self._lock:
            tally = self._tally
            tally.error = tally.error or error
            tally.topics[topic] = tally.topics.get(topic, 0) + len(batch.values)

        def tell(index: int) -> None:
            with self._lock:
                if index not in told:
                    told.add(index)
                    tally.topics[topic] -= 1

        batch.on_error_raised = tell

    def take(self) -> DeliveryFailed | None:
        """Return the error for what was counted since the last call, or None without a failure."""
        with self._lock:
            tally, self._tally = self._tally, _Tally()
            topics = {topic: count for topic, count in tally.topics.items() if count}
        return DeliveryFailed(topics, counted(topics), tally.error) if topics and tally.error is not None else None

    def seen(self) -> dict[str, int]:
        """Return the records that count now, by topic."""
        with self._lock:
            return {topic: count for topic, count in self._tally.topics.items() if count}
