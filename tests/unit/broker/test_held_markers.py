"""Markers that are held back: who asks meanwhile is told so and keeps nobody waiting, and the transaction comes to its end."""

from __future__ import annotations

import pytest

from ottla.records.batches.builder import build
from ottla.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.errors import CONCURRENT_TRANSACTIONS, COORDINATOR_NOT_AVAILABLE, NONE, NOT_ENOUGH_REPLICAS
from tests.support.machine import Machine
from tests.unit.broker.test_transactions import ADD, ID, PRODUCE, Transactional, new_machine, state


@pytest.fixture
def machine() -> Machine:
    return new_machine()


@pytest.mark.parametrize("committed", [True, False])
def test_a_batch_with_a_made_up_epoch_keeps_no_transaction_from_its_end(machine: Machine, committed: bool) -> None:
    """Anybody who may write to a topic may name any producer id: the marker comes with an epoch of the past then."""
    producer = Transactional(machine)
    added = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=ID,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="a", partitions=[0])],
    )
    machine.ask(ADD, 3, added)
    assert producer.write(index=1) == NONE
    append = machine.broker.markers.append
    machine.broker.markers.append = lambda *_, **__: (COORDINATOR_NOT_AVAILABLE, None)  # type: ignore[method-assign]  # none for now
    assert producer.end(committed=committed) == NONE
    made_up = build(
        None,
        [b"x"],
        machine.clock.now().wall_ms,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch + 7,
        base_sequence=0,
    )
    data = ProduceRequest.PartitionProduceData(index=0, records=made_up)
    topics = [ProduceRequest.TopicProduceData(name="a", partition_data=[data])]
    body = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=1000, topic_data=topics)
    assert machine.ask(PRODUCE, 12, body).responses[0].partition_responses[0].error_code == NONE
    machine.broker.markers.append = append  # type: ignore[method-assign]  # they can be written again
    for _ in range(3):
        machine.pass_time(1_000)
    assert state(machine) == ("CompleteCommit" if committed else "CompleteAbort")
    for index in (0, 1):
        partition = machine.broker.partitions.get("a", index)
        assert partition is not None
        assert partition.log.last_stable_offset == partition.log.log_end_offset


def test_a_transaction_whose_markers_are_held_back_keeps_no_other_one_waiting(machine: Machine) -> None:
    """Brokers ask for many transactions in one request: each that waited would hold up all behind it."""
    producer = Transactional(machine)
    assert producer.write() == NONE
    machine.broker.markers.append = lambda *_, **__: (COORDINATOR_NOT_AVAILABLE, None)  # type: ignore[method-assign]  # none for now
    assert producer.end() == NONE
    of = AddPartitionsToTxnRequest
    wanted = [
        of.AddPartitionsToTxnTransaction(
            transactional_id=ID,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            verify_only=False,
            topics=[of.AddPartitionsToTxnTopic(name="a", partitions=[0])],
        )
        for _ in range(20)
    ]
    began_ms = machine.clock.now().mono_ms
    answer = machine.ask(ADD, 5, AddPartitionsToTxnRequest(transactions=wanted))
    codes = [each.topic_results[0].results_by_partition[0].partition_error_code for each in answer.results_by_transaction]
    assert codes == [CONCURRENT_TRANSACTIONS] * 20
    assert machine.clock.now().mono_ms <= began_ms + 100


@pytest.mark.parametrize(
    ("version", "error_code"), [(3, NOT_ENOUGH_REPLICAS), (11, NOT_ENOUGH_REPLICAS), (12, CONCURRENT_TRANSACTIONS)]
)
def test_records_that_come_while_markers_are_held_back_are_refused_so_that_their_client_tries_again(
    machine: Machine, version: int, error_code: int
) -> None:
    producer = Transactional(machine)
    assert producer.write() == NONE
    machine.broker.markers.append = lambda *_, **__: (COORDINATOR_NOT_AVAILABLE, None)  # type: ignore[method-assign]  # none for now
    assert producer.end() == NONE
    assert producer.write(index=1, version=version) == error_code
