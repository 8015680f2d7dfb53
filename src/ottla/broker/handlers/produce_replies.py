"""The reply to a produce request: at once, when records are on stable storage, or when all in-sync replicas have them.

Error codes depend on the request's version: KAFKA_STORAGE_ERROR from version 4 on, INVALID_RECORD from 3 on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ottla.broker.handlers.produce_batches import ACKS_LEADER, ACKS_NONE, PartitionResponse, Unsynced
from ottla.broker.partitions.partition import Partition
from ottla.broker.serving.purgatory import DelayedOperation, DelayedReply, Purgatory, Reply
from ottla.broker.serving.request import NO_REPLY, Close, Request
from ottla.ports import Now
from ottla.wire.api.produce import ProduceRequest, ProduceResponse
from ottla.wire.errors import (
    CORRUPT_MESSAGE,
    INVALID_RECORD,
    KAFKA_STORAGE_ERROR,
    NOT_COORDINATOR,
    NOT_LEADER_OR_FOLLOWER,
    REQUEST_TIMED_OUT,
    error_name,
)

ONE_BATCH_FROM = 3
"""The first version with exactly one batch of magic 2 per partition (KIP-98). In earlier versions, records can have any format."""
STORAGE_ERROR_FROM = 4

Kept = tuple[Callable[[Callable[[int], None]], None], list[PartitionResponse]]
"""A function that calls back with the result of adding partitions to a transaction, and the responses that depend on it."""

Part = ProduceResponse.PartitionProduceResponse


class Acknowledgements:
    """A delayed Produce response. It is complete when all its partitions are acknowledged, or at the client's timeout."""

    def __init__(self, response: ProduceResponse, failed: Callable[[Part, int], None], purgatory: Purgatory) -> None:
        """Create the delayed response. `failed(part, error_code)` sets an error in a part of the response."""
        self._response = response
        self._failed = failed
        self._purgatory = purgatory
        self._left: dict[int, Part] = {}
        self._delayed: DelayedReply

    def delay(self, appended: Sequence[tuple[Partition, int, Part]], until_ms: int, *, has_more: bool) -> DelayedReply:
        """Return the delayed response for the appended records: (partition, offset after the records, part of the response).

        With `has_more`, the response also waits for one event more, which the caller reports. `until_ms` is a time of the monotonic
        clock.
        """
        delayed = self._delayed = DelayedReply(self._finish, blocking=False, missing=len(appended) + has_more)
        self._left = {number: part for number, (_, _, part) in enumerate(appended)}
        for number, (partition, offset, _) in enumerate(appended):
            partition.when_committed(offset, partial(self._on_acknowledged, number))
        if self._left:
            self._purgatory.expire(delayed, until_ms, self._expire)
        return delayed

    def _on_acknowledged(self, number: int, error_code: int) -> None:
        part = self._left.pop(number, None)
        if part is not None:
            if error_code:
                self._failed(part, error_code)
            self._delayed.count_down()

    def _finish(self) -> ProduceResponse:
        self._purgatory.cancel_expiry(self._delayed)
        return self._response

    def _expire(self) -> ProduceResponse:
        """Set REQUEST_TIMED_OUT in incomplete parts. Their records can still reach all replicas later."""
        left, self._left = self._left, {}
        for part in left.values():
            self._failed(part, REQUEST_TIMED_OUT)
        return self._response


