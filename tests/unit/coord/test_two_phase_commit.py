"""Transactions that an outside coordinator decides about (KIP-939): they wait, and whoever comes next may end them."""

from __future__ import annotations

from typing import NamedTuple

from ottla.coord.runtime.machine import Due
from ottla.coord.transactions.additions import Added, AddPartitions
from ottla.coord.transactions.inputs import Ended, EndTransaction, TimeoutsKey, WriteMarkers
from ottla.coord.transactions.records import encode_record
from ottla.coord.transactions.transaction import ENDLESS_MS, LAST_EPOCH, Status, Transaction
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.errors import (
    CONCURRENT_TRANSACTIONS,
    INVALID_TXN_STATE,
    NONE,
    PRODUCER_FENCED,
)
from tests.unit.coord.test_transactions import HOUR_MS, PLACES, Coordinator


class Held(NamedTuple):
    """What a producer has."""

    producer_id: int
    epoch: int


NOTHING = Held(-1, -1)


def init(coordinator: Coordinator, *, keeps: bool = False, two_phase: bool = True, held: Held = NOTHING) -> Held:
    response = asked_to_init(coordinator, keeps=keeps, two_phase=two_phase, held=held)
    assert response.error_code == NONE
    return Held(response.producer_id, response.producer_epoch)


def asked_to_init(
    coordinator: Coordinator, *, keeps: bool = False, two_phase: bool = True, held: Held = NOTHING
) -> InitProducerIdResponse:
    body = InitProducerIdRequest(
        transactional_id="a",
        transaction_timeout_ms=60_000,
        producer_id=held.producer_id,
        producer_epoch=held.epoch,
        enable_2pc=two_phase,
        keep_prepared_txn=keeps,
    )
    response = coordinator.request(body)
    assert isinstance(response, InitProducerIdResponse)
    return response


def begun(coordinator: Coordinator, held: Held, version: int = 2) -> int:
    added = coordinator.request(AddPartitions("a", *held, PLACES, version))
    assert isinstance(added, Added)
    return added.error_code


def ended(coordinator: Coordinator, held: Held, version: int = 2, *, committed: bool = True) -> Ended:
    reply = coordinator.request(EndTransaction("a", *held, committed, version))
    assert isinstance(reply, Ended)
    return reply


def known(coordinator: Coordinator) -> Transaction:
    return coordinator.machine.by_id["a"]


def ordered(coordinator: Coordinator) -> WriteMarkers:
    (order,) = coordinator.orders
    return order


def test_a_prepared_transaction_waits_for_ever_and_a_later_life_commits_it() -> None:
    coordinator = Coordinator()
    first = init(coordinator)
    assert begun(coordinator, first) == NONE
    coordinator.ms += 24 * 365 * HOUR_MS
    coordinator.request(Due(TimeoutsKey()))
    assert known(coordinator).status is Status.ONGOING
    assert known(coordinator).timeout_ms == ENDLESS_MS
    coordinator.restart()
    response = asked_to_init(coordinator, keeps=True)
    assert (response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch) == first
    second = Held(response.producer_id, response.producer_epoch)
    assert second == (first.producer_id, first.epoch + 1)
    coordinator.restart()
    reply = ended(coordinator, second)
    assert reply == (NONE, second.producer_id, second.epoch + 1)
    order = ordered(coordinator)
    assert (order.producer_id, order.producer_epoch, order.committed) == (first.producer_id, first.epoch + 1, True)
    assert order.partitions == PLACES
    coordinator.carry_out()
    assert known(coordinator).status is Status.COMPLETE_COMMIT
    assert begun(coordinator, Held(reply.producer_id, reply.producer_epoch)) == NONE, "it goes on with its next epoch"


def test_the_end_of_a_kept_transaction_is_told_again_to_who_has_not_heard_of_it() -> None:
    coordinator = Coordinator()
    begun(coordinator, init(coordinator))
    second = init(coordinator, keeps=True)
    reply = ended(coordinator, second)
    assert ended(coordinator, second).error_code == CONCURRENT_TRANSACTIONS
    assert ended(coordinator, second, committed=False).error_code == CONCURRENT_TRANSACTIONS
    coordinator.restart()
    assert ended(coordinator, second).error_code == CONCURRENT_TRANSACTIONS
    coordinator.carry_out()
    coordinator.restart()
    assert ended(coordinator, second) == reply


def test_only_the_latest_life_may_end_a_kept_transaction_and_none_may_add_to_it() -> None:
    coordinator = Coordinator()
    lives = [init(coordinator)]
    begun(coordinator, lives[0])
    lives += [init(coordinator, keeps=True), init(coordinator, keeps=True)]
    before = known(coordinator)
    for zombie in lives[:2]:
        assert ended(coordinator, zombie).error_code == PRODUCER_FENCED
        assert begun(coordinator, zombie) == PRODUCER_FENCED
    assert begun(coordinator, lives[2]) == INVALID_TXN_STATE, "it can be ended only"
    assert known(coordinator) == before
    assert ended(coordinator, lives[2], committed=False).error_code == NONE
    order = ordered(coordinator)
    assert (order.producer_epoch, order.committed) == (lives[0].epoch + 1, False)


