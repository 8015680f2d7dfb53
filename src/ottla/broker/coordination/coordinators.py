"""The coordinators of one kind, each on one partition of its internal topic, loaded and unloaded with its leadership.

Connects the shards of `ottla.coord.runtime` to the broker's partitions. Independent of kinds of coordinators and of the log
format. Records are read in steps with pauses between them, so that a large partition delays no request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Generic, NamedTuple, Never, TypeVar

from ottla.broker.failures import Changes
from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.scheduler import Scheduler
from ottla.broker.serving.purgatory import DelayedReply, Reply
from ottla.broker.serving.request import Peer, Ready, Request
from ottla.cluster.decision import Decision
from ottla.cluster.image import NO_LEADER, ClusterImage
from ottla.coord.coordinator_partitions import partition_of
from ottla.coord.runtime.machine import KeyAndValue, Shown, WrittenBy, every_topic
from ottla.coord.runtime.shard import M, Refuse, Shard
from ottla.ports import Done, Now, Steps, StorageFailed
from ottla.records.batches.builder import build
from ottla.records.batches.header import read_header
from ottla.values import dataclass
from ottla.wire.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    INVALID_PRODUCER_EPOCH,
    KAFKA_STORAGE_ERROR,
    LEADER_NOT_AVAILABLE,
    NONE,
    NOT_COORDINATOR,
    NOT_LEADER_OR_FOLLOWER,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_OR_PARTITION,
    error_name,
)
from ottla.wire.schema import Message

log = logging.getLogger("ottla.broker")

A = TypeVar("A")

APPLIED_AT_ONCE: Final = 50
"""Records applied between two pauses."""
UNUSABLE: Final = (KAFKA_STORAGE_ERROR, NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION)
"""Errors of a partition that logs them itself, has moved to another broker, or was deleted."""

LOADING_POLL_MS: Final = 1
"""Interval, in ms, at which a request for a new topic checks whether its coordinators, whose logs are empty, are loaded."""


CreateTopic = Callable[[str], Steps[Decision]]


class PartitionLog:
    """The partition of an internal topic, with the methods by which a coordinator appends its records."""

    __slots__ = ("_partition", "_patience_ms")

    def __init__(self, partition: Partition, patience_ms: Callable[[], int] | None) -> None:
        self._partition = partition
        self._patience_ms = patience_ms

    @property
    def is_usable(self) -> bool:
        return not self._partition.leader_error()

    def append(self, records: Sequence[KeyAndValue], now: Now, producer: WrittenBy | None = None) -> int:
        """Append records, and return an error code that clients of coordinators support, or NONE."""
        if self._partition.replicas is not None and self._partition.acks_error():
            return COORDINATOR_NOT_AVAILABLE
        if len(records) == 1:  # without two loops
            ((key, value),) = records
            keys, values = [key], [value]
        else:
            keys, values = [key for key, _ in records], [value for _, value in records]
        if producer is None:
            batch = build(keys, values, now.wall_ms)
        else:
            producer_id, epoch = producer
            batch = build(keys, values, now.wall_ms, producer_id=producer_id, producer_epoch=epoch, transactional=True)
        error_code = self._partition.append(batch, (read_header(batch),), now, origin_client=False).error_code
        if not error_code or error_code == INVALID_PRODUCER_EPOCH:
            return error_code
        if error_code in UNUSABLE:
            return NOT_COORDINATOR
        sentence = "%s: its coordinator cannot store %d bytes of records (%s): check the settings of the topic"
        log.error(sentence, self._partition, len(batch), error_name(error_code), extra={"cause": "coordinator"})
        return UNKNOWN_SERVER_ERROR

    @property
    def patience_ms(self) -> int | None:
        """Return how long, in ms, replies wait for other replicas.

        Return None without a limit, or if there are no other replicas.
        """
        return None if self._patience_ms is None or self._partition.replicas is None else self._patience_ms()

    def when_durable(self, told: Callable[[int], None]) -> None:
        partition = self._partition
        error_code = partition.leader_error()
        if error_code:
            told(error_code)
        elif partition.replicas is None:
            partition.when_synced(partition.log.log_end_offset, told)
        else:
            partition.when_committed(partition.log.log_end_offset, told)


@dataclass(frozen=True, slots=True)
class CoordinatorKind(Generic[M]):
    """One kind of coordinator: its topic, its machine, the decoder of its records, and its refusals.

    Callbacks: `catch_up(now)` before each decision, to update machines; `loaded(shard, index, now)` when a coordinator has read its
    records; `left(index)` when a coordinator has moved to another broker; `carry_out(partition, shard, order)` when the work that a
    coordinator ordered may be done. `shown_to(peer)` filters the topics that a client may describe; if None, all are shown.
    `patience_ms()` returns how long replies wait for other replicas; if None, there is no limit.
    """

    topic: str
    new_machine: Callable[[], M]
    read: Callable[[Partition], Iterable[object]]
    refuse: Refuse
    catch_up: Callable[[Now], None] | None = None
    loaded: Callable[[Shard[M], int, Now], None] | None = None
    left: Callable[[int], None] | None = None
    carry_out: Callable[[Partition, Shard[M], object], None] | None = None
    shown_to: Callable[[Peer], Shown] | None = None
    patience_ms: Callable[[], int] | None = None


class CoordinatorRooms(NamedTuple):
    """The parts of the broker that coordinators of every kind use. `create(name)` creates an internal topic with its configs."""

    image: ClusterImage
    create: CreateTopic
    partitions: Partitions
    scheduler: Scheduler
    changes: Changes


class Coordinators(Generic[M]):
    """The coordinators of one kind on the partitions that this broker leads. A coordinator serves once its records are loaded.

    A coordinator's state is on all in-sync replicas before a reply reveals it, so that the next leader's coordinator has it too.
    """

    def __init__(self, kind: CoordinatorKind[M], rooms: CoordinatorRooms) -> None:
        self._kind = kind
        self._image, self._create, self._partitions, self._scheduler, self._changes = rooms
        self._held: dict[int, tuple[Partition, Shard[M]]] = {}
        self._loading: dict[int, Hashable] = {}
        """The loading jobs of partitions, by index."""
        self.gathering: dict[Shard[M], None] = {}
        """The coordinators with records for `append_gathered`."""

    @property
    def topic(self) -> str:
        return self._kind.topic

    @property
    def count(self) -> int:
        """Return the number of partitions of the topic; 0 if it does not exist."""
        topic = self._image.topics.get(self._kind.topic)
        return 0 if topic is None else len(topic.partitions)

    @property
    def shards(self) -> list[Shard[M]]:
        return [shard for _, shard in self._held.values() if shard.is_loaded]

    @property
    def indexes(self) -> Collection[int]:
        return self._held.keys() | self._loading.keys()

    def weight(self) -> int:
        """Return the memory of loaded coordinators that counts toward the broker's limit, in bytes."""
        weight = 0
        for _, shard in self._held.values():
            weight += shard.machine.weight
        return weight

    def present(self) -> Iterator[tuple[int, Shard[M]]]:
        """Yield (partition index, coordinator) for all loaded coordinators."""
        for index in range(self.count):
            shard = self._find(index)
            if shard is not None:
                yield index, shard

    def load_at_once(self) -> None:
        """Load the coordinators of all partitions that this broker leads without pauses: at startup, no request waits."""
        for index in range(self.count):
            partition = self._partitions.get(self.topic, index)
            if partition is not None and index not in self._held and not partition.leader_error():
                self._stop_loading(index)
                try:
                    for _ in self._loaded_slowly(partition):
                        pass
                except StorageFailed as failure:
                    self._on_load_failure(partition, failure)

    def of(self, partition: Partition) -> Shard[M] | None:
        """Return the coordinator on this partition of the topic; None if it is not loaded or the partition can't be used."""
        return self._find(partition.index)

    def unload(self) -> None:
        """Unload all coordinators, and complete their pending replies with NOT_COORDINATOR."""
        for index in list(self.indexes):
            self._drop(index)

    def ensure(self) -> Steps[int]:
        """Create the topic if it does not exist, and load its coordinators. Other requests are served meanwhile.

        Return NONE if the topic exists now, else COORDINATOR_NOT_AVAILABLE.
        """
        if self.count:
            return NONE
        decision = yield from self._create(self.topic)
        for _ in self.present():  # begins to load them
            pass
        while self._loading:
            yield self._scheduler.rest(LOADING_POLL_MS)
        if self.count:
            return NONE
        if decision.error_code != LEADER_NOT_AVAILABLE:  # the creation is in progress
            why = decision.message or error_name(decision.error_code)
            log.error("%s cannot be created, and has no coordinator until then: %s", self.topic, why, extra={"cause": self.topic})
        return COORDINATOR_NOT_AVAILABLE

    def machine_of(self, key: str) -> M | None:
        """Return the machine that decides about `key`, for reading only; None if its coordinator is not here."""
        count = self.count
        shard = self._find(partition_of(key, count)) if count else None
        return None if shard is None else shard.machine

    def request(
        self, key: str, body: object, request: Request[Message], finish: Callable[[A], Ready], *, blocking: bool = False
    ) -> Reply:
        """Pass a request `body` to the coordinator of `key`. Return the reply that `finish` makes from its response."""
        answers: list[A] = []
        delayed = DelayedReply(partial(self._changes.attempt, lambda: finish(answers[0])), blocking=blocking, missing=1)

        def answer(message: A) -> None:
            answers.append(message)
            delayed.count_down()

        self._route(key, body, request, answer)
        return delayed.reply()

    def request_steps(self, key: str, body: object, request: Request[Message]) -> Steps[A]:
        """Pass a request `body` to the coordinator of `key`, wait, and return the coordinator's response."""
        return wait_for_answer(partial(self._route, key, body, request))

    def when_durable(self, key: str, told: Callable[[int], None]) -> None:
        """Call `told(error_code)` once all decisions of the coordinator of `key` so far are durable, or have failed."""
        count = self.count
        shard = self._find(partition_of(key, count)) if count else None
        if shard is None:
            told(NOT_COORDINATOR)
        else:
            shard.log.when_durable(told)

    def requested_of(self, shard: Shard[M], body: object, request: Request[Message]) -> Steps[A]:
        """Pass a request `body` to the coordinator `shard`, wait, and return its response, even if it is unloaded meanwhile."""
        if shard.is_present:
            return wait_for_answer(partial(self._decide, shard, body, request))
        return wait_for_answer(lambda answer: answer(self._kind.refuse(body, NOT_COORDINATOR)))  # type: ignore[arg-type]  # a reply to it

    def request_several(
        self, parts: Iterable[tuple[str, object]], request: Request[Message], combine: Callable[[list[A]], Ready]
    ) -> Reply:
        """Pass each body in `parts` to the coordinator of its key. Return the reply that `combine` makes from all responses."""
        return _combine(self._changes, (partial(self._route, key, part, request) for key, part in parts), combine)

    def request_each(self, body: object, request: Request[Message], finish: Callable[[A], Ready]) -> Iterator[Reply]:
        """Pass a request to all loaded coordinators, one after another. Yield the reply that `finish` makes from each response."""

        def combine(answers: list[A]) -> Ready:
            return finish(answers[0])

        for _, shard in self.present():
            yield _combine(self._changes, (partial(self._decide, shard, body, request),), combine)

    def append_gathered(self, now: Now) -> None:
        """Append the records gathered in a batch of requests: one record batch for each coordinator, and one sync."""
        while self.gathering:
            self.gathering.popitem()[0].append_gathered(now)

    def _route(self, key: str, body: object, request: Request[Message], answer: Callable[[Never], None]) -> None:
        topic = self._image.topics.get(self._kind.topic)
        index = -1 if topic is None else partition_of(key, len(topic.partitions))
        shard = None if topic is None else self._find(index)
        if shard is None:
            answer(self._kind.refuse(body, self._absence(index)))  # type: ignore[arg-type]  # a request's refusal is a reply to it
        else:
            self._decide(shard, body, request, answer)

    def _decide(self, shard: Shard[M], body: object, request: Request[Message], answer: Callable[[Never], None]) -> None:
        peer = request.peer
        shown = every_topic if self._kind.shown_to is None else self._kind.shown_to(peer)
        shard.request(body, answer, request.now, request.version, request.client_id or "", f"/{peer.host}", shown)
        if shard.gathered:
            self.gathering[shard] = None

    def _find(self, index: int) -> Shard[M] | None:
        """Return the coordinator of a partition; None if this broker does not lead it, or is still loading it."""
        held = self._held.get(index)
        if held is not None and held[1].is_loaded and not held[0].leader_error():
            return held[1]
        partition = self._partitions.get(self._kind.topic, index)
        if partition is None or index in self._loading or partition.leader_error():
            return None
        self.on_election(partition)  # its log could not be read, or a failed append has unloaded the coordinator
        held = self._held.get(index)
        return None if held is None else held[1]

    def node_of(self, key: str) -> int:
        """Return the id of the broker that coordinates `key`; `NO_LEADER` if there is none."""
        topic = self._image.topics.get(self.topic)
        return NO_LEADER if topic is None else topic.partitions[partition_of(key, len(topic.partitions))].leader

    @property
    def loading_error(self) -> int:
        """Return COORDINATOR_LOAD_IN_PROGRESS if some coordinators of this broker are loading, else NONE."""
        return COORDINATOR_LOAD_IN_PROGRESS if self._loading else NONE

    def _absence(self, index: int) -> int:
        """Return the error code for a request to the partition `index`, whose coordinator is not loaded on this broker."""
        return COORDINATOR_LOAD_IN_PROGRESS if index in self._loading else NOT_COORDINATOR

    def on_election(self, partition: Partition) -> None:
        """Load the coordinator of a partition of which this broker has become the leader, or the leader in a new epoch."""
        index = partition.index
        held = self._held.get(index)
        if index in self._loading or (held is not None and held[0] is partition and held[1].is_loaded):
            return
        self._drop(index)
        name = self._loading[index] = ("load", self.topic, index, object())
        failed = partial(self._on_load_failure, partition)
        self._scheduler.begin(name, self._loaded_slowly(partition), failed=failed, urgent=True)

    def on_resignation(self, index: int) -> None:
        """Unload the coordinator of a partition that this broker no longer leads."""
        if self._drop(index):
            log.info("%s-%d: its coordinator has left this broker", self.topic, index)
        if self._kind.left is not None:
            self._kind.left(index)

    def _drop(self, index: int) -> bool:
        """Unload a coordinator, or stop its loading. Return whether it was loaded."""
        self._stop_loading(index)
        held = self._held.pop(index, None)
        if held is None:
            return False
        held[1].unload()
        self._scheduler.begin(held[1], held[1].machine.dissolve())
        return True

    def _stop_loading(self, index: int) -> None:
        name = self._loading.pop(index, None)
        if name is not None:
            self._scheduler.drop(name)

    def _loaded_slowly(self, partition: Partition) -> Steps[None]:
        """Load a coordinator from its log, including transaction markers that are appended meanwhile."""
        yield None
        shard = self._new_shard(partition)
        for count, record in enumerate(self._kind.read(partition), 1):
            shard.machine.apply(record)
            if not count % APPLIED_AT_ONCE:
                yield None
        self._loading.pop(partition.index, None)
        now = self._scheduler.now()
        shard.load((), now)
        self._held[partition.index] = partition, shard
        if self._kind.loaded is not None:
            self._kind.loaded(shard, partition.index, now)

    def _on_load_failure(self, partition: Partition, failure: Exception) -> None:
        self._loading.pop(partition.index, None)
        log.error("%s cannot be read, so it has no coordinator: %s", partition, failure)

    def _new_shard(self, partition: Partition) -> Shard[M]:
        kind, own = self._kind, PartitionLog(partition, self._kind.patience_ms)
        carry_out = None if kind.carry_out is None else partial(kind.carry_out, partition)
        machine = kind.new_machine()
        return Shard(str(partition), machine, own, self._scheduler, self._changes, kind.refuse, kind.catch_up, carry_out)