def reply_to(
    request: Request[ProduceRequest],
    response: ProduceResponse,
    unsynced: Unsynced,
    purgatory: Purgatory,
    kept: Kept | None = None,
) -> Reply:
    """Return the reply to a request whose valid records are appended."""
    body = request.body
    if request.version < STORAGE_ERROR_FROM:
        _use_older_codes(response, request)
    if body.acks == ACKS_NONE:
        return _answer_without_acks(request, response)
    if body.acks > ACKS_LEADER and request.release.waits_for_replicas(body.acks):
        return _too_few_replicas(response, request)
    if not unsynced and kept is None:
        return response
    for topic in body.topic_data:
        for data in topic.partition_data:
            data.records = None  # the logs contain the records: a waiting reply no longer needs the frame
    if body.acks not in (ACKS_NONE, ACKS_LEADER) and any(partition.replicas is not None for partition, _, _ in unsynced):
        until_ms = request.now.mono_ms + max(0, body.timeout_ms)
        acks = Acknowledgements(response, partial(_set_error, request.version), purgatory)
        return _also_kept(acks.delay(unsynced, until_ms, has_more=kept is not None), kept)
    return _when_synced(response, unsynced, kept, request.version)


def _use_older_codes(response: ProduceResponse, request: Request[ProduceRequest]) -> None:
    """Replace error codes that clients with this version of the request do not support."""
    instead = {KAFKA_STORAGE_ERROR: NOT_LEADER_OR_FOLLOWER}
    if request.version < ONE_BATCH_FROM and request.release.is_today:
        instead[INVALID_RECORD] = CORRUPT_MESSAGE
    for topic in response.responses:
        for part in topic.partition_responses:
            part.error_code = instead.get(part.error_code, part.error_code)


def _too_few_replicas(response: ProduceResponse, request: Request[ProduceRequest]) -> Reply:
    """Return REQUEST_TIMED_OUT after the timeout. Release 0.8.2 waits for `acks` replicas, and the partition has only one."""

    def retry(now: Now, expired: bool) -> Reply:
        for topic in response.responses:
            for part in topic.partition_responses:
                part.error_code = part.error_code or REQUEST_TIMED_OUT
        return response

    return DelayedOperation((), request.now.mono_ms + max(0, request.body.timeout_ms), retry)


def _answer_without_acks(request: Request[ProduceRequest], response: ProduceResponse) -> Reply:
    """Return no reply to acks=0, or close the connection after a failure, so that the producer refreshes its metadata."""
    if request.denied is not None:
        return Close(f"a produce request with acks=0 names a topic to which {request.peer.principal} may not write")
    for topic in response.responses:
        for part in topic.partition_responses:
            if part.error_code:
                return Close(
                    f"a produce request with acks=0 to {topic.name}-{part.index} failed with {error_name(part.error_code)}"
                )
    return NO_REPLY


def _when_synced(response: ProduceResponse, unsynced: Unsynced, kept: Kept | None, version: int) -> Reply:
    """Delay the response until every part is on stable storage or has failed."""
    delayed = DelayedReply(lambda: response, blocking=False, missing=len(unsynced) + (kept is not None))
    for partition, offset, part in unsynced:
        partition.when_synced(offset, partial(_on_synced, delayed, part, version))
    return _also_kept(delayed, kept)


def _also_kept(delayed: DelayedReply, kept: Kept | None) -> Reply:
    if kept is not None:
        when_kept, added = kept
        when_kept(partial(_added_for_good, delayed, added))
    return delayed.reply()


def _added_for_good(delayed: DelayedReply, added: list[PartitionResponse], error_code: int) -> None:
    """Record that the partitions `added` to a transaction are durable, or have failed with `error_code`.

    An error becomes NOT_COORDINATOR, so that the client finds the coordinator again.
    """
    if error_code:
        for part in added:
            part.error_code, part.base_offset = NOT_COORDINATOR, -1
    delayed.count_down()


def _on_synced(delayed: DelayedReply, part: PartitionResponse, version: int, error_code: int) -> None:
    if error_code:
        _set_error(version, part, error_code)
    delayed.count_down()


def _set_error(version: int, part: PartitionResponse, error_code: int) -> None:
    part.error_code, part.base_offset = _supported_error(error_code, version), -1


def _supported_error(error_code: int, version: int) -> int:
    return NOT_LEADER_OR_FOLLOWER if error_code == KAFKA_STORAGE_ERROR and version < STORAGE_ERROR_FROM else error_code
