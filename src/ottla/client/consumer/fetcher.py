"""A consumer's partitions as a state machine: their positions, the fetches to send, and the chunks to return to the user.

Each broker has one fetch in flight at a time, for all its partitions without a buffered chunk, so that the next chunk arrives while
the user reads one. Records stay encoded. Leaders come from the metadata cache.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.client.connection.metadata import NO_LEADER, NO_TOPIC_ID, Metadata
from ottla.client.connection.versions import FETCH, SPOKEN
from ottla.client.consumer.fetch_requests import (
    NAMED_UNTIL,
    FetchedPartition,
    FetchLimits,
    FetchPosition,
    cut_short,
    fetch_request,
    read_fetch,
)
from ottla.client.consumer.visible_batches import visible
from ottla.client.errors import KafkaError, broker_error
from ottla.client.types import EARLIEST_TIMESTAMP, TopicPartition
from ottla.records.batches.columns import Columns
from ottla.records.batches.header import BadBatch
from ottla.wire import errors as codes
from ottla.wire.api.fetch import FetchRequest, FetchResponse

log = logging.getLogger("ottla.client")

UNKNOWN_OFFSET = -1
SHORT_WAIT_MS = 2
FIRST_PAUSE_MS = 5
UNREADABLE = "The broker's log is damaged here: repair the file that the broker's own log names, or seek past it."
RECREATED = "The topic was deleted and recreated, and the position belongs to the old topic: seek to a position in the new one."
UNREADABLE_07 = "No message begins at this position, or it is damaged: seek to the beginning of a message, such as the first one."


class Chunk(NamedTuple):
    """Fetched whole batches of one partition, up to the offset `next_offset`. They can begin before the requested `from_offset`.

    `record_count` is the number of records in all of these batches. `opened` are the records, if they are decoded already.
    """

    where: TopicPartition
    pieces: list[memoryview]
    from_offset: int
    next_offset: int
    record_count: int = 0
    opened: Sequence[Columns] = ()


@dataclass(slots=True)
class Reading:
    """The fetch state of one partition. `position` is the next offset for the user, `fetch_offset` the next offset to fetch.

    Each seek gives another `turn`, so that answers to fetches before the seek are ignored.
    """

    where: TopicPartition
    position: int = UNKNOWN_OFFSET
    fetch_offset: int = UNKNOWN_OFFSET
    reset_to: int | None = None
    paused: bool = False
    retiring: bool = False
    starting: bool = False
    """Whether a listener can still seek, so that no fetch begins."""
    turn: int = 0
    topic_id: bytes = NO_TOPIC_ID
    """The id of the topic to which the position belongs; `NO_TOPIC_ID` until the first answer to a fetch by topic id."""
    high_watermark: int = UNKNOWN_OFFSET
    last_stable_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    not_before_ms: int = 0
    pause_ms: int = 0
    buffered: int = 0
    preferred_replica: int = NO_LEADER
    """The node id of a closer replica, from which the partition is fetched until `preferred_until_ms`; -1 without one (KIP-392)."""
    preferred_until_ms: int = 0


class PlannedFetch(NamedTuple):
    """A Fetch request to send to `node_id`. Pass this object back with the answer."""

    node_id: int
    request: FetchRequest
    turns: dict[TopicPartition, int]
    ids: dict[str, bytes]
    """The topics' ids by name: newer versions of the answer contain ids only."""

    def version(self, highest: int) -> int:
        """Return the version to send. `highest` is the highest version that the broker and this client share."""
        return min(highest, NAMED_UNTIL) if NO_TOPIC_ID in self.ids.values() else highest


