"""The wait of a Produce with acks=all for other replicas. Depends on partitions, and on no handler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ottla.broker.partitions.partition import Partition
from ottla.broker.serving.purgatory import DelayedReply, Purgatory
from ottla.wire.api.produce import ProduceResponse
from ottla.wire.errors import REQUEST_TIMED_OUT

Part = ProduceResponse.PartitionProduceResponse


class Acknowledgements:
    """A response whose parts complete one after another, or not before the client's timeout."""

    def __init__(self, response: ProduceResponse, failed: Callable[[Part, int], None], purgatory: Purgatory) -> None:
        """Create the wait. `failed(part, error_code)` sets an error in a part of the response."""
        self._response = response
        self._failed = failed
        self._purgatory = purgatory
        self._left: dict[int, Part] = {}
        self._delayed: DelayedReply

    def delayed(self, appended: Sequence[tuple[Partition, int, Part]], until_ms: int, *, has_more: bool) -> DelayedReply:
        """Return the delayed response for the appended records: (partition, offset after the records, part of the response).

        `has_more` adds one further event to wait for. `until_ms` is a time of the monotonic clock.
        """
        delayed = self._delayed = DelayedReply(self._finish, blocking=False, missing=len(appended) + has_more)
        self._left = {number: part for number, (_, _, part) in enumerate(appended)}
        for number, (partition, offset, _) in enumerate(appended):
            partition.when_committed(offset, partial(self._told, number))
        if self._left:
            self._purgatory.expire(delayed, until_ms, self._expired)
        return delayed

    def _told(self, number: int, error_code: int) -> None:
        part = self._left.pop(number, None)
        if part is not None:
            if error_code:
                self._failed(part, error_code)
            self._delayed.happened()

    def _finish(self) -> ProduceResponse:
        self._purgatory.cancel_expiry(self._delayed)
        return self._response

    def _expired(self) -> ProduceResponse:
        """Set REQUEST_TIMED_OUT in incomplete parts. Their records can still reach all replicas later."""
        left, self._left = self._left, {}
        for part in left.values():
            self._failed(part, REQUEST_TIMED_OUT)
        return self._response
