"""A producer's transactions as a machine, and the sender that asks it."""

from __future__ import annotations

import pytest

from ottla.client.errors import (
    BrokerError,
    Closed,
    ConnectionFailed,
    ProducerFenced,
    TransactionAbortable,
    TransactionError,
    TransactionFailed,
)
from ottla.client.keywords import ProducerKeywords
from ottla.client.producer.partition_queue import Identity
from ottla.client.producer.sender import Send, Sender
from ottla.client.producer.transactions import ProducerTransactions, TransactionPhase, chain_errors
from ottla.client.settings.clients import ProducerSettings, parse
from ottla.client.types import TopicPartition
from ottla.records.batches.header import BatchHeader, read_header
from ottla.wire import errors as codes
from ottla.wire.api.end_txn import EndTxnResponse
from ottla.wire.api.init_producer_id import InitProducerIdResponse
from ottla.wire.api.produce import ProduceResponse
from tests.unit.client.test_sender import TOPIC, metadata, outgoing

FIRST = TopicPartition(TOPIC, 0)


def begun(*, implicit: bool = True) -> ProducerTransactions:
    machine = ProducerTransactions("copy", 60_000)
    machine.on_init_answer(InitProducerIdResponse(producer_id=7, producer_epoch=0))
    machine.begin(implicit=implicit)
    return machine


def sender_of(machine: ProducerTransactions) -> Sender:
    settings: ProducerKeywords = {"transactional_id": machine.transactional_id}
    made = Sender(metadata(), parse(ProducerSettings, settings), machine)
    assert machine.identity is not None
    made.restart(machine.identity)
    return made


def answered(made: Sender, sends: list[Send], code: int = codes.NONE) -> None:
    part = ProduceResponse.PartitionProduceResponse
    for send in sends:
        found = [part(index=batch.where.partition, error_code=code, base_offset=0) for batch in send.batches]
        topic = ProduceResponse.TopicProduceResponse(name=TOPIC, partition_responses=found)
        made.on_answer(send, ProduceResponse(responses=[topic]), 0)


def headers(sends: list[Send]) -> list[BatchHeader]:
    return [read_header(memoryview(bytes(batch.data))) for send in sends for batch in send.batches]


def test_batches_bear_the_transaction_and_begin_again_at_zero_with_another_epoch() -> None:
    machine = begun()
    made = sender_of(machine)
    for epoch, sequence in ((0, 0), (0, 1), (1, 0), (1, 1)):
        made.add(outgoing(1))
        sends = made.requests(0)
        [header] = headers(sends)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, epoch, sequence)
        assert header.is_transactional
        assert sends[0].request.transactional_id == "copy"
        answered(made, sends)
        if sequence == 1:
            made.restart(Identity(7, 1))


def test_batches_wait_until_the_coordinator_has_their_partition_where_brokers_are_told() -> None:
    machine = begun(implicit=False)
    made = sender_of(machine)
    made.add(outgoing(1))
    assert made.requests(0) == []
    assert machine.wanted == {FIRST}
    machine.confirm_added([FIRST])
    assert len(made.requests(0)) == 1
    assert made.most_produce_version == 11
    assert sender_of(begun()).most_produce_version is None


def test_after_a_refusal_nothing_leaves_and_everything_says_that_the_transaction_must_be_aborted() -> None:
    machine = begun()
    made = sender_of(machine)
    batches = [outgoing(number, partition=number % 2) for number in range(4)]
    for batch in batches:
        made.add(batch)
    answered(made, made.requests(0), codes.MESSAGE_TOO_LARGE)
    assert made.requests(0) == []
    assert made.idle
    assert all(isinstance(batch.error, TransactionAbortable) for batch in batches)
    assert machine.needs_epoch
    with pytest.raises(TransactionAbortable, match="MESSAGE_TOO_LARGE"):
        machine.check_open()
    with pytest.raises(TransactionAbortable, match="MESSAGE_TOO_LARGE"):
        machine.commit()


def test_what_brokers_may_have_heard_of_is_unsure_until_something_is_accepted() -> None:
    machine = begun()
    made = sender_of(machine)
    assert machine.unsure is None
    made.add(outgoing(1))
    [send] = made.requests(0)
    assert machine.unsure == ([FIRST], None)
    made.broken(send, ConnectionFailed("lost"), 0)
    machine.abort()
    assert made.requests(1_000) == []
    assert machine.unsure == ([FIRST], None)
    assert machine.end_request() is None
    machine.confirm_added([FIRST])
    assert machine.unsure is None
    request = machine.end_request()
    assert request is not None
    assert not request.committed


def test_an_end_gives_the_next_epoch_or_keeps_the_one_before() -> None:
    machine = begun()
    machine.confirm_sent()
    machine.commit()
    assert machine.end_request() is not None
    assert machine.end_answered(EndTxnResponse(producer_id=7, producer_epoch=1))
    machine.reset()
    assert machine.identity == Identity(7, 1)
    machine.begin(implicit=False)
    machine.confirm_added([FIRST])
    machine.commit()
    assert machine.end_request() is not None
    assert machine.end_answered(EndTxnResponse())
    assert machine.identity == Identity(7, 1)


