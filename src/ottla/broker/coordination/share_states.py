"""The broker services for share coordinators, and the persister: the way of leaders and groups to them, here or on another broker.

Contains no rules of share states: `ottla.coord.share_state` decides, and `coordinators` loads shards with their partitions.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.broker.coordination.coordinators import CoordinatorKind, CoordinatorRooms, Coordinators
from ottla.broker.coordination.replay import stored_records
from ottla.broker.interbroker.channels import BrokerRequester
from ottla.broker.partitions.partition import Partition
from ottla.broker.scheduler import Scheduler
from ottla.broker.serving.parts import by_weight
from ottla.broker.settings import SettingsInForce
from ottla.cluster.image import NO_LEADER
from ottla.cluster.names import SHARE_STATE_TOPIC
from ottla.coord.coordinator_partitions import partition_of
from ottla.coord.runtime.shard import Shard
from ottla.coord.share_state.inputs import (
    MOST_BATCHES,
    DeleteState,
    InitializeState,
    ReadState,
    SharePartitionKey,
    SharePlace,
    StateOperation,
    StateRequest,
    StateResult,
    WriteState,
    divide_write,
)
from ottla.ports import Now
from ottla.wire.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    ERRORS,
    NONE,
    NOT_COORDINATOR,
    UNKNOWN_SERVER_ERROR,
)

if TYPE_CHECKING:
    from ottla.coord.share_state.inputs import ShareStateSettings, StatesDeleted
    from ottla.coord.share_state.machine import ShareStateMachine
    from ottla.coord.share_state.records import StateRecord
    from ottla.wire.schema import Message

log = logging.getLogger("ottla.broker")

PersistDone = Callable[[Sequence[StateResult]], None]
"""Callback with one result for each place, in the order of the places."""

OtherBroker = tuple[int, StateOperation, str]
"""Another broker, an operation and a group: at most one request of these is under way."""

LANE: Final = "share-states"
AT_ONCE: Final = 100
"""The most share partitions in one request, and the most that are sent between two pauses."""
PAUSE_MS: Final = 1
MOST_REQUESTS: Final = 20
"""The most requests to coordinators of this broker between two pauses. Each has a record, in about 0.1 ms."""
PATIENCE_MS: Final = 15_000
"""How long failed requests are repeated, in ms."""
FIRST_PAUSE_MS: Final = 20
LONGEST_PAUSE_MS: Final = 1_000
RETRIABLE: Final = frozenset((COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR))


class ShareStateShards(Coordinators["ShareStateMachine"]):
    """The share coordinators of this broker."""

    def index_of(self, key: str) -> int:
        """Return the partition of the topic that coordinates a share partition; -1 if the topic does not exist."""
        count = self.count
        return partition_of(key, count) if count else -1

    def place_of(self, key: str) -> tuple[int, int]:
        """Return the partition of the topic that coordinates a share partition, and its leader; -1 for what there is not."""
        topic = self._image.topics.get(SHARE_STATE_TOPIC)
        if topic is None:
            return -1, NO_LEADER
        index = partition_of(key, len(topic.partitions))
        return index, topic.partitions[index].leader

    def submit(self, index: int, body: StateRequest, answer: Callable[[Sequence[StateResult]], None], now: Now) -> None:
        """Pass a request to the coordinator on a partition, and call `answer` with its results, which can come at once."""
        shard = None if index < 0 else self._find(index)
        if shard is None:
            error_code = self._absence(index)
            answer([StateResult(error_code, ERRORS[error_code].sentence)] * len(body.places))
        else:
            shard.request(body, answer, now)


class ShareStateCoordinators:
    """The share coordinators of this broker (`coordinators`), and the `persister`, which reaches those of all brokers.

    The modules of machines are imported with the first coordinator, because many brokers never have one.
    """

    def __init__(
        self,
        rooms: CoordinatorRooms,
        settings: SettingsInForce,
        asker: BrokerRequester,
        node_id: int,
        *,
        is_alone: bool,
    ) -> None:
        """Create the share coordinators. `is_alone`: the metadata has all topics before coordinators are loaded."""
        kind = CoordinatorKind(
            SHARE_STATE_TOPIC,
            self._new_machine,
            _read,
            _refuse,
            loaded=self._on_load,
            left=self._stop_deletion,
            carry_out=self._execute,
            patience_ms=lambda: settings.value.share_coordinator_write_timeout_ms,
        )
        self.coordinators = ShareStateShards(kind, rooms)
        self.persister = SharePersister(self.coordinators, rooms.scheduler, asker, node_id)
        self._image = rooms.image
        self._partitions = rooms.partitions
        self._scheduler = rooms.scheduler
        self._settings = settings
        self._is_alone = is_alone
        self._deleted: dict[int, set[bytes]] = {}
        """The ids of deleted topics whose states are being deleted, by partition of the internal topic."""
        settings.told.append(self._settings_changed)

    def load(self) -> None:
        """Replay every partition of `__share_group_state`."""
        self.coordinators.load_at_once()

    def topics_deleted(self, names: Collection[str], topic_ids: Iterable[bytes], now: Now) -> None:
        """Delete the states of share partitions of deleted topics. If `__share_group_state` is deleted, unload all."""
        gone = frozenset(topic_ids)
        if SHARE_STATE_TOPIC in names:
            self._deleted.clear()
            self.coordinators.unload()
        for index in self.coordinators.indexes if gone else ():
            self._deleted.setdefault(index, set()).update(gone)
        for index, shard in self.coordinators.present() if gone else ():
            self._delete_states(shard, index, now)

    def _delete_states(self, shard: Shard[ShareStateMachine], index: int, now: Now) -> None:
        from ottla.coord.share_state.inputs import DeletedTopics

        gone = frozenset(self._deleted.get(index, ()))
        if not gone:
            self._deleted.pop(index, None)
        else:
            shard.submit(DeletedTopics(gone), now, partial(self._states_deleted, shard, index, gone))

    def _states_deleted(self, shard: Shard[ShareStateMachine], index: int, gone: frozenset[bytes], done: StatesDeleted) -> None:
        """Continue the deletion of states, or record its end. After an error, the next coordinator here continues it."""
        if done.error_code:
            return
        if done.are_more:
            at_ms = self._scheduler.now().mono_ms + 1
            self._scheduler.at(("states of deleted topics", index), at_ms, partial(self._delete_states, shard, index))
            return
        left = self._deleted.get(index, set())
        left -= gone
        if not left:
            self._deleted.pop(index, None)

    def _new_machine(self) -> ShareStateMachine:
        from ottla.coord.share_state.machine import ShareStateMachine

        return ShareStateMachine(self._state_settings(), self._partitions_of, self.coordinators.weight)

    def _partitions_of(self, topic_id: bytes) -> int:
        topic = self._image.topic_by_id(topic_id)
        return 0 if topic is None else len(topic.partitions)

    def _on_load(self, shard: Shard[ShareStateMachine], index: int, now: Now) -> None:
        partition = self._partitions.get(SHARE_STATE_TOPIC, index)
        assert partition is not None, "its records were just read"
        shard.machine.end_offset = lambda: partition.log.log_end_offset
        if shard.machine.states:
            log.info("%s: %d share partitions", shard.name, len(shard.machine.states))
        if self._is_alone:
            topic_ids = {key.topic_id for key in shard.machine.states}
            self._deleted.setdefault(index, set()).update(each for each in topic_ids if not self._partitions_of(each))
        self._delete_states(shard, index, now)

    def _stop_deletion(self, index: int) -> None:
        """Stop the deletion of states: the coordinator's new broker is notified of deleted topics itself."""
        self._deleted.pop(index, None)

    def _execute(self, partition: Partition, shard: Shard[ShareStateMachine], order: object) -> None:
        from ottla.coord.share_state.inputs import PruneLog

        assert isinstance(order, PruneLog), "share coordinators order nothing else"
        if order.offset > partition.log.log_start_offset:
            self._scheduler.begin(("prune", partition.key), self._partitions.checkpoints.begin_at({partition: order.offset}))

    def _settings_changed(self) -> None:
        """Apply changed settings from the next decision on."""
        for shard in self.coordinators.shards:
            shard.machine.configure(self._state_settings())

    def _state_settings(self) -> ShareStateSettings:
        from ottla.coord.share_state.inputs import ShareStateSettings

        return self._settings.part(ShareStateSettings)


