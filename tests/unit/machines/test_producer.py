"""A producer's transactions, explored: every call and every answer in every state that can be reached."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress

from ottla.client.errors import BrokerError, TransactionError, TransactionFailed
from ottla.client.producer.transactions import ProducerTransactions, TransactionPhase
from ottla.client.types import TopicPartition
from ottla.wire import errors as codes
from ottla.wire.api.end_txn import EndTxnResponse
from ottla.wire.api.init_producer_id import InitProducerIdResponse
from tests.support.transitions import differences, explored

Event = Callable[[ProducerTransactions], object]
OPEN = (TransactionPhase.IN_TRANSACTION, TransactionPhase.COMMITTING, TransactionPhase.ABORTING)
ENDING = OPEN[1:]
PLACE = TopicPartition("t", 0)


def state(machine: ProducerTransactions) -> str:
    if isinstance(machine.failure, TransactionFailed):
        return "FAILED"
    if machine.failure is not None and machine.phase is not TransactionPhase.ABORTING:
        return "MUST_ABORT"
    if machine._end_asked and machine.phase is TransactionPhase.COMMITTING:
        return "COMMIT_ASKED"
    return machine.phase.name


def key(machine: ProducerTransactions) -> Hashable:
    flags = machine._has_begun, machine._end_asked, machine._id_forgotten, machine.needs_epoch, bool(machine._tried)
    return machine.phase, type(machine.failure), flags


def called(call: Event) -> Event:
    """A call of the user's, who may make it whenever."""

    def happen(machine: ProducerTransactions) -> None:
        with suppress(TransactionError):
            call(machine)

    return happen


def in_phases(phases: tuple[TransactionPhase, ...], happens: Event) -> Event:
    """An event of a sender, which comes in these phases only."""

    def happen(machine: ProducerTransactions) -> None:
        if machine.phase in phases and not isinstance(machine.failure, TransactionFailed):
            happens(machine)

    return happen


def refused(code: int, *, by_coordinator: bool = False) -> Event:
    return lambda machine: machine.record_error(BrokerError(code, "refused"), by_coordinator=by_coordinator)


def write(machine: ProducerTransactions) -> None:
    if machine.stop is None:
        machine.record_sent([PLACE])
        machine.confirm_sent()


def refuse_record(machine: ProducerTransactions) -> None:
    if not machine._end_asked:  # all records are written before the end is asked for
        refused(codes.MESSAGE_TOO_LARGE)(machine)


def end_request(machine: ProducerTransactions) -> None:
    if machine.failure is None or machine.phase is TransactionPhase.ABORTING:
        machine.end_request()


def end(answer: EndTxnResponse) -> Event:
    def answered(machine: ProducerTransactions) -> None:
        if machine._end_asked and machine.end_answered(answer):
            machine.reset()

    return answered


def hand_over(machine: ProducerTransactions) -> None:
    if machine.failure is None and not machine._end_asked:
        machine.detach()


EVENTS: dict[str, Event] = {
    "initialized": in_phases(
        (TransactionPhase.UNINITIALIZED, TransactionPhase.READY),
        lambda machine: machine.on_init_answer(InitProducerIdResponse(producer_id=7, producer_epoch=0)),
    ),
    "begin": called(lambda machine: machine.begin(implicit=True)),
    "commit": called(ProducerTransactions.commit),
    "abort": called(ProducerTransactions.abort),
    "handed over": in_phases(OPEN[:1], hand_over),
    "records written": in_phases(OPEN, write),
    "record refused": in_phases(OPEN, refuse_record),
    "fenced": in_phases((*OPEN, TransactionPhase.UNINITIALIZED), refused(codes.PRODUCER_FENCED)),
    "end asked": in_phases(ENDING, end_request),
    "end done": in_phases(ENDING, end(EndTxnResponse())),
    "end refused": in_phases(
        ENDING, lambda machine: machine._end_asked and refused(codes.UNKNOWN_SERVER_ERROR, by_coordinator=True)(machine)
    ),
    "id refused": in_phases(
        (TransactionPhase.UNINITIALIZED,), refused(codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, by_coordinator=True)
    ),
}


def test_every_transition_of_a_producer_is_in_its_table() -> None:
    assert (
        differences("ottla.client.producer.transactions", explored(ProducerTransactions("copy", 60_000), EVENTS, state, key)) == {}
    )
