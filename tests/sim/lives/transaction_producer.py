"""A simulated transactional producer, of either version of the protocol, that writes or copies (KIP-98, KIP-890).

It follows the rules that producers have to follow, and is unlucky: it gives up batches that may still arrive, aborts with batches
on their way, stands still in the middle of anything. What its transactions hold goes into the ledger before it is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ottla.client.types import TopicPartition
from ottla.records.batches.builder import build
from ottla.sim.world import World
from ottla.wire import errors as codes
from ottla.wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.wire.api.end_txn import EndTxnRequest
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.api.txn_offset_commit import TxnOffsetCommitRequest
from tests.sim.lives.transaction_clients import (
    COORDINATOR,
    GROUP,
    LEADER,
    RETRIABLE,
    RETRY_MS,
    ClientEnded,
    Rest,
    Script,
    SimClient,
    SimRequest,
)
from tests.sim.lives.transaction_ledger import SimTransaction, TransactionLedger, valued

PRODUCE, INIT_PRODUCER_ID = 0, 22
ADD_PARTITIONS, ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT = 24, 25, 26, 28
INIT_VERSION, ADD_VERSION = 4, 3
MOST_TRIES = 3
MOST_RECORDS = 4
ABORTS, GIVES_UP, DAWDLES = 0.15, 0.08, 0.1
"""How often a producer aborts for no reason, does so with batches on their way, and takes its time between two requests."""


TOPIC_GONE = (codes.UNKNOWN_TOPIC_OR_PARTITION, codes.OPERATION_NOT_ATTEMPTED)
"""What is answered about partitions of a topic that was deleted, and about those beside them."""


class Protocol(NamedTuple):
    """The versions of requests that make a version of transactions. With `epochs` each transaction has one of its own."""

    epochs: bool
    produce: int
    offset_commit: int
    end: int


OLDER, NEWER = Protocol(False, 11, 3, 4), Protocol(True, 12, 5, 5)


class ProducerWish(NamedTuple):
    """What a producer process is."""

    transactional_id: str
    number: int
    timeout_ms: int
    protocol: Protocol


Batch = tuple[TopicPartition, bytearray]


class SimProducerProcess(SimClient):
    """A process that has a transactional id. Several may have the same one, of which the newest is the right one."""

    def __init__(self, world: World, connect: Any, ledger: TransactionLedger, wish: ProducerWish) -> None:
        self.ledger = ledger
        self.wish = wish
        self.producer_id = self.producer_epoch = -1
        self._count = 0
        self._sequences: dict[TopicPartition, int] = {}
        self._added: set[TopicPartition] = set()
        self._has_begun = False
        self._is_unsure = False
        super().__init__(world, f"{wish.transactional_id}.{wish.number}", connect)

    # The protocol

    @property
    def cuts(self) -> frozenset[str]:
        """Two transactions of the older protocol may have the same epoch: an end that comes late ends the wrong one (KIP-890)."""
        return frozenset() if self.wish.protocol.epochs else frozenset((COORDINATOR, GROUP))

    def init_request(self) -> tuple[int, InitProducerIdRequest]:
        """How it asks for an id and an epoch: version and body."""
        body = InitProducerIdRequest(
            transactional_id=self.wish.transactional_id,
            transaction_timeout_ms=self.wish.timeout_ms,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
        )
        return INIT_VERSION, body

    def initialise(self) -> Script:
        """Get an id and an epoch, or the next epoch (KIP-360); returns the answer."""
        wish = self.wish

        def watch(body: Any) -> Any:
            def seen(response: InitProducerIdResponse | None) -> None:
                has_kept = response is not None and response.ongoing_txn_producer_id >= 0
                if response is not None and not response.error_code and not has_kept:
                    self.ledger.initialised(wish.transactional_id, response.producer_id, response.producer_epoch)

            return seen

        version, body = self.init_request()
        ask = SimRequest(COORDINATOR, INIT_PRODUCER_ID, version, body, watch)
        response = yield from self.insist(ask, lambda answer: answer.error_code)
        self._goes_on_as(response.producer_id, response.producer_epoch)
        return response

    def _goes_on_as(self, producer_id: int, producer_epoch: int) -> None:
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self._sequences.clear()
        self._is_unsure = False

    def begin(self) -> SimTransaction:
        self._count += 1
        self._added.clear()
        self._has_begun = False
        return self.ledger.begin(f"{self.name}.{self._count}")

    def write(self, transaction: SimTransaction, wanted: Mapping[TopicPartition, Sequence[str]]) -> Script:
        """Write these values; returns whether all are acknowledged. A producer may give up what it has sent."""
        for place, values in wanted.items():
            transaction.sent.setdefault(place, []).extend(values)
        if not self.wish.protocol.epochs and not (yield from self._add(wanted)):
            return False
        self._has_begun = True
        chance = self.world.random
        left = [(place, self._batch(place, values)) for place, values in wanted.items() if values]
        if chance.random() < GIVES_UP:
            for ask in self._produces(left):
                self.send(ask)
            self._is_unsure = True
            return False
        for _ in range(MOST_TRIES):
            answers = yield self._produces(left)
            found = [codes.NOT_LEADER_OR_FOLLOWER if each is None else _produced(each) for each in answers]
            if any(code and code not in RETRIABLE for code in found):
                self._is_unsure = True
                return False
            left = [batch for batch, code in zip(left, found, strict=True) if code]
            if not left:
                return True
            yield Rest(chance.choice((RETRY_MS, 500)))
        self._is_unsure = True
        return False

    def _batch(self, place: TopicPartition, values: Sequence[str]) -> bytearray:
        sequence = self._sequences.get(place, 0)
        self._sequences[place] = sequence + len(values)
        return build(
            None,
            [value.encode() for value in values],
            self.world.clock.now().wall_ms,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=sequence,
            transactional=True,
        )

    def _produces(self, wanted: Sequence[Batch]) -> list[SimRequest]:
        asks = []
        for place, records in wanted:
            data = ProduceRequest.PartitionProduceData(index=place.partition, records=memoryview(records))
            topic = ProduceRequest.TopicProduceData(name=place.topic, partition_data=[data])
            body = ProduceRequest(transactional_id=self.wish.transactional_id, acks=-1, timeout_ms=1_000, topic_data=[topic])
            asks.append(SimRequest(LEADER, PRODUCE, self.wish.protocol.produce, body))
        return asks

    def _add(self, places: Mapping[TopicPartition, Any]) -> Script:
        """Make partitions part of the transaction; returns whether they are."""
        new = [place for place in places if place not in self._added]
        topics = [AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=each.topic, partitions=[each.partition]) for each in new]
        body = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.wish.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=topics,
        )
        ask = SimRequest(COORDINATOR, ADD_PARTITIONS, ADD_VERSION, body)
        if new and _added((yield from self.insist(ask, _added, *TOPIC_GONE))):
            return False
        self._added.update(new)
        return True

    def seat(self) -> dict[str, Any]:
        """As whom of a group it commits offsets: nobody, unless it is a member (KIP-447)."""
        return {}

    def commit_offsets(self, transaction: SimTransaction, group_id: str, offsets: Mapping[TopicPartition, int]) -> Script:
        """Make offsets part of the transaction; returns whether they are."""
        for place, offset in offsets.items():
            transaction.offsets[group_id, place] = offset
        wish = self.wish
        named: dict[str, Any] = {
            "transactional_id": wish.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
            "group_id": group_id,
        }
        seat = self.seat()
        if not wish.protocol.epochs:
            added = SimRequest(COORDINATOR, ADD_OFFSETS, ADD_VERSION, AddOffsetsToTxnRequest(**named))
            yield from self.insist(added, lambda answer: answer.error_code)
        self._has_begun = True
        parts = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
        topics = [
            TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                name=place.topic,
                partitions=[parts(partition_index=place.partition, committed_offset=offset, committed_metadata="")],
            )
            for place, offset in offsets.items()
        ]
        ask = SimRequest(
            GROUP, TXN_OFFSET_COMMIT, wish.protocol.offset_commit, TxnOffsetCommitRequest(**named, **seat, topics=topics)
        )
        refusals = (codes.TRANSACTION_ABORTABLE, codes.INVALID_TXN_STATE, codes.UNKNOWN_MEMBER_ID, codes.ILLEGAL_GENERATION)
        response = yield from self.insist(ask, _committed, *refusals)
        return not _committed(response)

    def end(self, transaction: SimTransaction, *, commits: bool) -> Script:
        """Commit or abort; returns whether it is committed."""
        if not self._has_begun:
            return False
        yield from self.decide(transaction, commits=commits)
        if not self.wish.protocol.epochs and self._is_unsure:
            yield from self.initialise()
        return commits

    def decide(self, transaction: SimTransaction, *, commits: bool) -> Script:
        """Have the coordinator commit or abort what is open."""

        def watch(body: Any) -> Any:
            transaction.may_commit |= commits

            def seen(response: Any) -> None:
                return None

            return seen

        body = EndTxnRequest(
            transactional_id=self.wish.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=commits,
        )
        ask = SimRequest(COORDINATOR, END_TXN, self.wish.protocol.end, body, watch)
        response = yield from self.insist(ask, lambda answer: answer.error_code, codes.INVALID_TXN_STATE)
        if response.error_code:
            raise ClientEnded("INVALID_TXN_STATE")
        transaction.is_committed |= commits
        if self.wish.protocol.epochs:
            self._goes_on_as(response.producer_id, response.producer_epoch)

    def dawdle(self) -> Script:
        """Take some time now and then."""
        if self.world.chance(DAWDLES):
            yield Rest(self.world.random.choice((10, 500, 3_000, 6_000)))


class SimWriter(SimProducerProcess):
    """One that writes some transactions of records that nobody has written before."""

    def __init__(
        self, world: World, connect: Any, ledger: TransactionLedger, wish: ProducerWish, places: Sequence[TopicPartition], most: int
    ) -> None:
        self._places = places
        self._left = most
        super().__init__(world, connect, ledger, wish)

    def take_up(self) -> Script:
        """Begin."""
        yield from self.initialise()

    def before_end(self, transaction: SimTransaction, *, commits: bool) -> None:
        """All is written, and what is to become of it is known."""

    def after_end(self) -> None:
        """The coordinator has done what it was asked to do."""

    def script(self) -> Script:
        chance = self.world.random
        yield from self.take_up()
        while self._left:
            self._left -= 1
            transaction = self.begin()
            is_whole = True
            for number in range(chance.randrange(1, 4)):
                places = chance.sample(self._places, chance.randrange(1, min(3, len(self._places)) + 1))
                payload = f"own{number}"
                count = chance.randrange(1, MOST_RECORDS)
                wanted = {place: [valued(transaction, f"{payload}-{at}") for at in range(count)] for place in places}
                is_whole = is_whole and (yield from self.write(transaction, wanted))
                yield from self.dawdle()
            commits = is_whole and not chance.random() < ABORTS
            self.before_end(transaction, commits=commits)
            yield from self.end(transaction, commits=commits)
            self.after_end()
            yield Rest(chance.choice((0, 100, 1_000)))


def _produced(response: Any) -> int:
    return int(response.responses[0].partition_responses[0].error_code)


def _added(response: Any) -> int:
    found = [part.partition_error_code for topic in response.results_by_topic_v3_and_below for part in topic.results_by_partition]
    return next((code for code in found if code), codes.NONE)


def _committed(response: Any) -> int:
    found = [part.error_code for topic in response.topics for part in topic.partitions]
    return next((code for code in found if code), codes.NONE)
