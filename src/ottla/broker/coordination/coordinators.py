"""The coordinators of one kind, each on one partition of its internal topic: found by key, loaded, asked, settled.

Joins the shards of `ottla.coord.runtime` to the broker's partitions. Knows no kind of coordinator and no log format.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, Never, TypeVar

from ottla.broker.coordination.replay import CHUNK_BYTES
from ottla.broker.failures import Changes
from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.scheduler import Scheduler
from ottla.broker.serving.purgatory import DelayedReply, Reply
from ottla.broker.serving.request import Peer, Ready, Request
from ottla.cluster.decision import Decision
from ottla.cluster.image import ClusterImage
from ottla.coord.partitioning import partition_of
from ottla.coord.runtime.machine import KeyAndValue, Shown, WrittenBy, everything
from ottla.coord.runtime.shard import M, Refuse, Shard
from ottla.ports import Done, Now, Steps, StorageFailed
from ottla.records.batches.builder import build
from ottla.records.batches.header import read_header
from ottla.wire.errors import (
    COORDINATOR_NOT_AVAILABLE,
    INVALID_PRODUCER_EPOCH,
    KAFKA_STORAGE_ERROR,
    NONE,
    NOT_COORDINATOR,
    NOT_LEADER_OR_FOLLOWER,
    UNKNOWN_SERVER_ERROR,
    error_name,
)
from ottla.wire.schema import Message

log = logging.getLogger("ottla.broker")

A = TypeVar("A")


CreateTopics = Callable[[Sequence[str], Now], Sequence[Decision]]


class PartitionLog:
    """A partition as a shard sees it."""

    __slots__ = ("_partition",)

    def __init__(self, partition: Partition) -> None:
        self._partition = partition

    @property
    def is_usable(self) -> bool:
        return not self._partition.leader_error()

    def append(self, records: Sequence[KeyAndValue], now: Now, producer: WrittenBy | None = None) -> int:
        """An error code that clients of coordinators understand, or NONE."""
        if self._partition.replicas is not None and self._partition.acks_error():
            return COORDINATOR_NOT_AVAILABLE
        keys, values = [key for key, _ in records], [value for _, value in records]
        if producer is None:
            batch = build(keys, values, now.wall_ms)
        else:
            producer_id, epoch = producer
            batch = build(keys, values, now.wall_ms, producer_id=producer_id, producer_epoch=epoch, transactional=True)
        error_code = self._partition.append(batch, (read_header(batch),), now, origin_client=False).error_code
        if error_code == INVALID_PRODUCER_EPOCH:
            return error_code
        if error_code in (NONE, KAFKA_STORAGE_ERROR, NOT_LEADER_OR_FOLLOWER):  # which the partition has told, if it is to be told
            return NOT_COORDINATOR if error_code else NONE
        sentence = "%s: its coordinator cannot store %d bytes of records (%s): check the settings of the topic"
        log.error(sentence, self._partition, len(batch), error_name(error_code), extra={"cause": "coordinator"})
        return UNKNOWN_SERVER_ERROR

    def when_durable(self, told: Callable[[int], None]) -> None:
        partition = self._partition
        error_code = partition.leader_error()
        if error_code:
            told(error_code)
        elif partition.replicas is None:
            partition.when_synced(partition.log.log_end_offset, told)
        else:
            partition.when_committed(partition.log.log_end_offset, told)


def _nothing(now: Now) -> None:
    """There is nothing to catch up with."""


def _no_orders(shard: object, partition: Partition, order: object) -> None:
    """Of machines that give none."""
    raise AssertionError(f"nobody carries out {order}")


def _unnoticed(shard: object, index: int, now: Now) -> None:
    """Nobody wants to know that a coordinator was loaded."""


def _unmissed(index: int) -> None:
    """Nobody wants to know that a coordinator has left this broker."""


@dataclass(frozen=True, slots=True)
class CoordinatorKind(Generic[M]):
    """What one kind of coordinator brings: its topic, its machine, and how what is stored is read and what is asked is refused.

    `catch_up(now)` is called before each decision, to tell machines what it rests on; `loaded(shard, index, now)` when a
    coordinator has read its records, and `left(index)` when it has gone to another broker; `carry_out(shard, partition, order)`
    when what it orders may be done. `shown_to(peer)` tells which topics a client may hear of; without it, of all.
    `patience_ms()` is how long replies wait for other replicas; without it, without an end.
    """

    topic: str
    new_machine: Callable[[], M]
    read: Callable[[Partition], Iterable[object]]
    refuse: Refuse
    catch_up: Callable[[Now], None] = _nothing
    loaded: Callable[[Shard[M], int, Now], None] = _unnoticed
    left: Callable[[int], None] = _unmissed
    carry_out: Callable[[Shard[M], Partition, object], None] = _no_orders
    shown_to: Callable[[Peer], Shown] | None = None
    patience_ms: Callable[[], int] | None = None


class Coordinators(Generic[M]):
    """The coordinators of one kind that this broker has: those of a lone broker, all of them, each loaded when it is first needed.

    `create(names, now)` creates topics with the settings of internal ones.
    """

    chunk_bytes = CHUNK_BYTES
    """How much of a log is read, and made records of, in one step."""

    def __init__(
        self,
        kind: CoordinatorKind[M],
        image: ClusterImage,
        create: CreateTopics,
        partitions: Partitions,
        scheduler: Scheduler,
        changes: Changes,
    ) -> None:
        self._kind = kind
        self._image = image
        self._create = create
        self._partitions = partitions
        self._scheduler = scheduler
        self._changes = changes
        self._held: dict[int, tuple[Partition, Shard[M]]] = {}
        self.gathering: dict[Shard[M], None] = {}
        """Those that have something for `settle` to append."""

    @property
    def topic(self) -> str:
        return self._kind.topic

    @property
    def count(self) -> int:
        """How many partitions the topic has; 0 if it is not there."""
        topic = self._image.topics.get(self._kind.topic)
        return 0 if topic is None else len(topic.partitions)

    @property
    def shards(self) -> list[Shard[M]]:
        """Those that are loaded now."""
        return [shard for _, shard in self._held.values() if shard.is_loaded]

    @property
    def indexes(self) -> Collection[int]:
        """The partitions on which this broker has a coordinator, or has one as soon as it is needed or loaded."""
        return range(self.count)

    def weight(self) -> int:
        """What those that are loaded take of memory that is bounded, in bytes."""
        weight = 0
        for _, shard in self._held.values():
            weight += shard.machine.weight
        return weight

    def load(self, now: Now) -> Iterator[tuple[int, Shard[M]]]:
        """Every coordinator by its partition, loaded if it is new. Those whose partition can't be used are left out."""
        for index in range(self.count):
            shard = self._find(index, now)
            if shard is not None:
                yield index, shard

    def of(self, partition: Partition, now: Now) -> Shard[M] | None:
        """The coordinator on this partition of the topic; None if that can't be used."""
        return self._find(partition.index, now)

    def unload(self) -> None:
        """End all of them: whoever waits for one looks for another."""
        held, self._held = self._held, {}
        for _, shard in held.values():
            shard.unload()

    def ensure(self, now: Now) -> int:
        """Make the topic if it is not there. The answer is an error code."""
        if self.count:
            return NONE
        (decision,) = self._create([self.topic], now)
        if decision.error_code and not self.count:
            why = decision.message or error_name(decision.error_code)
            log.error("%s cannot be made, and has no coordinator before it is: %s", self.topic, why, extra={"cause": self.topic})
        for _ in self.load(now):  # so that the first who asks does not wait for all of them
            pass
        return decision.error_code

    def machine_of(self, key: str, now: Now) -> M | None:
        """The machine that decides about `key`, to be looked at; None if it has no coordinator here."""
        count = self.count
        shard = self._find(partition_of(key, count), now) if count else None
        return None if shard is None else shard.machine

    def ask_one(
        self, key: str, body: object, request: Request[Message], finish: Callable[[A], Ready], *, blocking: bool = False
    ) -> Reply:
        """The reply that `finish` makes of what the coordinator of `key` answers to a request, or to a part of one."""
        answers: list[A] = []
        delayed = DelayedReply(partial(self._changes.attempted, lambda: finish(answers[0])), blocking=blocking)

        def answer(message: A) -> None:
            answers.append(message)
            delayed.happened()

        delayed.expect()
        self._ask(key, body, request, answer)
        return delayed.reply()

    def asked(self, key: str, body: object, request: Request[Message]) -> Steps[A]:
        """What the coordinator of `key` answers, in the midst of a job."""
        return _waited(partial(self._ask, key, body, request))

    def when_durable(self, key: str, now: Now, told: Callable[[int], None]) -> None:
        """Call `told(error_code)` once all that the coordinator of `key` has decided so far is durable, or never will be."""
        count = self.count
        shard = self._find(partition_of(key, count), now) if count else None
        if shard is None:
            told(NOT_COORDINATOR)
        else:
            shard.log.when_durable(told)

    def asked_of(self, shard: Shard[M], body: object, request: Request[Message]) -> Steps[A]:
        """What this coordinator answers, in the midst of a job. It may have come to its end meanwhile."""
        if shard.is_present:
            return _waited(partial(self._ask_shard, shard, body, request))
        return _waited(lambda answer: answer(self._kind.refuse(body, NOT_COORDINATOR)))  # type: ignore[arg-type]  # a reply to it

    def ask_several(
        self, parts: Iterable[tuple[str, object]], request: Request[Message], combine: Callable[[list[A]], Ready]
    ) -> Reply:
        """The reply that `combine` makes of what coordinators answer to the parts of a request, which are (key, part)."""
        return _combined(self._changes, (partial(self._ask, key, part, request) for key, part in parts), combine)

    def ask_each(self, body: object, request: Request[Message], finish: Callable[[A], Ready]) -> Iterator[Reply]:
        """The replies that `finish` makes of what every coordinator answers to a request, each asked when its turn comes."""

        def combine(answers: list[A]) -> Ready:
            return finish(answers[0])

        for _, shard in self.load(request.now):
            yield _combined(self._changes, (partial(self._ask_shard, shard, body, request),), combine)

    def settle(self, now: Now) -> None:
        """Append what a bundle of requests gathered: one batch for each coordinator, and one sync."""
        while self.gathering:
            self.gathering.popitem()[0].settle(now)

    def _ask(self, key: str, body: object, request: Request[Message], answer: Callable[[Never], None]) -> None:
        topic = self._image.topics.get(self._kind.topic)
        index = -1 if topic is None else partition_of(key, len(topic.partitions))
        shard = None if topic is None else self._find(index, request.now)
        if shard is None:
            answer(self._kind.refuse(body, self._absence(index)))  # type: ignore[arg-type]  # a request's refusal is a reply to it
        else:
            self._ask_shard(shard, body, request, answer)

    def _ask_shard(self, shard: Shard[M], body: object, request: Request[Message], answer: Callable[[Never], None]) -> None:
        peer = request.peer
        shown = everything if self._kind.shown_to is None else self._kind.shown_to(peer)
        shard.ask(body, answer, request.now, request.version, request.client_id or "", f"/{peer.host}", shown)
        if shard.gathered:
            self.gathering[shard] = None

    def _find(self, index: int, now: Now) -> Shard[M] | None:
        """The coordinator of a partition, loaded if it is new; None if its partition can't be used."""
        partition = self._partitions.get(self._kind.topic, index)
        held = self._held.get(index)
        if held is not None:
            if held[0] is partition and held[1].is_loaded and not partition.leader_error():
                return held[1]
            del self._held[index]
            held[1].unload()
        return None if partition is None or partition.leader_error() else self._load(partition, now)

    def node_of(self, key: str, here: int) -> int:
        """The broker that coordinates `key`, negative if none does now. All coordinators of a lone broker are `here`."""
        return here

    @property
    def loading_error(self) -> int:
        """COORDINATOR_LOAD_IN_PROGRESS if some of this broker's are not loaded yet. Those of a lone broker always are."""
        return NONE

    def _absence(self, index: int) -> int:
        """Why there is no coordinator on this partition, as an error code."""
        return NOT_COORDINATOR

    def _load(self, partition: Partition, now: Now) -> Shard[M] | None:
        shard = self._new_shard(partition)
        try:
            shard.load(self._kind.read(partition), now)
        except StorageFailed as failure:
            self._is_unreadable(partition, failure)
            return None
        self._hold(partition, shard, now)
        return shard

    def _new_shard(self, partition: Partition) -> Shard[M]:
        kind, own = self._kind, PartitionLog(partition)

        def carry_out(shard: Shard[M], order: object) -> None:
            kind.carry_out(shard, partition, order)

        machine = kind.new_machine()
        return Shard(str(partition), machine, own, self._scheduler, self._changes, kind.refuse, kind.catch_up, carry_out)

    def _hold(self, partition: Partition, shard: Shard[M], now: Now) -> None:
        self._held[partition.index] = partition, shard
        self._kind.loaded(shard, partition.index, now)

    def _is_unreadable(self, partition: Partition, failure: Exception) -> None:
        log.error("%s can't be read, so it has no coordinator: %s", partition, failure)


def _waited(ask: Callable[[Callable[[A], None]], None]) -> Steps[A]:
    """What is answered, once it is."""
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


def _combined(
    changes: Changes, asks: Iterable[Callable[[Callable[[A], None]], None]], combine: Callable[[list[A]], Ready]
) -> Reply:
    """The reply once all are answered, whose answers `combine` gets in the order of `asks`."""
    answers: dict[int, A] = {}
    finish = partial(changes.attempted, lambda: combine([answers[place] for place in sorted(answers)]))
    delayed = DelayedReply(finish, blocking=False)
    for place, ask in enumerate(asks):
        delayed.expect()
        ask(partial(_answered, answers, place, delayed))
    return delayed.reply()


def _answered(answers: dict[int, A], place: int, delayed: DelayedReply, message: A) -> None:
    answers[place] = message
    delayed.happened()