def test_a_transaction_without_records_asks_nothing() -> None:
    machine = begun()
    machine.commit()
    assert machine.end_request() is None
    machine.reset()
    assert machine.phase is TransactionPhase.READY


def test_a_commit_that_was_asked_for_can_be_repeated_but_not_aborted() -> None:
    machine = begun()
    machine.confirm_sent()
    machine.commit()
    machine.end_request()
    with pytest.raises(TransactionError, match=r"call commit_transaction\(\) again"):
        machine.abort()
    assert not machine.can_abort
    machine.commit()


def test_an_id_that_brokers_have_forgotten_gets_another_epoch_without_an_end() -> None:
    machine = begun(implicit=False)
    machine.confirm_added([FIRST])
    assert isinstance(
        machine.record_error(BrokerError(codes.INVALID_PRODUCER_ID_MAPPING), by_coordinator=True), TransactionAbortable
    )
    machine.abort()
    assert machine.unsure is None
    assert machine.end_request() is None
    assert machine.needs_epoch
    request = machine.init_request()
    assert (request.producer_id, request.producer_epoch) == (7, 0)
    machine.on_init_answer(InitProducerIdResponse(producer_id=9, producer_epoch=0))
    machine.reset()
    assert machine.identity == Identity(9, 0)
    machine.begin(implicit=False)


@pytest.mark.parametrize(
    ("code", "by_coordinator", "kind"),
    [
        (codes.MESSAGE_TOO_LARGE, False, TransactionAbortable),
        (codes.INVALID_PRODUCER_EPOCH, False, TransactionAbortable),
        (codes.INVALID_PRODUCER_EPOCH, True, ProducerFenced),
        (codes.PRODUCER_FENCED, False, ProducerFenced),
        (codes.PRODUCER_FENCED, True, ProducerFenced),
        (codes.TRANSACTION_ABORTABLE, True, TransactionAbortable),
        (codes.TOPIC_AUTHORIZATION_FAILED, True, TransactionAbortable),
        (codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, True, TransactionFailed),
        (codes.INVALID_TXN_STATE, True, TransactionFailed),
        (codes.UNKNOWN_SERVER_ERROR, True, TransactionAbortable),
    ],
)
def test_what_an_error_makes_of_a_transaction(code: int, by_coordinator: bool, kind: type[TransactionError]) -> None:
    machine = begun()
    error = BrokerError(code, "Trying")
    assert type(machine.record_error(error, by_coordinator=by_coordinator)) is kind
    assert type(machine.failure) is kind
    assert machine.failure is not None
    assert (machine.failure.code, machine.failure.__cause__) == (code, error)
    if kind is TransactionAbortable:
        machine.abort()
    else:
        with pytest.raises(kind):
            machine.abort()


def test_a_graver_failure_replaces_a_lighter_one_and_not_the_other_way() -> None:
    machine = begun()
    machine.record_error(BrokerError(codes.MESSAGE_TOO_LARGE))
    machine.record_error(BrokerError(codes.PRODUCER_FENCED))
    assert isinstance(machine.record_error(BrokerError(codes.MESSAGE_TOO_LARGE)), ProducerFenced)
    with pytest.raises(ProducerFenced):
        machine.check_alive()


def test_an_abort_that_brokers_refuse_ends_the_producer() -> None:
    machine = begun()
    machine.confirm_sent()
    machine.abort()
    machine.end_request()
    assert type(machine.record_error(BrokerError(codes.UNKNOWN_SERVER_ERROR), by_coordinator=True)) is TransactionFailed


def test_a_commit_that_came_too_late_is_abortable_where_the_abort_gives_another_epoch() -> None:
    for implicit, kind in ((True, TransactionAbortable), (False, TransactionFailed)):
        machine = begun(implicit=implicit)
        machine.confirm_sent()
        machine.commit()
        machine.end_request()
        assert type(machine.record_error(BrokerError(codes.INVALID_TXN_STATE), by_coordinator=True)) is kind


def test_of_two_errors_the_graver_is_raised_and_the_other_noted() -> None:
    mine = ValueError("mine")
    chain_errors(mine, TransactionFailed("at its end"))
    assert mine.__notes__ == ["The transaction was not aborted: at its end"]
    with pytest.raises(TransactionFailed, match="at its end"):
        chain_errors(TransactionAbortable("must be aborted"), TransactionFailed("at its end"))


def test_a_transaction_does_not_fail_because_its_producer_was_closed() -> None:
    machine = ProducerTransactions("t", 60_000)
    closed = Closed()
    assert machine.record_error(closed, by_coordinator=True) is closed
    assert machine.failure is None
