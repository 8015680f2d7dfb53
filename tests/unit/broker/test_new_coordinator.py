"""Another kind of coordinator is an addition: a machine, its records and one line that joins it to the broker's partitions."""

from __future__ import annotations

import pytest

from ottla.broker.broker import BrokerMachine
from ottla.broker.coordination.coordinators import CoordinatorKind, CoordinatorRooms, Coordinators
from ottla.broker.coordination.replay import stored_records
from ottla.broker.releases import TODAY
from ottla.broker.serving.purgatory import DelayedReply, Reply
from ottla.broker.serving.request import Close, Ready, Request
from ottla.coord.coordinator_partitions import partition_of
from ottla.coord.runtime.record_reader import RecordReader
from ottla.wire.api.heartbeat import HeartbeatRequest
from ottla.wire.apis import API
from ottla.wire.errors import NONE, NOT_COORDINATOR
from ottla.wire.schema import Message
from tests.support.counters import TOPIC, Add, Counted, Counters, Look, decode, refused
from tests.support.machine import Machine, create_topic_of

KIND = CoordinatorKind(TOPIC, Counters, lambda partition: stored_records(partition, RecordReader(decode)), refused)
PARTITIONS = 3


def joined(broker: BrokerMachine) -> Coordinators[Counters]:
    """The one line."""
    return Coordinators(
        KIND,
        CoordinatorRooms(broker.image, broker.by_name.create_internal, broker.partitions, broker.scheduler, broker.changes),
    )


class Counting:
    """A broker with coordinators of counters, and what a handler would do."""

    def __init__(self) -> None:
        self.machine = Machine(num_partitions=PARTITIONS)
        self.counters = joined(self.machine.broker)

    def create(self) -> list[int]:
        return create_topic_of(self.counters, self.machine)

    def ask(self, body: Add | Look) -> list[Counted]:
        """What is answered, as soon as it is."""
        answers: list[Counted] = []

        def finish(answer: Counted) -> Ready:
            answers.append(answer)
            return Close("a toy has no message")

        reply = self.counters.request(body.name, body, self._request(), finish)
        if isinstance(reply, DelayedReply):
            reply.encode_with(lambda ready: None)
        return answers

    def ask_each(self, body: Look) -> list[Reply]:
        def finish(answer: Counted) -> Ready:
            return Close(str(answer.value))

        return list(self.counters.request_each(body, self._request(), finish))

    def restart(self) -> None:
        self.machine.restart()
        self.counters = joined(self.machine.broker)

    def _request(self) -> Request[Message]:
        """Any: what a coordinator is told of it is who sent it and when."""
        api, machine = API[HeartbeatRequest.WIRE.key], self.machine
        return Request(api, 0, 0, 1, "toy", HeartbeatRequest(), machine.peer, TODAY, machine.clock.now())


@pytest.fixture
def counting() -> Counting:
    counting = Counting()
    assert counting.create() == [NONE]
    return counting


def test_without_its_topic_there_is_no_coordinator() -> None:
    assert Counting().ask(Add("a", 1)) == [Counted(-1, NOT_COORDINATOR)]


def test_it_answers_when_what_it_decided_is_on_stable_storage(counting: Counting) -> None:
    answers = counting.ask(Add("a", 1))
    assert answers == []
    counting.machine.settle()
    assert answers == [Counted(1)]
    assert counting.ask(Look("a")) == [Counted(1)]


def test_it_survives_a_restart(counting: Counting) -> None:
    names = [f"counter-{number}" for number in range(10)]
    for number, name in enumerate(names):
        counting.ask(Add(name, number))
        counting.machine.settle()
    counting.restart()
    assert [counting.ask(Look(name)) for name in names] == [[Counted(number)] for number in range(10)]


def test_each_name_has_one_coordinator(counting: Counting) -> None:
    counting.ask(Add("a", 7))
    values = [0] * PARTITIONS
    values[partition_of("a", PARTITIONS)] = 7
    assert counting.ask_each(Look("a")) == [Close(str(value)) for value in values]


@pytest.mark.expects_errors("No space left on device")
def test_it_refuses_what_its_log_refuses(counting: Counting) -> None:
    counting.machine.disk.capacity_bytes = counting.machine.disk.used_bytes
    assert counting.ask(Add("a", 1)) == [Counted(-1, NOT_COORDINATOR)]
    counting.machine.disk.capacity_bytes = None
    assert counting.ask(Look("a")) == [Counted(0)]


@pytest.mark.expects_errors("Input/output error", "a sync failed")
def test_it_refuses_all_that_it_owes_when_a_sync_failed(counting: Counting) -> None:
    answers = counting.ask(Add("a", 1))
    counting.machine.disk.fail(0, count=1_000)
    counting.machine.settle()
    counting.machine.disk.heal()
    assert answers == [Counted(-1, NOT_COORDINATOR)]
    assert counting.ask(Look("a")) == [Counted(-1, NOT_COORDINATOR)]


@pytest.mark.expects_errors("is passed over")
def test_what_it_can_not_read_back_is_named_and_passed_over(counting: Counting) -> None:
    counting.ask(Add("a", 1))
    counting.ask(Add("a", 1))
    counting.machine.settle()
    shard = counting.counters.shards[partition_of("a", PARTITIONS)]
    assert shard.log.append([(b"a", b"no number")], counting.machine.clock.now()) == NONE
    counting.machine.settle()
    counting.restart()
    assert counting.ask(Look("a")) == [Counted(2)]
