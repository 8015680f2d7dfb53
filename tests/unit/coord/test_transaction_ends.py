"""The end of a transaction: while markers are written, with the last epoch of a producer, and when it cannot be stored."""

from __future__ import annotations

import logging

import pytest

from ottla.coord.runtime.machine import Due, Input
from ottla.coord.transactions.additions import Added, AddPartitions
from ottla.coord.transactions.inputs import (
    Ended,
    EndTransaction,
    TimeoutsKey,
    TransactionSettings,
)
from ottla.coord.transactions.transaction import (
    LAST_EPOCH,
)
from ottla.ports import Now
from ottla.wire.errors import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_LOAD_IN_PROGRESS,
    INVALID_PRODUCER_ID_MAPPING,
    NONE,
    PRODUCER_FENCED,
)
from tests.unit.coord.test_transactions import HOUR_MS, PLACES, Coordinator


def ending(coordinator: Coordinator, *, committed: bool, version: int) -> tuple[int, int]:
    """Have the markers of a transaction under way: the producer id and epoch with which it was ended."""
    known = coordinator.init()
    coordinator.request(AddPartitions("a", known.producer_id, known.producer_epoch, PLACES, version))
    body = EndTransaction("a", known.producer_id, known.producer_epoch, committed=committed, transaction_version=version)
    assert isinstance(reply := coordinator.request(body), Ended)
    assert reply.error_code == NONE
    return known.producer_id, known.producer_epoch


@pytest.mark.parametrize("was_committed", [True, False])
@pytest.mark.parametrize("had_epochs", [0, 2])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_while_markers_are_held_back_every_request_that_may_wait_is_told_to(
    was_committed: bool, had_epochs: int, is_restarted: bool
) -> None:
    """Apache Kafka 4.3 looks whether a transition is pending first: producers may have their next id or epoch already."""
    coordinator = Coordinator()
    producer_id, epoch = ending(coordinator, committed=was_committed, version=had_epochs)
    if is_restarted:
        coordinator.restart()
    before = coordinator.machine.by_id["a"]
    for other_id in (producer_id, producer_id + 1, -1):
        for other_epoch in (epoch - 1, epoch, epoch + 1, epoch + 2, LAST_EPOCH):
            for committed in (True, False):
                reply = coordinator.request(EndTransaction("a", other_id, other_epoch, committed=committed, transaction_version=2))
                assert reply == Ended(CONCURRENT_TRANSACTIONS)
            assert coordinator.request(AddPartitions("a", other_id, other_epoch, PLACES, 2)) == Added(CONCURRENT_TRANSACTIONS)
            if (other_id < 0) == (other_epoch < 0):
                assert coordinator.init("a", other_id, other_epoch).error_code == CONCURRENT_TRANSACTIONS
    assert coordinator.machine.by_id["a"] == before


@pytest.mark.parametrize("was_committed", [True, False])
def test_while_markers_are_held_back_ends_without_epochs_and_verifications_have_their_id_and_epoch_judged_first(
    was_committed: bool,
) -> None:
    coordinator = Coordinator()
    producer_id, epoch = ending(coordinator, committed=was_committed, version=0)
    for committed in (True, False):
        for whose, error_code in (
            ((producer_id, epoch), CONCURRENT_TRANSACTIONS),
            ((producer_id, epoch + 1), PRODUCER_FENCED),
            ((producer_id + 1, epoch), INVALID_PRODUCER_ID_MAPPING),
        ):
            assert coordinator.request(EndTransaction("a", *whose, committed=committed)) == Ended(error_code)
            assert coordinator.request(AddPartitions("a", *whose, PLACES, verify_only=True)) == Added(error_code)


@pytest.mark.parametrize("was_committed", [True, False])
@pytest.mark.parametrize("committed", [True, False])
def test_the_next_end_at_once_is_told_to_wait_and_then_done(was_committed: bool, committed: bool) -> None:
    """commitTransaction, beginTransaction, send and abortTransaction in a row, as Java's and Go's producers do."""
    coordinator = Coordinator()
    producer_id, epoch = ending(coordinator, committed=was_committed, version=2)
    following = EndTransaction("a", producer_id, epoch + 1, committed=committed, transaction_version=2)
    assert coordinator.request(following) == Ended(CONCURRENT_TRANSACTIONS)
    coordinator.carry_out()
    assert coordinator.request(AddPartitions("a", producer_id, epoch + 1, PLACES, 2)) == Added(NONE)
    assert coordinator.request(following) == Ended(NONE, producer_id, epoch + 2)