@dataclass(slots=True)
class Fetcher:
    """The state machine that fetches batches of the assigned partitions, without sockets.

    `reset_timestamp` gives the new position when a position is out of range. With None, such a position is an error.
    """

    metadata: Metadata
    limits: FetchLimits
    reset_timestamp: int | None = None
    check_crcs: bool = True
    control: bool = False
    """Whether control batches are handed out, too."""
    retry_backoff_ms: int = 100
    missing_patience_ms: int = 60_000
    """The time, in ms, for which a missing partition is no error: brokers receive new topics at different times."""
    longest_pause_ms: int = 0
    """The longest pause, in ms, after a fetch without records. Only brokers of Kafka 0.7 need one, because they do not wait."""
    preference_ms: int = 300_000
    """The time, in ms, for which a closer replica is used before the leader is queried again."""
    unreadable: str = UNREADABLE
    """The advice to users in errors about unreadable messages."""
    wants_metadata: set[str] = field(default_factory=set)
    failure: KafkaError | None = None
    _readings: dict[TopicPartition, Reading] = field(default_factory=dict)
    _chunks: deque[Chunk] = field(default_factory=deque)
    _in_flight: set[int] = field(default_factory=set)
    _turns: int = 0
    """The last turn of any partition. A partition that was removed and added again never gets an earlier turn of its own."""
    _waits: dict[int, int] = field(default_factory=dict)
    _errors: dict[TopicPartition, KafkaError] = field(default_factory=dict)
    _raised: set[TopicPartition] = field(default_factory=set)
    """The partitions whose current error was raised, and which are fetched again."""
    _last_raised: dict[TopicPartition, str] = field(default_factory=dict)
    """The text of each partition's last raised error, kept while the error lasts."""
    _missing_since_ms: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def partitions(self) -> Iterable[TopicPartition]:
        return self._readings.keys()

    def state_of(self, where: TopicPartition) -> Reading:
        """Return the state of an assigned partition. Raises `KafkaError` for a partition that is not assigned."""
        try:
            return self._readings[where]
        except KeyError:
            raise KafkaError(f"{where.topic}-{where.partition} is not assigned to this consumer.") from None

    def add(self, partitions: Iterable[TopicPartition]) -> None:
        """Add these partitions. Each is fetched after `start`, once `seek` or `reset` has set its position."""
        for where in partitions:
            self._readings.setdefault(where, Reading(where, starting=True))

    def start(self, partitions: Iterable[TopicPartition]) -> None:
        """Begin to fetch partitions that were added, except for partitions that were removed since."""
        for where in partitions:
            if where in self._readings:
                self._readings[where].starting = False

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop reading these partitions, and drop their buffered chunks."""
        for where in partitions:
            if self._readings.pop(where, None) is not None:
                self._drop_chunks(where)
                self._missing_since_ms.pop(where, None)
                self._clear_error(where)

    def _drop_chunks(self, where: TopicPartition) -> None:
        self._chunks = deque(chunk for chunk in self._chunks if chunk.where != where)

    def fail(self, where: TopicPartition, error: KafkaError) -> None:
        """Make `next_chunk` raise `error` for a partition, until a seek or a successful fetch of the partition."""
        self._errors[where] = error
        self._raised.discard(where)

    def _clear_error(self, where: TopicPartition) -> None:
        if self._errors.pop(where, None) is not None:
            self._raised.discard(where)
            self._last_raised.pop(where, None)

    def error(self, where: TopicPartition) -> KafkaError | None:
        """Return the error that `next_chunk` raises for a partition, or None."""
        return self._errors.get(where)

    def seek(self, where: TopicPartition, offset: int) -> None:
        """Set the position of a partition to `offset`."""
        reading = self._restart(where)
        reading.position = reading.fetch_offset = offset

    def retire(self, where: TopicPartition) -> Reading:
        """Stop fetching a partition that is about to be revoked, and return none of its records to the user. Keep its position."""
        reading = self.state_of(where)
        position = reading.position
        self._restart(where)
        reading.position = position
        reading.retiring = True
        return reading

    def reset(self, where: TopicPartition, timestamp: int) -> None:
        """Continue at the offset for `timestamp`, or at an end of the log, once the driver has looked up this offset."""
        self._restart(where).reset_to = timestamp

    def _restart(self, where: TopicPartition) -> Reading:
        reading = self.state_of(where)
        self._drop_chunks(where)
        self._clear_error(where)
        reading.position = reading.fetch_offset = UNKNOWN_OFFSET
        reading.reset_to = None
        reading.topic_id = NO_TOPIC_ID
        self._turns += 1
        reading.turn = self._turns
        reading.buffered = 0
        return reading

    def to_reset(self) -> dict[TopicPartition, int]:
        """Return the partitions that need a new offset, each with the timestamp for which the caller must look up an offset."""
        return {reading.where: reading.reset_to for reading in self._readings.values() if reading.reset_to is not None}

    def pause(self, partitions: Iterable[TopicPartition], *, paused: bool = True) -> None:
        """Pause partitions, or resume them with `paused=False`.

        Paused partitions are not fetched, and their records are not returned to the user.
        """
        for where in partitions:
            self.state_of(where).paused = paused

    def is_paused(self, where: TopicPartition) -> bool:
        """Return whether an assigned partition is paused. Any thread may call this."""
        reading = self._readings.get(where)
        return reading is not None and reading.paused

    def paused_partitions(self) -> set[TopicPartition]:
        return {reading.where for reading in self._readings.values() if reading.paused}

    def fetches(self, now_ms: int) -> list[PlannedFetch]:
        by_node: dict[int, dict[TopicPartition, FetchPosition]] = {}
        turns: dict[TopicPartition, int] = {}
        full: set[int] = set()
        for reading in self._readings.values():
            node_id = self._source(reading, now_ms)
            if not self._may_fetch(reading, now_ms):
                if reading.buffered:
                    full.add(node_id)
            elif node_id == NO_LEADER:
                self._request_leader(reading.where, now_ms)
            elif self._was_recreated(reading):
                self._begin_anew(reading)
            elif node_id not in self._in_flight:
                epoch = self.metadata.leader_epoch(*reading.where)
                by_node.setdefault(node_id, {})[reading.where] = FetchPosition(reading.fetch_offset, epoch)
                turns[reading.where] = reading.turn
        self._in_flight.update(by_node)
        made = []
        for node_id, wanted in by_node.items():
            ids = {topic: self.metadata.topic_id(topic) for topic in {where.topic for where in wanted}}
            request = fetch_request(wanted, self.limits, self._max_wait_ms(node_id, node_id in full), ids)
            made.append(PlannedFetch(node_id, request, {where: turns[where] for where in wanted}, ids))
        return made

    def _source(self, reading: Reading, now_ms: int) -> int:
        """Return the node id of the broker to fetch from: the closer replica that the leader named, or the leader, or -1."""
        if reading.preferred_until_ms > now_ms and reading.preferred_replica in self.metadata.nodes:
            return reading.preferred_replica
        reading.preferred_replica = NO_LEADER
        return self.metadata.leader(*reading.where)

    def _was_recreated(self, reading: Reading) -> bool:
        """Return whether the topic was deleted after the position was set, and another topic of the same name was created.

        Return False unless both topic ids are known. An older broker of a cluster that is being upgraded returns no topic ids.
        """
        known = self.metadata.topic_id(reading.where.topic)
        return known != reading.topic_id and NO_TOPIC_ID not in (known, reading.topic_id)

    def _begin_anew(self, reading: Reading) -> None:
        """Continue at the beginning of the recreated topic, because all its records are new.

        Without a `reset_timestamp`, make `next_chunk` raise an error instead.
        """
        topic, partition = reading.where
        if self.reset_timestamp is None:
            self.fail(reading.where, broker_error(codes.OFFSET_OUT_OF_RANGE, f"Fetching {topic}-{partition}", RECREATED))
            return
        log.warning("%s-%d: the topic was deleted and recreated: reading from its beginning", topic, partition)
        self.reset(reading.where, EARLIEST_TIMESTAMP)

    def _request_leader(self, where: TopicPartition, now_ms: int) -> None:
        self.wants_metadata.add(where.topic)
        code = self.metadata.partition_error(*where)
        error = broker_error(code, f"Fetching {where.topic}-{where.partition}")
        if code != codes.UNKNOWN_TOPIC_OR_PARTITION:
            self._missing_since_ms.pop(where, None)
            if code != codes.NONE and not error.retriable:
                self.fail(where, error)
        elif now_ms - self._missing_since_ms.setdefault(where, now_ms) >= self.missing_patience_ms and where not in self._errors:
            self.fail(where, error)

    def _max_wait_ms(self, node_id: int, some_are_full: bool) -> int:
        """Return how long the broker may wait, in ms: only shortly if partitions with buffered chunks are left out."""
        longest = self.limits.fetch_max_wait_ms
        if not some_are_full:
            return longest
        wait_ms = min(self._waits.get(node_id, SHORT_WAIT_MS), longest)
        self._waits[node_id] = wait_ms * 2
        return wait_ms

    def _may_fetch(self, reading: Reading, now_ms: int) -> bool:
        return (
            reading.fetch_offset != UNKNOWN_OFFSET
            and not reading.buffered
            and not reading.paused
            and not (reading.retiring or reading.starting)
            and (reading.where not in self._errors or reading.where in self._raised)
            and reading.not_before_ms <= now_ms
        )

    def on_answer(self, fetch: PlannedFetch, answer: FetchResponse, now_ms: int, version: int = SPOKEN[FETCH][1]) -> None:
        """Process the answer to `fetch`, which was sent in this `version`."""
        self._in_flight.discard(fetch.node_id)
        if answer.error_code:
            self._back_off(fetch.turns, now_ms)
            error = broker_error(answer.error_code, "Fetching")
            self.failure = None if error.retriable else error
            return
        for node in answer.node_endpoints:
            self.metadata.set_address(node.node_id, node.host, node.port)
        try:
            for found in read_fetch(answer, version, fetch.ids):
                reading = self._readings.get(found.where)
                if reading is not None and reading.turn == fetch.turns.get(found.where):
                    if version > NAMED_UNTIL and not found.error_code:
                        reading.topic_id = fetch.ids[found.where.topic]
                    if found.error_code and reading.preferred_replica == fetch.node_id:
                        reading.preferred_replica = NO_LEADER  # the leader decides, since a follower can lag behind
                        reading.preferred_until_ms = 0
                    elif found.preferred_read_replica != NO_LEADER and not found.error_code:
                        reading.preferred_replica = found.preferred_read_replica
                        reading.preferred_until_ms = now_ms + self.preference_ms
                    else:
                        self._store(reading, found, now_ms)
        except BadBatch as error:
            self._back_off(fetch.turns, now_ms)
            self.failure = broker_error(codes.CORRUPT_MESSAGE, "Fetching", str(error))

    def broken(self, fetch: PlannedFetch, now_ms: int) -> None:
        """Process the loss of the answer to `fetch`: retry after a pause, with fresh metadata."""
        self._in_flight.discard(fetch.node_id)
        self.wants_metadata.update(where.topic for where in fetch.turns)
        for where in fetch.turns:
            if where in self._readings and self._readings[where].preferred_replica == fetch.node_id:
                self._readings[where].preferred_until_ms = 0
        self._back_off(fetch.turns, now_ms)

    def _back_off(self, partitions: Iterable[TopicPartition], now_ms: int) -> None:
        for where in partitions:
            if where in self._readings:
                self._readings[where].not_before_ms = now_ms + self.retry_backoff_ms

    def _store(self, reading: Reading, found: FetchedPartition, now_ms: int) -> None:
        if found.error_code:
            leader = found.current_leader
            if leader is None or not self.metadata.set_leader(*reading.where, leader.leader_id, leader.leader_epoch):
                self._on_error(reading, found.error_code, now_ms)
            return
        reading.high_watermark, reading.log_start_offset = found.high_watermark, found.log_start_offset
        reading.last_stable_offset = found.last_stable_offset
        if found.cut_short:
            self._unreadable(reading, cut_short(reading.where, reading.fetch_offset, self.limits), now_ms)
            return
        try:
            seen = visible(found.records, found.aborted, check_crcs=self.check_crcs, control=self.control)
        except BadBatch as error:
            context = f"Fetching {reading.where.topic}-{reading.where.partition}"
            self._unreadable(reading, broker_error(codes.CORRUPT_MESSAGE, context, str(error)), now_ms)
            return
        self._clear_error(reading.where)
        if seen.next_offset is None or seen.next_offset <= reading.fetch_offset:
            reading.pause_ms = min(max(FIRST_PAUSE_MS, 2 * reading.pause_ms), self.longest_pause_ms)
            reading.not_before_ms = max(reading.not_before_ms, now_ms + reading.pause_ms)
            return
        reading.pause_ms = 0
        chunk = Chunk(reading.where, seen.pieces, reading.fetch_offset, seen.next_offset, seen.record_count)
        reading.fetch_offset = seen.next_offset
        reading.buffered += 1
        self._chunks.append(chunk)
        # Brokers fill answers from the front. Therefore a partition with records moves to the end of the next request.
        self._readings[reading.where] = self._readings.pop(reading.where)

    def _unreadable(self, reading: Reading, error: KafkaError, now_ms: int) -> None:
        """Store the error of an unreadable partition. It is fetched again after a pause, once `next_chunk` has raised the error."""
        reading.not_before_ms = now_ms + self.retry_backoff_ms
        self.fail(reading.where, error)

    def _on_error(self, reading: Reading, code: int, now_ms: int) -> None:
        sentence = self.unreadable if code == codes.CORRUPT_MESSAGE else None
        context = f"Fetching {reading.where.topic}-{reading.where.partition} from offset {reading.fetch_offset}"
        error = broker_error(code, context, sentence)
        reading.not_before_ms = now_ms + self.retry_backoff_ms
        if code == codes.OFFSET_OUT_OF_RANGE and self.reset_timestamp is not None:
            self.reset(reading.where, self.reset_timestamp)
        elif error.retriable and code != codes.CORRUPT_MESSAGE:  # a retry does not mend a damaged record
            self.metadata.forget_leader(*reading.where)
            self.wants_metadata.add(reading.where.topic)
        else:
            self.fail(reading.where, error)

    def next_chunk(self) -> Chunk | None:
        """Return the next chunk for the user, or None. Raise the error of a partition that cannot be fetched.

        While the error lasts, later calls raise it again when there is no chunk.
        """
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        self._raise_error(self._is_new)
        chunk = self._next_chunk()
        if chunk is None:
            self._raise_error(lambda where: True)
        return chunk

    def additional_chunk(self) -> Chunk | None:
        """Return the next chunk to append to records that the caller already has, or None.

        Raise no error, because the caller would lose its records. The next `next_chunk` raises the error.
        """
        if self.failure is not None or any(self._is_new(where) for where in self._errors):
            return None
        return self._next_chunk()

    def _next_chunk(self) -> Chunk | None:
        for index, chunk in enumerate(self._chunks):
            reading = self._readings[chunk.where]
            if not reading.paused:
                del self._chunks[index]
                self._waits.clear()
                reading.buffered -= 1
                reading.position = chunk.next_offset
                return chunk
        return None

    def _is_new(self, where: TopicPartition) -> bool:
        """Return whether the error of a partition was not raised yet. An old error does not delay records of other partitions."""
        return self._last_raised.get(where) != str(self._errors[where]) and not self._readings[where].paused

    def _raise_error(self, wanted: Callable[[TopicPartition], bool]) -> None:
        """Raise, and remember, the first error whose partition is `wanted`. Errors of paused partitions wait."""
        for where, error in self._errors.items():
            if wanted(where) and not self._readings[where].paused:
                self._raised.add(where)
                self._last_raised[where] = str(error)
                raise error.with_traceback(None)

    @property
    def idle(self) -> bool:
        """Return whether `next_chunk` has neither a chunk to return nor an error to raise."""
        return self.failure is None and not self._chunks and not self._errors

    def next_wake_ms(self, now_ms: int) -> int | None:
        """Return the time, in ms, at which the next back-off ends, or None."""
        times = [reading.not_before_ms for reading in self._readings.values() if reading.not_before_ms > now_ms]
        return min(times, default=None)
