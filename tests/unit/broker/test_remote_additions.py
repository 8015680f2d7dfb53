"""What brokers ask the coordinators of transactions on others: one request at a time to each, about all that wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.broker.coordination.additions import PartitionAdditions
from ottla.broker.interbroker.channels import UNSPOKEN
from ottla.broker.scheduler import Scheduler
from ottla.coord.transactions.additions import Added, AddPartitions
from ottla.sim.clock import SimClock
from ottla.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from ottla.wire.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_NOT_AVAILABLE,
    INVALID_TXN_STATE,
    NONE,
    UNSUPPORTED_VERSION,
)

PLACE = ("t", 0)
Result = AddPartitionsToTxnResponse.AddPartitionsToTxnResult
TopicResult = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
PartResult = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult


class Neighbours:
    """The other brokers, on whose behalf the test answers; coordinators are where the first character of an id says."""

    def __init__(self, spoken: int = 5) -> None:
        self.spoken = spoken
        self.scheduler = Scheduler(SimClock())
        self.sent: list[tuple[int, AddPartitionsToTxnRequest, Callable[[Any], None]]] = []
        self.is_alone = False
        self.additions = PartitionAdditions(self, self, 1)  # type: ignore[arg-type]  # it stands for both

    @property
    def coordinators(self) -> Neighbours:
        return self

    def wait_for_markers(self) -> None: ...

    def when_durable(self) -> None: ...

    def node_of(self, key: str) -> int:
        return int(key[0])

    def version(self, request: object) -> int:
        return self.spoken

    def request(self, node_id: int, message: Any, answered: Callable[[Any], None], *, lane: str) -> None:
        self.sent.append((node_id, message, answered))

    def wanted(self, transactional_id: str, *, verify_only: bool = True) -> list[Added]:
        """What is answered about a partition, as soon as it is."""
        answers: list[Added] = []
        asked = AddPartitions(transactional_id, 7, 0, frozenset((PLACE,)), verify_only=verify_only)
        steps = self.additions.add(asked, None)  # type: ignore[arg-type]  # only for coordinators here
        self.scheduler.begin(object(), steps, answers.append, urgent=True)
        return answers

    def ids(self) -> list[tuple[int, list[str]]]:
        return [(node_id, [one.transactional_id for one in message.transactions]) for node_id, message, _ in self.sent]

    def answer(self, *codes: int, error_code: int = NONE, is_lost: bool = False) -> None:
        """The oldest request, with a code for each of its transactions."""
        _, message, answered = self.sent.pop(0)
        results = [
            Result(
                transactional_id=one.transactional_id,
                topic_results=[
                    TopicResult(name="t", results_by_partition=[PartResult(partition_index=0, partition_error_code=code)])
                ],
            )
            for one, code in zip(message.transactions, codes, strict=False)
        ]
        answered(None if is_lost else AddPartitionsToTxnResponse(error_code=error_code, results_by_transaction=results))
        self.scheduler.run_due(self.scheduler.now())


def test_what_waits_for_one_broker_is_asked_together_and_another_broker_at_once() -> None:
    neighbours = Neighbours()
    answers = [neighbours.wanted(name) for name in ("2a", "2b", "3a", "2c", "2b")]
    assert neighbours.ids() == [(2, ["2a"]), (3, ["3a"])]
    neighbours.answer(NONE)
    assert neighbours.ids() == [(3, ["3a"]), (2, ["2b", "2c"])]
    neighbours.answer(NONE)
    neighbours.answer(NONE, CONCURRENT_TRANSACTIONS)
    assert neighbours.ids() == [(2, ["2b"])]
    assert [[one.error_code for one in some] for some in answers] == [[NONE], [NONE], [NONE], [CONCURRENT_TRANSACTIONS], []]
    neighbours.answer(INVALID_TXN_STATE)
    assert answers[4] == [Added(NONE, frozenset((PLACE,)))]
    assert not neighbours.sent


def test_all_that_were_asked_together_hear_of_a_failure() -> None:
    neighbours = Neighbours()
    neighbours.wanted("2a")
    answers = [neighbours.wanted(name) for name in ("2b", "2c")]
    neighbours.answer(NONE)
    neighbours.answer(is_lost=True)
    assert answers == [[Added(COORDINATOR_NOT_AVAILABLE)], [Added(COORDINATOR_NOT_AVAILABLE)]]
    refused = neighbours.wanted("2d")
    neighbours.answer(error_code=CLUSTER_AUTHORIZATION_FAILED)
    assert refused == [Added(INVALID_TXN_STATE)]


def test_where_brokers_do_not_ask_each_other_nothing_is_verified_and_nothing_added() -> None:
    neighbours = Neighbours(UNSPOKEN)
    assert neighbours.wanted("2a") == [Added(NONE)]
    assert neighbours.wanted("2a", verify_only=False) == [Added(UNSUPPORTED_VERSION)]
    assert neighbours.ids() == []