def exhausted(coordinator: Coordinator, epoch: int, version: int) -> int:
    """Have a transaction open with one of the last epochs of its producer id."""
    coordinator.machine.configure(TransactionSettings(transaction_version=version))
    producer_id = coordinator.init().producer_id
    coordinator.machine.apply(coordinator.machine.by_id["a"]._replace(producer_epoch=epoch))
    assert coordinator.request(AddPartitions("a", producer_id, epoch, PLACES, version)) == Added(NONE)
    return producer_id


@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("epoch", [LAST_EPOCH - 1, LAST_EPOCH, LAST_EPOCH + 1])
@pytest.mark.parametrize("sequel", ["init", "recover", "abort", "commit"])
def test_epochs_never_run_out_whatever_ends_the_last_one(version: int, epoch: int, sequel: str) -> None:
    coordinator = Coordinator()
    producer_id = exhausted(coordinator, epoch, version)
    coordinator.ms += HOUR_MS
    coordinator.request(Due(TimeoutsKey()))
    assert coordinator.machine.is_ending("a")
    assert coordinator.orders[-1].producer_epoch <= 2**15 - 1
    coordinator.restart()
    coordinator.carry_out()
    if sequel == "recover":
        coordinator.init("a", producer_id, epoch)
    elif sequel != "init":
        body = EndTransaction("a", producer_id, epoch, committed=sequel == "commit", transaction_version=version)
        coordinator.request(body)
    coordinator.carry_out()
    for _ in range(3):
        again = coordinator.init()
        assert again.error_code == NONE
        assert 0 <= again.producer_epoch <= LAST_EPOCH
        assert coordinator.request(AddPartitions("a", again.producer_id, again.producer_epoch, PLACES, version)) == Added(NONE)
        ended = coordinator.request(EndTransaction("a", again.producer_id, again.producer_epoch, True, version))
        assert isinstance(ended, Ended)
        assert ended.error_code == NONE
        coordinator.carry_out()
        coordinator.restart()


def test_a_producer_that_was_timed_out_with_its_last_epoch_recovers_under_a_new_id() -> None:
    coordinator = Coordinator()
    producer_id = exhausted(coordinator, LAST_EPOCH, 2)
    coordinator.ms += HOUR_MS
    coordinator.request(Due(TimeoutsKey()))
    coordinator.carry_out()
    aborted = coordinator.request(EndTransaction("a", producer_id, LAST_EPOCH, committed=False, transaction_version=2))
    assert isinstance(aborted, Ended)
    assert aborted.error_code == NONE
    assert aborted.producer_id != producer_id
    assert aborted.producer_epoch == 0
    recovered = coordinator.init("a", producer_id, LAST_EPOCH)
    assert (recovered.error_code, recovered.producer_id, recovered.producer_epoch) == (NONE, aborted.producer_id, 0)


def test_a_time_out_without_a_producer_id_to_be_had_waits_for_one() -> None:
    coordinator = Coordinator()
    exhausted(coordinator, LAST_EPOCH, 2)
    coordinator.ms += HOUR_MS
    coordinator.machine._new_producer_id = lambda: None
    coordinator.request(Due(TimeoutsKey()))
    assert list(coordinator.machine.ongoing) == ["a"]
    assert coordinator.init().error_code == COORDINATOR_LOAD_IN_PROGRESS
    coordinator.machine._new_producer_id = lambda: 7
    coordinator.request(Due(TimeoutsKey()))
    assert coordinator.machine.is_ending("a")


def test_a_transaction_whose_end_cannot_be_stored_is_logged_as_overdue_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "ottla.coord")
    # A broker of an earlier test in this process leaves a filter that drops a line which is repeated soon.
    monkeypatch.setattr(logging.getLogger("ottla.coord"), "filters", [])
    coordinator = Coordinator()
    for times in (1, 2):
        known = coordinator.init()
        coordinator.request(AddPartitions("a", known.producer_id, known.producer_epoch, PLACES))
        coordinator.ms += HOUR_MS
        for _ in range(100):
            coordinator.machine.decide(Input(Due(TimeoutsKey()), token=1), Now(coordinator.ms, coordinator.ms))
            coordinator.ms += 1_000
        coordinator.request(Due(TimeoutsKey()))
        coordinator.carry_out()
        assert len([message for message in caplog.messages if "exceeded its timeout" in message]) == times
