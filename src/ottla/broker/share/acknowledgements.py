"""The acknowledgements of one request: checked and decided for each partition, then stored together.

Serves ShareFetch, whose acknowledgements are piggy-backed, and ShareAcknowledge. The reply waits until the share
coordinator has stored all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

from ottla.broker.serving.purgatory import DelayedReply
from ottla.broker.serving.request import Ready
from ottla.broker.share.led_share_partition import LedSharePartition
from ottla.broker.share.share_partitions import Answered, PendingWrite, SharePartitions
from ottla.ports import Now, Steps
from ottla.share.acknowledge import REJECT, RENEW, AcknowledgementRange, check_acknowledgements
from ottla.share.outcome import AcknowledgeRecords
from ottla.share.sessions import PlaceKey
from ottla.wire.errors import (
    INVALID_RECORD_STATE,
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)

RENEW_FROM: Final = 2
"""The first version of ShareFetch and ShareAcknowledge with the type RENEW."""
DECIDED_AT_ONCE: Final = 250
"""Ranges, acknowledge types and runs of records between two pauses: about a millisecond of work."""
NO_RENEWAL: Final = "Renewing acquisition locks is not enabled for the group."

AcknowledgeResult = tuple[int, str | None]
"""(error code, error message)"""


class AcknowledgementBatch(Protocol):
    """A range of offsets in a request, with one acknowledge type for all of them, or one for each."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


class AcknowledgingMember:
    """The member whose request acknowledges records, and what it may do. `readable` has the topics that it may read, by name."""

    __slots__ = ("group_id", "highest_type", "is_renewal", "member_id", "readable")

    def __init__(self, group_id: str, member_id: str, version: int, readable: Mapping[str, bool], *, is_renewal: bool) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.readable = readable
        self.highest_type = RENEW if version >= RENEW_FROM else REJECT
        self.is_renewal = is_renewal and version >= RENEW_FROM


class PartialAnswers:
    """The answers to the parts of one partition's acknowledgements. `done` gets the first error, or NONE, after the last answer."""

    __slots__ = ("_done", "_missing", "_result")

    def __init__(self, missing: int, done: Answered) -> None:
        self._missing = missing
        self._done = done
        self._result: AcknowledgeResult = (NONE, None)

    def add(self, error_code: int, message: str | None) -> None:
        """Record the answer to one part."""
        if not self._result[0]:
            self._result = error_code, message
        self._missing -= 1
        if not self._missing:
            self._done(*self._result)


class RecordAcknowledgements:
    """The acknowledgements of one request. `results` has their results by partition, once they are stored or refused.

    `at_end` is called after the last result, before the reply.
    """

    __slots__ = (
        "_completed",
        "_has_ranges",
        "_member",
        "_missing",
        "_name_of",
        "_shares",
        "_without_ranges",
        "_writes",
        "at_end",
        "results",
    )

    def __init__(self, shares: SharePartitions, name_of: Callable[[bytes], str | None], member: AcknowledgingMember) -> None:
        self._shares = shares
        self._name_of = name_of
        self._member = member
        self._writes: list[PendingWrite] = []
        self.results: dict[PlaceKey, AcknowledgeResult] = {}
        self.at_end: Callable[[], None] | None = None
        self._has_ranges = False
        self._without_ranges: list[PlaceKey] = []
        self._missing = 0
        self._completed: Callable[[], None] | None = None

    def add(self, topic_id: bytes, index: int, batches: Sequence[AcknowledgementBatch], now: Now) -> Steps[None]:
        """Decide the acknowledgements of one partition, with pauses. `store` then writes the changed states."""
        member, key = self._member, (topic_id, index)
        asked = [(batch.first_offset, batch.last_offset, batch.acknowledge_types) for batch in batches]
        refused = yield from self._refusal(topic_id, index, asked)
        if refused is not None:
            self._record(key, *refused)
            return
        if not asked:
            self._without_ranges.append(key)
            return
        self._has_ranges = True
        led = self._shares.get(member.group_id, topic_id, index)
        if led is not None and led.failure is not None:
            led = None  # nothing was delivered from it
        error_code = (
            self._shares.absent_error(self._name_of(topic_id) or "", index) if led is None else led.partition.leader_error()
        )
        if led is None or error_code:
            self._record(key, error_code, None)
            return
        parts = led.machine.divide(AcknowledgeRecords(member.member_id, asked), DECIDED_AT_ONCE)
        if len(parts) > 1:
            refused = yield from self._check_slowly(led, parts, now)
            if refused is not None:
                self._record(key, *refused)
                return
        self._missing += 1
        answered = PartialAnswers(len(parts), partial(self._on_answer, key))
        for part in parts:
            write = self._shares.acknowledge(led, part, answered.add, now)
            if write is not None:
                self._writes.append(write)
            if len(parts) > 1:
                yield None

    def _check_slowly(
        self, led: LedSharePartition, parts: Sequence[AcknowledgeRecords], now: Now
    ) -> Steps[AcknowledgeResult | None]:
        """Return why one of several parts is refused, before any of them is applied."""
        for part in parts:
            outcome = led.machine.decide(part, now.mono_ms)
            if outcome.error_code:
                return outcome.error_code, outcome.error_message
            yield None
        return None

    def store(self) -> None:
        """Write all changed states."""
        if self._has_ranges:  # otherwise Kafka leaves partitions without ranges out of the response
            for key in self._without_ranges:
                self.results.setdefault(key, (NONE, None))
        if self._writes:
            writes, self._writes = self._writes, []
            self._shares.store(self._member.group_id, writes)

    def reply(self, finish: Callable[[], Ready]) -> Ready | DelayedReply:
        """Return the reply that `finish` makes after the last result. Later requests of the connection do not wait for it."""

        def end() -> Ready:
            if self.at_end is not None:
                self.at_end()
            return finish()

        if not self._missing:
            return end()
        delayed = DelayedReply(end, blocking=False, missing=1)
        self._completed = delayed.count_down
        return delayed

    def _refusal(self, topic_id: bytes, index: int, asked: Sequence[AcknowledgementRange]) -> Steps[AcknowledgeResult | None]:
        """Return why the acknowledgements of a partition are refused whatever the states of its records are, in Kafka's order."""
        member, name = self._member, self._name_of(topic_id)
        if name is None:
            return UNKNOWN_TOPIC_ID, None
        previous = -1
        for at in range(0, len(asked), DECIDED_AT_ONCE):
            some = asked[at : at + DECIDED_AT_ONCE]
            error_code = check_acknowledgements(some, previous, max_type=member.highest_type, is_renew=member.is_renewal)
            if error_code:
                return error_code, None
            previous = some[-1][1]
            if at:
                yield None
        if not member.readable[name]:
            return TOPIC_AUTHORIZATION_FAILED, None
        if not self._shares.has_partition(name, index):
            return UNKNOWN_TOPIC_OR_PARTITION, None
        if member.is_renewal and any(RENEW in types for _, _, types in asked) and not self._may_renew:
            return INVALID_RECORD_STATE, NO_RENEWAL
        return None

    @property
    def _may_renew(self) -> bool:
        return self._shares.config(self._member.group_id).renew_acknowledge_enable

    def _on_answer(self, key: PlaceKey, error_code: int, message: str | None) -> None:
        self._record(key, error_code, message)
        self._missing -= 1
        if not self._missing and self._completed is not None:
            self._completed()

    def _record(self, key: PlaceKey, error_code: int, message: str | None) -> None:
        self.results[key] = error_code, message
        counts = self._shares.counts
        if error_code:
            counts.failed_acknowledgements += 1
        else:
            counts.acknowledged += 1
