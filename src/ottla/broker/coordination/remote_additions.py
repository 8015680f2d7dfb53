"""Asks the coordinator of a transaction, wherever it is, to add or verify partitions that this broker leads (KIP-890).

Knows which broker coordinates a transactional id, and what an answer of another broker means.
"""

from __future__ import annotations

from itertools import groupby
from types import MappingProxyType
from typing import Final

from ottla.broker.coordination.additions import Additions
from ottla.broker.coordination.coordinators import Coordinators
from ottla.broker.coordination.endings import Endings
from ottla.broker.interbroker.asking import UNSPOKEN, BrokerAsker
from ottla.broker.scheduler import Steps
from ottla.broker.serving.request import Request
from ottla.coord.transactions.inputs import Added, AddPartitions
from ottla.coord.transactions.machine import TransactionMachine
from ottla.coord.transactions.transaction import Partitions, TopicPartition
from ottla.ports import Now
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
)
from ottla.wire.schema import Message

LANE: Final = "transactions"
ABSENT: Final = frozenset((INVALID_TXN_STATE, TRANSACTION_ABORTABLE))

Topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
Transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction


class RemoteAdditions(Additions):
    """Of a broker of a cluster: what another one coordinates, that one is asked about."""

    leaves_early = False
    in_produce = MappingProxyType(
        dict.fromkeys((COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR), NOT_ENOUGH_REPLICAS)
    )

    def __init__(self, coordinators: Coordinators[TransactionMachine], endings: Endings, asker: BrokerAsker, node_id: int) -> None:
        super().__init__(coordinators, endings)
        self._asker = asker
        self._node_id = node_id

    def asked(self, wanted: AddPartitions, request: Request[Message]) -> Steps[Added]:
        node_id = self._coordinators.node_of(wanted.transactional_id, self._node_id)
        if node_id == self._node_id:
            return (yield from super().asked(wanted, request))
        if node_id < 0:
            return Added(COORDINATOR_NOT_AVAILABLE)
        if self._asker.version(AddPartitionsToTxnRequest) == UNSPOKEN:  # brokers of that time verify nothing
            return Added(NONE)
        message = AddPartitionsToTxnRequest(transactions=[_transaction(wanted)])
        response: AddPartitionsToTxnResponse | None = yield from self._asker.answer(node_id, message, lane=LANE)
        return Added(COORDINATOR_NOT_AVAILABLE) if response is None else _added(wanted, response)

    def may_lack(self, transactional_id: str, producer: tuple[int, int], place: TopicPartition, now: Now) -> bool:
        """Never: partitions are on all replicas of the coordinator before any record is."""
        return False


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


def _added(wanted: AddPartitions, response: AddPartitionsToTxnResponse) -> Added:
    """The answer of another broker as its coordinator meant it."""
    if response.error_code:
        return Added(INVALID_TXN_STATE if response.error_code == CLUSTER_AUTHORIZATION_FAILED else response.error_code)
    codes: dict[TopicPartition, int] = {
        (topic.name, part.partition_index): part.partition_error_code
        for transaction in response.results_by_transaction
        if transaction.transactional_id == wanted.transactional_id
        for topic in transaction.topic_results
        for part in topic.results_by_partition
    }
    error_code = next((code for code in codes.values() if code and code not in ABSENT), NONE)
    absent: Partitions = frozenset(place for place in wanted.partitions if codes.get(place, INVALID_TXN_STATE))
    return Added(error_code, absent)