def test_a_life_that_does_not_keep_the_transaction_aborts_it_and_fences_who_kept_it() -> None:
    coordinator = Coordinator()
    first = init(coordinator)
    begun(coordinator, first)
    second = init(coordinator, keeps=True)
    assert asked_to_init(coordinator).error_code == CONCURRENT_TRANSACTIONS
    order = ordered(coordinator)
    assert (order.producer_id, order.producer_epoch, order.committed) == (first.producer_id, first.epoch + 1, False)
    coordinator.restart()
    coordinator.carry_out()
    assert ended(coordinator, second).error_code == INVALID_TXN_STATE, "it was aborted, as any producer that is fenced hears"
    assert begun(coordinator, second) == PRODUCER_FENCED
    third = init(coordinator)
    assert third.epoch > second.epoch


def test_where_nothing_is_prepared_keeping_is_the_same_as_not_keeping() -> None:
    coordinator = Coordinator()
    first = asked_to_init(coordinator, keeps=True)
    assert (first.error_code, first.producer_epoch, first.ongoing_txn_producer_id) == (NONE, 0, -1)
    second = init(coordinator, keeps=True)
    begun(coordinator, second)
    ended(coordinator, second)
    assert asked_to_init(coordinator, keeps=True).error_code == CONCURRENT_TRANSACTIONS, "its end is decided already"
    coordinator.carry_out()
    third = asked_to_init(coordinator, keeps=True)
    assert (third.error_code, third.ongoing_txn_producer_id) == (NONE, -1)


def test_a_life_whose_answer_was_lost_gets_the_same_epoch_again() -> None:
    coordinator = Coordinator()
    first = init(coordinator)
    begun(coordinator, first)
    second = init(coordinator, keeps=True, held=first)
    assert init(coordinator, keeps=True, held=first) == second
    assert asked_to_init(coordinator, keeps=True, held=Held(first.producer_id + 1, 0)).error_code == PRODUCER_FENCED


def test_lives_that_use_up_all_epochs_go_on_with_other_producer_ids() -> None:
    coordinator = Coordinator()
    first = init(coordinator)
    begun(coordinator, first)
    coordinator.machine.apply(known(coordinator)._replace(producer_epoch=LAST_EPOCH))
    second = init(coordinator, keeps=True)
    assert second.producer_id != first.producer_id
    assert second.epoch == 0
    assert ended(coordinator, Held(first.producer_id, LAST_EPOCH)).error_code == PRODUCER_FENCED
    coordinator.machine.apply(known(coordinator)._replace(next_producer_epoch=LAST_EPOCH))
    last = Held(second.producer_id, LAST_EPOCH)
    reply = ended(coordinator, last)
    assert reply.producer_id not in (first.producer_id, second.producer_id)
    assert reply.producer_epoch == 0
    order = ordered(coordinator)
    assert (order.producer_id, order.producer_epoch) == (first.producer_id, LAST_EPOCH + 1)
    assert ended(coordinator, last).error_code == CONCURRENT_TRANSACTIONS
    coordinator.restart()
    coordinator.carry_out()
    assert ended(coordinator, last) == reply


def test_a_producer_without_epochs_of_its_transactions_ends_a_kept_one_too() -> None:
    coordinator = Coordinator()
    first = init(coordinator)
    begun(coordinator, first, version=0)
    second = init(coordinator, keeps=True)
    assert ended(coordinator, first, version=0).error_code == PRODUCER_FENCED
    assert ended(coordinator, second, version=0).error_code == NONE
    assert ordered(coordinator).producer_epoch == first.epoch
    coordinator.carry_out()
    assert begun(coordinator, second, version=0) == NONE


def test_a_kept_transaction_keeps_its_timeout_unless_two_phases_are_asked_for() -> None:
    coordinator = Coordinator()
    begun(coordinator, init(coordinator, two_phase=False))
    init(coordinator, keeps=True, two_phase=False)
    assert known(coordinator).timeout_ms == 60_000
    init(coordinator, keeps=True)
    assert known(coordinator).timeout_ms == ENDLESS_MS
    init(coordinator, keeps=True, two_phase=False)
    assert known(coordinator).timeout_ms == ENDLESS_MS, "what is prepared never times out"


def test_who_keeps_a_transaction_is_stored_whatever_version_of_records_is_in_force() -> None:
    coordinator = Coordinator()
    begun(coordinator, init(coordinator), version=0)
    _, value = encode_record(known(coordinator), version=0)
    assert (value or b"")[:2] == b"\x00\x00"
    init(coordinator, keeps=True)
    _, value = encode_record(known(coordinator), version=0)
    assert (value or b"")[:2] == b"\x00\x01"