def _read(partition: Partition) -> Iterator[StateRecord]:
    from ottla.coord.share_state.records import ShareStateReader

    return stored_records(partition, ShareStateReader())


def _refuse(body: object, error_code: int) -> object:
    """Return the reply to a request that no coordinator decides."""
    from ottla.coord.share_state.inputs import refuse

    return refuse(body, error_code)


class PersistCall:
    """One call of the persister. `done` gets the results when the last one is known."""

    __slots__ = ("_done", "_left", "_results")

    def __init__(self, count: int, done: PersistDone) -> None:
        self._results = [StateResult(UNKNOWN_SERVER_ERROR)] * count
        self._left = count
        self._done = done

    def finish(self, at: int, result: StateResult) -> None:
        """Record the result of the place with number `at`."""
        self._results[at] = result
        self._left -= 1
        if not self._left:
            self._done(self._results)


class StateQuestion:
    """An operation on one share partition, until its result is known. `finishes` are called with the result.

    `text` is the key that determines the coordinator. A write of many batches is divided: `place` is a part, and `later` follow it.
    """

    __slots__ = ("finishes", "key", "later", "operation", "pause_ms", "place", "text", "until_ms")

    def __init__(
        self,
        operation: StateOperation,
        key: SharePartitionKey,
        place: SharePlace,
        until_ms: int,
        finish: Callable[[StateResult], None],
    ) -> None:
        self.operation = operation
        self.key = key
        self.text = key.coordinator_key()
        parts: Sequence[SharePlace] = divide_write(place) if isinstance(place, WriteState) else (place,)
        self.place = parts[0]
        self.later = list(parts[1:])
        self.until_ms = until_ms
        self.pause_ms = FIRST_PAUSE_MS
        self.finishes = [finish]

    @property
    def batch_count(self) -> int:
        """Return the number of state batches to be stored next."""
        return len(self.place.batches) if isinstance(self.place, WriteState) else 0

    def join(self, later: StateQuestion) -> bool:
        """Take over the batches of a later write of the same epochs, if there is room. Return whether it was taken over.

        The start offset may not move back, because batches below the earlier one would stay.
        """
        ours, theirs = self.place, later.place
        if not isinstance(ours, WriteState) or not isinstance(theirs, WriteState):
            return False
        if self.later or later.later or ours[:4] != theirs[:4] or self.batch_count + later.batch_count > MOST_BATCHES:
            return False
        if theirs.start_offset >= 0 and not 0 <= ours.start_offset <= theirs.start_offset:
            return False
        self.place = ours._replace(
            start_offset=ours.start_offset if theirs.start_offset < 0 else theirs.start_offset,
            delivery_complete_count=theirs.delivery_complete_count,
            batches=(*ours.batches, *theirs.batches),
        )
        self.finishes += later.finishes
        return True


