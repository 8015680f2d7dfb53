"""The share partitions that this broker leads, of all share groups: loaded when first fetched, and dropped with the leadership.

The state of a share partition comes from the share coordinator and returns there with each acknowledgement. A change of a share
partition, or of its log, makes it due again in the sessions that fetch it, and wakes their waiting fetches. A share partition that
no session fetches is dropped as soon as nothing in it is acquired. Depends on neither requests nor connections.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from ottla.broker.coordination.share_states import SharePersister
from ottla.broker.failures import Changes
from ottla.broker.long_checks import LongChecks
from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.scheduler import Scheduler
from ottla.broker.serving.parts import Budget
from ottla.broker.serving.purgatory import Purgatory
from ottla.broker.share.group_configs import ShareGroupConfig, ShareGroupConfigs
from ottla.broker.share.led_share_partition import LedKey, LedSharePartition
from ottla.broker.share.start_offset import find_start_offset
from ottla.cluster.image import ClusterImage
from ottla.coord.share_state.inputs import ReadState, StateResult, WriteState
from ottla.ports import Now, Steps
from ottla.share.outcome import (
    AcknowledgeRecords,
    AcquiredRange,
    AcquireRecords,
    ExpireLocks,
    MoveLogStart,
    ReleaseMember,
    ShareInput,
    ShareOutcome,
    StateRead,
    StateWrite,
    WriteResult,
)
from ottla.share.partition import SharePartition, ShareStatus
from ottla.share.persistence import FENCING_ERRORS, client_error
from ottla.share.sessions import SharedPlace, ShareSession
from ottla.wire.errors import (
    KAFKA_STORAGE_ERROR,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    error_name,
)

log = logging.getLogger("ottla.broker")

UNKNOWN_START = -1
"""The start offset of a share partition whose group has never read it."""
RUNS_AT_ONCE = 250
"""Runs of records that are released or stored between two pauses, in about a millisecond."""
WOKEN_AT_ONCE = 100
"""Sessions for which a share partition becomes due between two pauses."""
PAUSE_MS = 1
PLACE_COST = 3
"""The cost of a share partition in which nothing is released, as a number of runs."""

Answered = Callable[[int, str | None], None]
"""Gets the error code of an acknowledgement, and a message, once it is stored or refused."""


class PendingWrite(NamedTuple):
    """A write of a share partition's state that the share coordinator has to answer."""

    led: LedSharePartition
    write: StateWrite
    answered: Answered | None


class ShareCounts:
    """Counts of share partitions' events since the broker's start."""

    __slots__ = ("acknowledged", "acquired", "expired_locks", "failed_acknowledgements", "failed_loads", "fetches", "loads")

    def __init__(self) -> None:
        self.acquired = 0
        """Records acquired by members."""
        self.acknowledged = 0
        """Partitions of requests whose acknowledgements were stored."""
        self.failed_acknowledgements = 0
        """Partitions of requests whose acknowledgements were refused."""
        self.expired_locks = 0
        """Expirations of acquisition locks, each of all locks of a share partition that were due."""
        self.fetches = 0
        """Share partitions with records in responses."""
        self.loads = 0
        self.failed_loads = 0


