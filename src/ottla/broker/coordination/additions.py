"""Requests to add or verify partitions that this broker leads, sent to the transaction's coordinator (KIP-890).

Contains the choice of the coordinating broker, this one or another, and the meaning of its response.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from itertools import groupby
from typing import Final

from ottla.broker.coordination.transactions import TransactionCoordinators
from ottla.broker.interbroker.channels import UNSPOKEN, BrokerRequester
from ottla.broker.serving.request import Request
from ottla.coord.transactions.additions import Added, AddPartitions
from ottla.coord.transactions.transaction import Partitions, TopicPartition
from ottla.ports import Done, Steps
from ottla.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from ottla.wire.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    INVALID_TXN_STATE,
    NONE,
    NOT_COORDINATOR,
    NOT_ENOUGH_REPLICAS,
    TRANSACTION_ABORTABLE,
    UNSUPPORTED_VERSION,
)
from ottla.wire.schema import Message

LANE: Final = "transactions"
AT_ONCE: Final = 200
"""Upper limit of transactions in one request."""
ABSENT: Final = frozenset((INVALID_TXN_STATE, TRANSACTION_ABORTABLE))

Topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
Transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction


class Question:
    """A request to the coordinator of a transaction on another broker. `added` is set to the coordinator's result."""

    __slots__ = ("added", "done", "wanted")

    def __init__(self, wanted: AddPartitions) -> None:
        self.wanted = wanted
        self.added: Added | None = None
        self.done: Done


class PartitionAdditions:
    """Additions of partitions to transactions, and verifications of earlier additions.

    Each other broker gets one request at a time. Later additions wait, and are then sent together.
    """

    in_produce: Final = dict.fromkeys(
        (COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR), NOT_ENOUGH_REPLICAS
    )
    """Coordinator error -> the error that Produce returns instead, because producers do not expect coordinator errors."""

    def __init__(self, transactions: TransactionCoordinators, asker: BrokerRequester, node_id: int) -> None:
        self.leaves_early = transactions.is_alone
        """Whether additions are acknowledged before they are durable. On one disk, records reveal a lost addition at startup."""
        self._coordinators = transactions.coordinators
        self.ended = transactions.wait_for_markers
        self.when_durable = transactions.coordinators.when_durable
        self._asker = asker
        self._node_id = node_id
        self._waiting: dict[int, deque[Question]] = {}
        self._under_way: set[int] = set()

    def add(self, wanted: AddPartitions, request: Request[Message]) -> Steps[Added]:
        """Ask the coordinator to add or verify partitions, and return its result.

        An addition waits for the previous transaction.
        """
        node_id = self._coordinators.node_of(wanted.transactional_id)
        if node_id == self._node_id:
            return (yield from self._coordinators.request_steps(wanted.transactional_id, wanted, request))
        if node_id < 0:
            return Added(COORDINATOR_NOT_AVAILABLE)
        if self._asker.version(AddPartitionsToTxnRequest) == UNSPOKEN:  # older protocol versions verify and add nothing
            return Added(NONE if wanted.verify_only else UNSUPPORTED_VERSION)
        question = Question(wanted)
        yield partial(self._request, node_id, question)
        assert question.added is not None, "that is what was waited for"
        return question.added

    def may_lack(self, transactional_id: str, producer: tuple[int, int], place: TopicPartition) -> bool:
        """Return whether a power failure can have lost the addition of this partition to its open transaction."""
        if not self.leaves_early:
            return False
        machine = self._coordinators.machine_of(transactional_id)
        return machine is None or machine.lacks(transactional_id, *producer, place)

    def _request(self, node_id: int, question: Question, done: Done) -> None:
        question.done = done
        self._waiting.setdefault(node_id, deque()).append(question)
        if node_id not in self._under_way:
            self._send(node_id)

    def _send(self, node_id: int) -> None:
        """Send all waiting requests for this broker, each transactional id once."""
        asked: dict[str, Question] = {}
        left: deque[Question] = deque()
        for question in self._waiting.pop(node_id):
            is_next = len(asked) < AT_ONCE and question.wanted.transactional_id not in asked
            if is_next:
                asked[question.wanted.transactional_id] = question
            else:
                left.append(question)
        if left:
            self._waiting[node_id] = left
        self._under_way.add(node_id)
        message = AddPartitionsToTxnRequest(transactions=[_transaction(question.wanted) for question in asked.values()])
        self._asker.request(node_id, message, partial(self._on_response, node_id, list(asked.values())), lane=LANE)

    def _on_response(self, node_id: int, asked: list[Question], response: AddPartitionsToTxnResponse | None) -> None:
        self._under_way.discard(node_id)
        if node_id in self._waiting:
            self._send(node_id)
        results = {} if response is None else {one.transactional_id: one for one in response.results_by_transaction}
        for question in asked:
            if response is None:
                question.added = Added(COORDINATOR_NOT_AVAILABLE)
            elif response.error_code:
                refused = response.error_code == CLUSTER_AUTHORIZATION_FAILED
                question.added = Added(INVALID_TXN_STATE if refused else response.error_code)
            else:
                question.added = _result_of(question.wanted, results.get(question.wanted.transactional_id))
            question.done(None)


def _transaction(wanted: AddPartitions) -> Transaction:
    return Transaction(
        transactional_id=wanted.transactional_id,
        producer_id=wanted.producer_id,
        producer_epoch=wanted.producer_epoch,
        verify_only=wanted.verify_only,
        topics=[
            Topic(name=name, partitions=[index for _, index in some])
            for name, some in groupby(sorted(wanted.partitions), key=lambda place: place[0])
        ],
    )


def _result_of(wanted: AddPartitions, result: AddPartitionsToTxnResponse.AddPartitionsToTxnResult | None) -> Added:
    """Return another broker's result for one transaction. A `result` of None means that the response lacks it."""
    codes: dict[TopicPartition, int] = {
        (topic.name, part.partition_index): part.partition_error_code
        for topic in (() if result is None else result.topic_results)
        for part in topic.results_by_partition
    }
    error_code = next((code for code in codes.values() if code and code not in ABSENT), NONE)
    absent: Partitions = frozenset(place for place in wanted.partitions if codes.get(place, INVALID_TXN_STATE))
    return Added(error_code, absent)