class CoordinatorMoves:
    """The callbacks that load or unload a coordinator as soon as this broker becomes, or no longer is, the leader of its partition.

    They run at once, because a coordinator must not outlive the leadership.
    """

    def __init__(self, coordinators: Iterable[Coordinators[Any]]) -> None:
        self._by_topic = {each.topic: each for each in coordinators}
        self.is_starting = False
        """Whether logs are still being opened at startup. Coordinators are loaded afterwards."""

    def on_election(self, partition: Partition) -> None:
        """Load the coordinator of a partition that this broker leads, newly or in a new leader epoch."""
        coordinators = self._by_topic.get(partition.topic)
        if coordinators is not None and not self.is_starting:
            coordinators.on_election(partition)

    def on_resignation(self, partition: Partition) -> None:
        """Unload the coordinator of a partition that this broker follows, has lost or has deleted."""
        coordinators = self._by_topic.get(partition.topic)
        if coordinators is not None:
            coordinators.on_resignation(partition.index)


def wait_for_answer(ask: Callable[[Callable[[A], None]], None]) -> Steps[A]:
    """Call `ask` with a callback, wait until the callback is called, and return its argument."""
    answers: list[A] = []
    waiting: list[Done] = []

    def answer(message: A) -> None:
        answers.append(message)
        if waiting:
            waiting.pop()(None)

    ask(answer)
    while not answers:
        yield waiting.append
    return answers[0]


def _combine(changes: Changes, asks: Iterable[Callable[[Callable[[A], None]], None]], combine: Callable[[list[A]], Ready]) -> Reply:
    """Call all `asks` with callbacks. Return the reply that `combine` makes from the responses, in the order of `asks`."""
    answers: dict[int, A] = {}
    finish = partial(changes.attempt, lambda: combine([answers[place] for place in sorted(answers)]))
    delayed = DelayedReply(finish, blocking=False)
    for place, ask in enumerate(asks):
        delayed.expect()
        ask(partial(_collect, answers, place, delayed))
    return delayed.reply()


def _collect(answers: dict[int, A], place: int, delayed: DelayedReply, message: A) -> None:
    answers[place] = message
    delayed.count_down()