class SharePartitions:
    """All share partitions that this broker leads."""

    def __init__(
        self,
        partitions: Partitions,
        image: ClusterImage,
        configs: ShareGroupConfigs,
        persister: SharePersister,
        checks: LongChecks,
        scheduler: Scheduler,
        purgatory: Purgatory,
        changes: Changes,
    ) -> None:
        self._partitions = partitions
        self._image = image
        self._configs = configs
        self._persister = persister
        self._checks = checks
        self._scheduler = scheduler
        self._purgatory = purgatory
        self._changes = changes
        self._led: dict[LedKey, LedSharePartition] = {}
        self._by_partition: dict[Partition, dict[LedSharePartition, None]] = {}
        self._ended: deque[tuple[ShareSession, Sequence[LedSharePartition]]] = deque()
        """The sessions whose records are still to be released, with the share partitions that they fetched."""
        self._due: dict[LedSharePartition, None] = {}
        """Share partitions with so many sessions that these are woken in steps."""
        self.counts = ShareCounts()

    def __len__(self) -> int:
        return len(self._led)

    def __iter__(self) -> Iterator[LedSharePartition]:
        return iter(self._led.values())

    def config(self, group_id: str) -> ShareGroupConfig:
        """Return the effective settings of a group."""
        return self._configs.of(group_id)

    def get(self, group_id: str, topic_id: bytes, index: int) -> LedSharePartition | None:
        """Return a share partition that is loading or loaded; None if no session has fetched it."""
        return self._led.get((group_id, topic_id, index))

    def has_partition(self, topic: str, index: int) -> bool:
        """Return whether a partition exists, here or on another broker."""
        return self._partitions.get(topic, index) is not None or self._image.has_partition(topic, index)

    def absent_error(self, topic: str, index: int) -> int:
        """Return the error for an acknowledgement of a share partition that is not loaded."""
        partition = self._partitions.get(topic, index)
        if partition is None:
            return self._partitions.absent_error(topic, index)
        return partition.leader_error() or UNKNOWN_TOPIC_OR_PARTITION

    def find(self, session: ShareSession, place: SharedPlace, *, may_load: bool) -> LedSharePartition | int:
        """Return the share partition at a place of a session, or an error code. Without one, begin to load it.

        A share partition whose load failed is loaded again only with `may_load`, otherwise the failure is returned.
        """
        topic_id, index = place.key
        led = self._led.get((session.group_id, topic_id, index))
        if led is not None:
            error_code = led.partition.leader_error()
            if error_code:
                return error_code
            if led.failure is None:
                if place not in led.watchers:
                    led.watchers[place] = session
                return led
            if not may_load:
                return led.failure[0]
            self._drop(led)
        partition = self._partition(place)
        if isinstance(partition, int):
            return partition
        led = self._load((session.group_id, topic_id, index), partition)
        led.watchers[place] = session
        return led

    def _partition(self, place: SharedPlace) -> Partition | int:
        """Return the partition at a place, which this broker leads, or an error code."""
        topic_id, index = place.key
        name = self._image.name_of(topic_id)
        if name is None:
            return UNKNOWN_TOPIC_ID if place.topic is None else UNKNOWN_TOPIC_OR_PARTITION
        place.topic = name
        partition = self._partitions.get(name, index)
        if partition is None:
            return self._partitions.absent_error(name, index)
        if partition.topic_id != topic_id:
            return UNKNOWN_TOPIC_ID
        return partition.leader_error() or partition

    # Loading

    def _load(self, key: LedKey, partition: Partition) -> LedSharePartition:
        """Begin to read the state of a share partition from the share coordinator."""
        group_id, topic_id, index = key
        machine = SharePartition(group_id, topic_id, index, partition.leader_epoch, self._configs.of(group_id).limits)
        led = self._led[key] = LedSharePartition(key, partition, machine)
        self._by_partition.setdefault(partition, {})[led] = None
        self.counts.loads += 1
        self._persister.read(group_id, [ReadState(topic_id, index, partition.leader_epoch)], partial(self._on_read, led))
        return led

    def _on_read(self, led: LedSharePartition, results: Sequence[StateResult]) -> None:
        if led.is_dropped:
            return
        result = results[0]
        if result.error_code:
            self._fail(led, client_error(result.error_code), result.error_message)
        elif result.start_offset != UNKNOWN_START:
            self._activate(led, result, result.start_offset)
        else:
            steps = find_start_offset(led.partition, self._configs.of(led.key[0]), self._checks, self._scheduler.now())
            found = partial(self._on_start_offset, led, result)
            failed = partial(self._on_search_failed, led)
            self._scheduler.begin(("share start offset", led), steps, found, failed, urgent=True)

    def _on_start_offset(self, led: LedSharePartition, result: StateResult, found: tuple[int, int]) -> None:
        error_code, start_offset = found
        if led.is_dropped:
            return
        if error_code:
            self._fail(led, error_code, None)
        else:
            self._activate(led, result, start_offset)

    def _on_search_failed(self, led: LedSharePartition, failure: Exception) -> None:
        log.error("%s cannot be read from its start offset: %s", led, failure, extra={"cause": "share partition"})
        if not led.is_dropped:
            self._fail(led, KAFKA_STORAGE_ERROR, None)

    def _fail(self, led: LedSharePartition, error_code: int, message: str | None) -> None:
        """Keep the failure of a load for the fetches that wait for it; a later fetch loads the share partition again."""
        sentence = "%s could not be loaded: %s (%s); the members' next fetches load it again"
        log.warning(sentence, led, error_name(error_code), message or "no message", extra={"cause": "share partition"})
        self.counts.failed_loads += 1
        led.failure = error_code, message
        self.mark_due(led)

    def _activate(self, led: LedSharePartition, result: StateResult, start_offset: int) -> None:
        now = self._scheduler.now()
        outcome = led.machine.submit(StateRead(result.state_epoch, start_offset, result.batches), now.mono_ms)
        if outcome.error_code:
            self._fail(led, outcome.error_code, outcome.error_message)
        else:
            self.mark_due(led)

    # Records

    def prepare(self, led: LedSharePartition, now: Now) -> ShareGroupConfig:
        """Apply changed settings, and the start of the log, before records are acquired. Return the group's settings."""
        config = self._configs.of(led.key[0])
        machine, limits = led.machine, config.limits
        if machine.limits is not limits:
            machine.limits = limits
        log_start_offset = led.partition.log.log_start_offset
        if machine.start_offset < log_start_offset:
            self._store_own(led, self._submit(led, MoveLogStart(log_start_offset), now))
        return config

    def acquire(self, led: LedSharePartition, asked: AcquireRecords, now: Now) -> Sequence[AcquiredRange]:
        """Acquire records for a member, and return their ranges: none while records of its earlier session are being released."""
        if asked.member_id in led.releasing:
            led.releasing[asked.member_id] = True
            return ()
        acquired = self._submit(led, asked, now).acquired
        for first_offset, last_offset, _ in acquired:
            self.counts.acquired += last_offset - first_offset + 1
        return acquired

    def acknowledge(self, led: LedSharePartition, asked: AcknowledgeRecords, answered: Answered, now: Now) -> PendingWrite | None:
        """Acknowledge records of a member. Return the write that must be given to `store`; None if the answer is already known."""
        self._changes.made = True
        outcome = self._submit(led, asked, now)
        if outcome.error_code or outcome.write is None:
            answered(outcome.error_code, outcome.error_message)
            return None
        return PendingWrite(led, outcome.write, answered)

    def store(self, group_id: str, writes: Sequence[PendingWrite]) -> None:
        """Write the states of share partitions of a group in one request to each share coordinator."""
        states = []
        for led, write, _ in writes:
            led.writes += 1
            _, topic_id, index = led.key
            _, state_epoch, leader_epoch, start_offset, complete, batches = write
            states.append(WriteState(topic_id, index, state_epoch, leader_epoch, start_offset, complete, batches))
        self._persister.write(group_id, states, partial(self._on_written, writes))

    def release(self, sessions: Sequence[ShareSession]) -> None:
        """Release the records that the members of ended sessions have acquired, and stop watching their partitions."""
        for session in sessions:
            held = [led for place in session.held.values() if (led := self._stop_watching(session, place)) is not None]
            for led in held:
                led.releasing.setdefault(session.member_id, False)
            self._ended.append((session, held))
        self._scheduler.begin("share sessions end", self._release_slowly(), urgent=True)

    def _release_slowly(self) -> Steps[None]:
        while self._ended:
            session, held = self._ended.popleft()
            yield from self._release(session, held)
            yield None

    def _release(self, session: ShareSession, left: Sequence[LedSharePartition]) -> Steps[None]:
        """Release the records of a member in share partitions, with pauses. Releases between two pauses are stored together."""
        cost, writes, released = 0, list[PendingWrite](), list[LedSharePartition]()
        for led in left:
            first_offset: int | None = 0
            while first_offset is not None and led.machine.status is ShareStatus.ACTIVE:
                outcome = self._submit(led, ReleaseMember(session.member_id, first_offset), self._scheduler.now())
                first_offset = outcome.next_offset
                if outcome.write is not None:
                    writes.append(PendingWrite(led, outcome.write, None))
                cost += len(outcome.changes) + PLACE_COST if first_offset is None else RUNS_AT_ONCE
                if cost >= RUNS_AT_ONCE:
                    self._end_release(session, released, writes)
                    cost, writes, released = 0, [], []
                    yield None
            released.append(led)
        self._end_release(session, released, writes)

    def _end_release(self, session: ShareSession, released: Sequence[LedSharePartition], writes: Sequence[PendingWrite]) -> None:
        """Store the releases. In the share partitions of `released`, all is released, and the member can acquire records again."""
        if writes:
            self.store(session.group_id, writes)
        for led in released:
            if led.releasing.pop(session.member_id, False):
                self.mark_due(led)
            self._drop_unused(led)

    def _stop_watching(self, session: ShareSession, place: SharedPlace) -> LedSharePartition | None:
        """Return the share partition at a place of a session, which no longer fetches it; None if it is not loaded."""
        led = self._led.get((session.group_id, *place.key))
        if led is not None:
            led.watchers.pop(place, None)
        return led

    def forget(self, session: ShareSession, places: Iterable[SharedPlace]) -> None:
        """Stop watching partitions that a session no longer fetches. The member keeps the records that it has acquired in them."""
        for place in places:
            led = self._stop_watching(session, place)
            if led is not None:
                self._drop_unused(led)

    def mark_due(self, led: LedSharePartition) -> None:
        """Make a share partition due in the sessions that fetch it, and wake their waiting fetches. Many are woken a bit later."""
        if len(led.watchers) <= WOKEN_AT_ONCE:
            self._wake(led.watchers.items())
            return
        if not self._due:
            self._scheduler.at("due share partitions", self._scheduler.now().mono_ms + PAUSE_MS, self._wake_many)
        self._due[led] = None

    def _wake(self, watchers: Iterable[tuple[SharedPlace, ShareSession]]) -> None:
        for place, session in watchers:
            session.due[place] = None
            self._purgatory.wake(session.key)

    def _wake_many(self, now: Now) -> None:
        self._scheduler.begin("due share partitions", self._wake_slowly(), urgent=True)

    def _wake_slowly(self) -> Steps[None]:
        """Make share partitions with many sessions due, with pauses. Whatever changes in one meanwhile makes it due once more."""
        while self._due:
            led = next(iter(self._due))
            del self._due[led]
            watchers = list(led.watchers.items())
            for start in range(0, len(watchers), WOKEN_AT_ONCE):
                self._wake(watchers[start : start + WOKEN_AT_ONCE])
                yield None

    def _submit(self, led: LedSharePartition, asked: ShareInput, now: Now) -> ShareOutcome:
        outcome = led.machine.submit(asked, now.mono_ms)
        if outcome.wakes:
            self.mark_due(led)
        self._arm(led)
        return outcome

    def _on_written(self, writes: Sequence[PendingWrite], results: Sequence[StateResult]) -> None:
        steps = self._finish_writes(writes, results)
        if sum(len(pending.write.batches) for pending in writes) <= RUNS_AT_ONCE:
            for _ in steps:
                pass
        else:
            self._scheduler.begin(object(), steps, urgent=True)

    def _finish_writes(self, writes: Sequence[PendingWrite], results: Sequence[StateResult]) -> Steps[None]:
        budget = Budget(RUNS_AT_ONCE)
        for pending, result in zip(writes, results, strict=True):
            self._finish_write(pending, result)
            yield from budget.spend(len(pending.write.batches) + PLACE_COST)

    def _finish_write(self, pending: PendingWrite, result: StateResult) -> None:
        led, write, answered = pending
        led.writes -= 1
        error_code, message = client_error(result.error_code), result.error_message
        if not led.is_dropped:
            outcome = self._submit(led, WriteResult(write.token, result.error_code), self._scheduler.now())
            error_code = outcome.error_code
            if result.error_code in FENCING_ERRORS:
                sentence = "%s is fenced (%s): its state is read again"
                log.info(sentence, led, error_name(result.error_code), extra={"cause": "share partition"})
                self._drop(led)
            else:
                self._drop_unused(led)
        if answered is not None:
            answered(error_code, message)

    def _store_own(self, led: LedSharePartition, outcome: ShareOutcome) -> None:
        """Store a change that no member waits for."""
        if outcome.write is not None:
            self.store(led.key[0], [PendingWrite(led, outcome.write, None)])

    # Locks

    def _arm(self, led: LedSharePartition) -> None:
        """Set the timer of a share partition's acquisition locks, unless it is set already for an earlier time."""
        deadline_ms = led.machine.next_deadline_ms
        if deadline_ms is not None and (led.lock_timer_ms is None or deadline_ms < led.lock_timer_ms):
            led.lock_timer_ms = deadline_ms
            self._scheduler.at(("acquisition locks", led), deadline_ms, partial(self._expire, led))

    def _expire(self, led: LedSharePartition, now: Now) -> None:
        led.lock_timer_ms = None
        deadline_ms = led.machine.next_deadline_ms
        if deadline_ms is None or deadline_ms > now.mono_ms:  # the records of the first lock were acknowledged in time
            self._arm(led)
            self._drop_unused(led)
            return
        self.counts.expired_locks += 1
        outcome = self._submit(led, ExpireLocks(), now)
        self._store_own(led, outcome)
        self._drop_unused(led)

    # Changes

    def on_change(self, partition: Partition) -> None:
        """Make the share partitions of a partition due, because its readable range may have changed."""
        for led in self._by_partition.get(partition, ()):
            self.mark_due(led)

    def on_resignation(self, partition: Partition) -> None:
        """Drop the share partitions of a partition that this broker does not lead any more, or has lost or deleted."""
        for led in list(self._by_partition.get(partition, ())):
            self._drop(led)

    def drop_group(self, group_id: str) -> None:
        """Drop the share partitions of a group, because the group or its offsets are deleted or altered."""
        for led in [led for key, led in self._led.items() if key[0] == group_id]:
            self._drop(led)

    def _drop_unused(self, led: LedSharePartition) -> None:
        if led.is_unused and not led.is_dropped:
            self._drop(led)

    def _drop(self, led: LedSharePartition) -> None:
        """Remove a share partition. The next read of a session that fetches it loads it again."""
        led.is_dropped = True
        led.machine.fence()
        del self._led[led.key]
        of_partition = self._by_partition[led.partition]
        del of_partition[led]
        if not of_partition:
            del self._by_partition[led.partition]
        self._scheduler.cancel(("acquisition locks", led))
        self._scheduler.drop(("share start offset", led))
        self.mark_due(led)