class SharePersister:
    """The persister: operations on the states of share partitions, by their coordinators on this broker or on another one.

    Callbacks get their results later, once these are durable. At most one operation of a share partition is under way, so that
    their order stays, and writes that wait meanwhile become one. Requests without a coordinator are repeated for `PATIENCE_MS`.
    """

    def __init__(self, coordinators: ShareStateShards, scheduler: Scheduler, asker: BrokerRequester, node_id: int) -> None:
        self._coordinators = coordinators
        self._scheduler = scheduler
        self._asker = asker
        self._node_id = node_id
        self._queues: dict[SharePartitionKey, deque[StateQuestion]] = {}
        """The questions about each share partition. The first one is ready, under way, or waits to be repeated."""
        self.ready: deque[StateQuestion] = deque()
        """The questions to send in the next `flush`."""
        self._without_topic: list[StateQuestion] = []
        self._waiting: dict[OtherBroker, list[StateQuestion]] = {}
        self._under_way: set[OtherBroker] = set()

    def initialize(self, group_id: str, places: Sequence[InitializeState], done: PersistDone) -> None:
        """Store the first state of share partitions."""
        self._begin(StateOperation.INITIALIZE, group_id, places, done)

    def read(self, group_id: str, places: Sequence[ReadState], done: PersistDone) -> None:
        """Read the states of share partitions, and fence writes of earlier leader epochs."""
        self._begin(StateOperation.READ, group_id, places, done)

    def write(self, group_id: str, places: Sequence[WriteState], done: PersistDone) -> None:
        """Store changes of the states of share partitions."""
        self._begin(StateOperation.WRITE, group_id, places, done)

    def delete(self, group_id: str, places: Sequence[DeleteState], done: PersistDone) -> None:
        """Delete the states of share partitions."""
        self._begin(StateOperation.DELETE, group_id, places, done)

    def read_summary(self, group_id: str, places: Sequence[ReadState], done: PersistDone) -> None:
        """Read the start offsets and epochs of share partitions."""
        self._begin(StateOperation.READ_SUMMARY, group_id, places, done)

    def _begin(self, operation: StateOperation, group_id: str, places: Sequence[SharePlace], done: PersistDone) -> None:
        now_ms = self._scheduler.now().mono_ms
        if not places:
            self._scheduler.at(object(), now_ms, lambda now: done(()))
            return
        call, until_ms = PersistCall(len(places), done), now_ms + PATIENCE_MS
        for at, place in enumerate(places):
            key = SharePartitionKey(group_id, place.topic_id, place.partition)
            question = StateQuestion(operation, key, place, until_ms, partial(call.finish, at))
            queue = self._queues.get(key)
            if queue is None:
                self._queues[key] = deque((question,))
                self._make_ready(question, now_ms)
            else:
                queue.append(question)

    def _make_ready(self, question: StateQuestion, now_ms: int) -> None:
        """Send a question in the next `flush`, which is called soon if the end of the present bundle does not call it."""
        if not self.ready:
            self._scheduler.at(self, now_ms, self.flush)
        self.ready.append(question)

    def flush(self, now: Now) -> None:
        """Send what is ready, in one request for each coordinator, operation and group. Much is sent in several steps."""
        self._scheduler.cancel(self)  # otherwise a timer would wake the broker for nothing
        here: dict[tuple[int, StateOperation, str], list[StateQuestion]] = {}
        elsewhere: set[OtherBroker] = set()
        for question in self._next_ready():
            other = self._route(question, here)
            if other is not None:
                self._waiting.setdefault(other, []).append(question)
                elsewhere.add(other)
            if len(here) >= MOST_REQUESTS:
                break
        for (index, operation, group_id), some in here.items():
            body = StateRequest(operation, group_id, [question.place for question in some])
            self._coordinators.submit(index, body, partial(self._finish_all, some), now)
        for other in elsewhere:
            if other not in self._under_way:
                self._send(other)
        if self._without_topic:
            self._scheduler.begin("topic of share states", self._coordinators.ensure(), self._on_topic, urgent=True)
        if self.ready:
            self._scheduler.at(self, now.mono_ms + PAUSE_MS, self.flush)

    def _route(
        self, question: StateQuestion, here: dict[tuple[int, StateOperation, str], list[StateQuestion]]
    ) -> OtherBroker | None:
        """Return the other broker that coordinates a question. Add a question of a coordinator on this broker to `here`."""
        index, node_id = self._coordinators.place_of(question.text)
        if index < 0:
            self._without_topic.append(question)
        elif node_id == self._node_id:
            here.setdefault((index, question.operation, question.key.group_id), []).append(question)
        elif node_id < 0:
            self._finish(question, _error_result(COORDINATOR_NOT_AVAILABLE))
        else:
            return node_id, question.operation, question.key.group_id
        return None

    def _next_ready(self) -> Iterator[StateQuestion]:
        """Remove and yield the questions of one step, each joined with those that wait behind it."""
        batch_count = 0
        for _ in range(min(len(self.ready), AT_ONCE)):
            if batch_count >= MOST_BATCHES:
                return
            question = self.ready.popleft()
            self._join_waiting(question)
            batch_count += question.batch_count
            yield question

    def _join_waiting(self, question: StateQuestion) -> None:
        queue = self._queues[question.key]
        while len(queue) > 1 and question.join(queue[1]):
            del queue[1]

    def _on_topic(self, error_code: int) -> None:
        """Continue the questions that waited for the topic."""
        waited, self._without_topic = self._without_topic, []
        for question in waited:
            if error_code:
                self._finish(question, _error_result(error_code))
            else:
                self._make_ready(question, self._scheduler.now().mono_ms)

    def _send(self, other: OtherBroker) -> None:
        """Send waiting questions of one operation and group to another broker."""
        from ottla.broker.coordination.share_messages import to_request

        node_id, operation, group_id = other
        questions = self._waiting.pop(other)
        sent = next(by_weight(questions[:AT_ONCE], lambda question: question.batch_count, MOST_BATCHES))
        if len(sent) < len(questions):
            self._waiting[other] = questions[len(sent) :]
        self._under_way.add(other)
        message: Message = to_request(operation, group_id, [question.place for question in sent])
        self._asker.request(node_id, message, partial(self._on_response, other, sent), lane=LANE)

    def _on_response(self, other: OtherBroker, sent: list[StateQuestion], response: Message | None) -> None:
        from ottla.broker.coordination.share_messages import results_of

        self._under_way.discard(other)
        if other in self._waiting:
            self._send(other)
        results = {} if response is None else results_of(other[1], response)
        lost = _error_result(COORDINATOR_NOT_AVAILABLE)
        self._finish_all(sent, [results.get(question.key[1:], lost) for question in sent])

    def _finish_all(self, questions: Sequence[StateQuestion], results: Sequence[StateResult]) -> None:
        for question, result in zip(questions, results, strict=True):
            self._finish(question, result)

    def _finish(self, question: StateQuestion, result: StateResult) -> None:
        """Report the result of a question, and begin the next one of its share partition; or repeat the question later."""
        if result.error_code in RETRIABLE:
            now_ms = self._scheduler.now().mono_ms
            if now_ms + question.pause_ms < question.until_ms:
                self._scheduler.at(question, now_ms + question.pause_ms, partial(self._repeat, question))
                question.pause_ms = min(2 * question.pause_ms, LONGEST_PAUSE_MS)
                return
        if question.later and not result.error_code:
            question.place = question.later.pop(0)
            self._make_ready(question, self._scheduler.now().mono_ms)
            return
        queue = self._queues[question.key]
        queue.popleft()
        if queue:
            self._make_ready(queue[0], self._scheduler.now().mono_ms)
        else:
            del self._queues[question.key]
        for finish in question.finishes:
            finish(result)

    def _repeat(self, question: StateQuestion, now: Now) -> None:
        self._make_ready(question, now.mono_ms)


def _error_result(error_code: int) -> StateResult:
    return StateResult(error_code, ERRORS[error_code].sentence if error_code != NONE else None)
