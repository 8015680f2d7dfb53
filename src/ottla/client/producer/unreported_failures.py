"""The count of failed records whose errors no caller has read. `flush`, `close` and the log report them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from ottla.client.errors import DeliveryFailed, KafkaError
from ottla.client.producer.accumulator import PendingBatch


def count_text(topics: dict[str, int]) -> str:
    """Return record counts by topic as text for people: "3 records of topic a, 1 of topic b"."""
    found = [f"{count} of topic {topic}" for topic, count in sorted(topics.items()) if count]
    if not found:
        return "no record"
    number, rest = found[0].split(" ", 1)
    return ", ".join([f"{number} {'record' if number == '1' else 'records'} {rest}", *found[1:]])


class _Tally:
    """The failed records since the last report: their number by topic, and the first error."""

    def __init__(self) -> None:
        self.topics: dict[str, int] = {}
        self.error: KafkaError | None = None


class Losses:
    """The failed records that no caller has read yet, by topic.

    User threads read outcomes while the event loop adds failures, so every change takes `lock`.
    """

    def __init__(self, lock: AbstractContextManager[object] | None = None) -> None:
        self._lock: AbstractContextManager[object] = nullcontext() if lock is None else lock
        self._tally = _Tally()

    def add(self, batch: PendingBatch, error: KafkaError, indexes: range | None = None) -> None:
        """Count records of a batch, by default all, that are about to fail with `error`, each until a caller reads its outcome."""
        topic, others = batch.where.topic, batch.on_error_raised
        failing = range(batch.record_count) if indexes is None else indexes
        reported: set[int] = set()
        with self._lock:
            tally = self._tally
            tally.error = tally.error or error
            tally.topics[topic] = tally.topics.get(topic, 0) + len(failing)

        def report(index: int) -> None:
            if index not in failing:  # another part of the batch
                if others is not None:
                    others(index)
                return
            with self._lock:
                if index not in reported:
                    reported.add(index)
                    tally.topics[topic] -= 1

        batch.on_error_raised = report

    def pop_error(self) -> DeliveryFailed | None:
        """Return the exception for the failures since the last call; None if there are no failures."""
        with self._lock:
            tally, self._tally = self._tally, _Tally()
            topics = {topic: count for topic, count in tally.topics.items() if count}
        return DeliveryFailed(topics, count_text(topics), tally.error) if topics and tally.error is not None else None

    def snapshot(self) -> dict[str, int]:
        """Return the current counts of failed records, by topic."""
        with self._lock:
            return {topic: count for topic, count in self._tally.topics.items() if count}
