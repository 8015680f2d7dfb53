"""The persister of share states: one operation of a share partition at a time, repeated while there is no coordinator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ottla.broker.coordination.share_messages import places_of, to_response
from ottla.broker.coordination.share_states import AT_ONCE, PATIENCE_MS, SharePersister
from ottla.broker.scheduler import Scheduler
from ottla.coord.share_state.inputs import (
    MOST_BATCHES,
    InitializeState,
    ReadState,
    SharePlace,
    StateOperation,
    StateRequest,
    StateResult,
    WriteState,
)
from ottla.ports import Now, Steps
from ottla.sim.clock import SimClock
from ottla.wire.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    FENCED_STATE_EPOCH,
    NONE,
    NOT_COORDINATOR,
    UNKNOWN_SERVER_ERROR,
)

TOPIC = b"t" * 16
Answer = Callable[[Sequence[StateResult]], None]


class PlayedCoordinators:
    """Coordinators here and on other brokers, on whose behalf the test answers. A group's first digit is its broker."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.scheduler = Scheduler(self.clock)
        self.here: list[tuple[StateRequest, Answer]] = []
        self.sent: list[tuple[int, Any, Callable[[Any], None]]] = []
        self.count = 1
        self.created: list[int] = []
        self.nodes: dict[str, int] = {}
        self.persister = SharePersister(self, self.scheduler, self, 1)  # type: ignore[arg-type]  # it stands for both

    def place_of(self, key: str) -> tuple[int, int]:
        return (0, self.nodes.get(key[0], int(key[0]))) if self.count else (-1, -1)

    def submit(self, index: int, body: StateRequest, answer: Answer, now: Now) -> None:
        self.here.append((body, answer))

    def ensure(self) -> Steps[int]:
        """Create the topic once the test has said how that ends."""
        while not self.created:
            yield self.scheduler.rest(1)
        error_code = self.created.pop(0)
        self.count = 0 if error_code else 1
        return error_code

    def request(self, node_id: int, message: Any, answered: Callable[[Any], None], *, lane: str) -> None:
        self.sent.append((node_id, message, answered))

    def begin(self, operation: StateOperation, *places: SharePlace, group: str = "1") -> list[Sequence[StateResult]]:
        """The results of a call, once they are known."""
        found: list[Sequence[StateResult]] = []
        getattr(self.persister, operation.name.lower())(group, places, found.append)
        assert not found
        return found

    def write(self, first: int, last: int, partition: int = 0, group: str = "1", **fields: int) -> list[Sequence[StateResult]]:
        given = {"state_epoch": 0, "leader_epoch": 0, "start_offset": -1, "delivery_complete_count": first} | fields
        place = WriteState(TOPIC, partition, **given, batches=((first, last, 2, 1),))
        return self.begin(StateOperation.WRITE, place, group=group)

    def pass_time(self, ms: int = 0) -> None:
        until_ms = self.clock.now().mono_ms + ms
        while (due_ms := self.scheduler.next_ms()) is not None and due_ms <= until_ms:
            now_ms = self.clock.now().mono_ms
            self.scheduler.run_due(self.clock.advance(max(0, due_ms - now_ms)))
        self.clock.advance(until_ms - self.clock.now().mono_ms)

    def answer(self, error_code: int = NONE, **fields: Any) -> StateRequest:
        """Answer the oldest request here with one result for all of its places."""
        body, answer = self.here.pop(0)
        answer([StateResult(error_code, **fields)] * len(body.places))
        self.pass_time()
        return body

    def respond(self, error_code: int = NONE, *, but: int = 0, is_lost: bool = False) -> tuple[int, list[SharePlace]]:
        """Answer the oldest request to another broker, except its last `but` places."""
        node_id, message, answered = self.sent.pop(0)
        operation = next(each for each in StateOperation if type(message).__name__.lower().startswith(each.name.lower()[:4]))
        places = places_of(operation, message.topics)
        kept = places[: len(places) - but]
        answered(
            None if is_lost else to_response(operation, {(one.topic_id, one.partition): StateResult(error_code) for one in kept})
        )
        self.pass_time()
        return node_id, places


@pytest.fixture
def played() -> PlayedCoordinators:
    return PlayedCoordinators()


def test_places_of_one_coordinator_are_one_request_and_results_come_in_their_order(played: PlayedCoordinators) -> None:
    found = played.begin(StateOperation.READ, *[ReadState(TOPIC, index, 0) for index in range(3)])
    played.pass_time()
    body, answer = played.here.pop()
    assert [place.partition for place in body.places] == [0, 1, 2]
    answer([StateResult(start_offset=index) for index in range(3)])
    assert [result.start_offset for result in found[0]] == [0, 1, 2]


def test_no_places_have_no_results(played: PlayedCoordinators) -> None:
    found = played.begin(StateOperation.READ)
    played.pass_time()
    assert list(map(list, found)) == [[]]


def test_writes_that_wait_become_one_with_the_last_numbers(played: PlayedCoordinators) -> None:
    found = [played.write(0, 4)]
    played.pass_time()
    found += [played.write(5, 5, start_offset=5), played.write(6, 7), played.write(8, 8, start_offset=8)]
    found += [played.write(2, 2, start_offset=2)]
    played.pass_time()
    assert len(played.here) == 1
    assert played.answer().places == [WriteState(TOPIC, 0, 0, 0, -1, 0, ((0, 4, 2, 1),))]
    assert found[0]
    joined = WriteState(TOPIC, 0, 0, 0, 8, 8, ((5, 5, 2, 1), (6, 7, 2, 1), (8, 8, 2, 1)))
    assert played.answer(FENCED_STATE_EPOCH).places == [joined]
    assert [each[0][0].error_code for each in found[1:4]] == [FENCED_STATE_EPOCH] * 3
    assert played.answer().places == [WriteState(TOPIC, 0, 0, 0, 2, 2, ((2, 2, 2, 1),))], "the start offset moves back"
    assert not played.persister._queues


def test_writes_of_other_epochs_and_other_operations_keep_their_order(played: PlayedCoordinators) -> None:
    played.begin(StateOperation.INITIALIZE, InitializeState(TOPIC, 0, 0, 0))
    played.write(0, 0)
    played.write(1, 1, state_epoch=1)
    played.begin(StateOperation.READ, ReadState(TOPIC, 0, 0))
    played.write(2, 2)
    played.pass_time()
    order = []
    while played.here:
        order.append(played.answer())
    assert [body.operation.name for body in order] == ["INITIALIZE", "WRITE", "WRITE", "READ", "WRITE"]


def test_joined_writes_are_no_longer_than_a_request_may_be(played: PlayedCoordinators) -> None:
    for _ in range(2):
        place = WriteState(TOPIC, 0, 0, 0, -1, 0, tuple((2 * at, 2 * at, 2, 1) for at in range(MOST_BATCHES)))
        played.begin(StateOperation.WRITE, place)
    played.pass_time()
    assert [len(place.batches) for place in played.answer().places if isinstance(place, WriteState)] == [MOST_BATCHES]
    assert len(played.here) == 1


def test_share_partitions_do_not_wait_for_each_other(played: PlayedCoordinators) -> None:
    played.write(0, 0, partition=0)
    played.pass_time()
    played.write(0, 0, partition=1)
    played.pass_time()
    assert len(played.here) == 2


@pytest.mark.parametrize("error_code", [COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR])
def test_what_fails_for_want_of_a_coordinator_is_repeated(played: PlayedCoordinators, error_code: int) -> None:
    found = played.write(0, 0)
    played.pass_time()
    for _ in range(3):
        played.answer(error_code)
        assert not found
        assert not played.here, "it rests before"
        played.pass_time(100)
    played.answer()
    assert found == [[StateResult()]]


def test_a_repeated_write_stays_before_later_ones_and_takes_them_along(played: PlayedCoordinators) -> None:
    played.write(0, 0, start_offset=0)
    played.pass_time()
    played.write(9, 9, start_offset=9)
    played.answer(NOT_COORDINATOR)
    played.pass_time(100)
    assert played.answer().places == [WriteState(TOPIC, 0, 0, 0, 9, 9, ((0, 0, 2, 1), (9, 9, 2, 1)))]


def test_it_gives_up_in_time(played: PlayedCoordinators) -> None:
    found = played.write(0, 0)
    began_ms, tries = played.clock.now().mono_ms, 0
    while not found:
        played.pass_time(10)
        while played.here:
            tries += 1
            played.answer(NOT_COORDINATOR)
    assert found[0][0].error_code == NOT_COORDINATOR
    assert PATIENCE_MS - 2_000 <= played.clock.now().mono_ms - began_ms <= PATIENCE_MS
    assert 10 <= tries <= 30
    assert not played.persister._queues


def test_the_end_of_a_bundle_sends_writes_and_leaves_no_timer(played: PlayedCoordinators) -> None:
    played.write(0, 0)
    played.persister.flush(played.clock.now())
    assert len(played.here) == 1
    assert played.scheduler.next_ms() is None


def test_without_a_leader_there_is_no_coordinator(played: PlayedCoordinators) -> None:
    played.nodes["1"] = -1
    found = played.write(0, 0)
    played.pass_time(5_000)
    assert not found
    played.nodes["1"] = 1
    played.pass_time(1_000)
    played.answer()
    assert found == [[StateResult()]]


def test_the_first_calls_create_the_topic_once(played: PlayedCoordinators) -> None:
    played.count = 0
    found = [played.write(0, 0, partition=index) for index in range(3)]
    played.pass_time(10)
    assert not played.here
    played.created.append(COORDINATOR_NOT_AVAILABLE)
    played.pass_time(2)
    played.created.append(NONE)
    played.pass_time(100)
    played.answer()
    assert found == [[[StateResult()]]] * 3


def test_other_brokers_get_one_request_at_a_time_for_each_group(played: PlayedCoordinators) -> None:
    found = [played.write(0, 0, partition=index, group="2") for index in range(2)]
    played.pass_time()
    found += [played.write(0, 0, partition=index, group="2") for index in range(2, 4)]
    played.write(0, 0, group="2b")
    played.write(0, 0, group="3")
    played.pass_time()
    assert [(node_id, message.group_id) for node_id, message, _ in played.sent] == [(2, "2"), (2, "2b"), (3, "3")]
    assert [place.partition for place in played.respond()[1]] == [0, 1]
    played.respond()
    played.respond()
    assert [place.partition for place in played.respond()[1]] == [2, 3]
    assert found == [[[StateResult()]]] * 4


@pytest.mark.parametrize("lost", [{"is_lost": True}, {"but": 1}, {"error_code": NOT_COORDINATOR}])
def test_what_another_broker_does_not_answer_is_asked_again_where_the_coordinator_is_then(
    played: PlayedCoordinators, lost: dict[str, Any]
) -> None:
    found = played.write(0, 0, group="2")
    played.pass_time()
    played.respond(**lost)
    assert not found
    played.nodes["2"] = 3
    played.pass_time(100)
    assert played.respond()[0] == 3
    assert found == [[StateResult()]]


def test_large_calls_are_sent_in_pieces(played: PlayedCoordinators) -> None:
    for group in ("1", "2"):
        played.begin(StateOperation.READ, *[ReadState(TOPIC, index, 0) for index in range(3 * AT_ONCE)], group=group)
    played.persister.flush(played.clock.now())
    assert [len(body.places) for body, _ in played.here] == [AT_ONCE]
    played.pass_time(10)
    assert [len(body.places) for body, _ in played.here] == [AT_ONCE] * 3
    sizes = []
    while played.sent:
        sizes.append(len(played.respond()[1]))
    assert sum(sizes) == 3 * AT_ONCE
    assert max(sizes) == AT_ONCE


def test_an_unknown_error_ends_a_call_at_once(played: PlayedCoordinators) -> None:
    found = played.write(0, 0)
    played.pass_time()
    played.answer(UNKNOWN_SERVER_ERROR)
    assert [each.error_code for each in found[0]] == [UNKNOWN_SERVER_ERROR]


def test_a_callback_may_begin_the_next_call(played: PlayedCoordinators) -> None:
    found: list[Sequence[StateResult]] = []

    def again(results: Sequence[StateResult]) -> None:
        found.append(results)
        if len(found) < 3:
            played.persister.write("1", (WriteState(TOPIC, 0, 0, 0, -1, 0, ()),), again)

    again(())
    for _ in range(2):
        played.pass_time()
        played.answer()
    assert len(found) == 3
    assert not played.persister._queues


def scattered(count: int, partition: int = 0) -> WriteState:
    """A write with this number of state batches."""
    batches = tuple((2 * at, 2 * at, 2, 1) for at in range(count))
    return WriteState(TOPIC, partition, 0, 0, 0, count, batches)


def test_a_write_of_many_state_batches_is_stored_in_parts(played: PlayedCoordinators) -> None:
    write = scattered(2 * MOST_BATCHES + 1)
    found = played.begin(StateOperation.WRITE, write)
    next_one = played.write(1, 1, leader_epoch=1)
    played.pass_time()
    parts: list[WriteState] = []
    for _ in range(3):
        assert (found, next_one) == ([], [])
        (place,) = played.answer().places
        assert isinstance(place, WriteState)
        parts.append(place)
    assert [len(part.batches) for part in parts] == [MOST_BATCHES, MOST_BATCHES, 1]
    assert [batch for part in parts for batch in part.batches] == list(write.batches)
    assert {part[:6] for part in parts} == {write[:6]}
    assert found == [[StateResult()]]
    played.answer()
    assert next_one == [[StateResult()]]


def test_the_first_error_ends_a_write_in_parts(played: PlayedCoordinators) -> None:
    found = played.begin(StateOperation.WRITE, scattered(3 * MOST_BATCHES))
    played.pass_time()
    played.answer()
    played.answer(FENCED_STATE_EPOCH)
    assert [result.error_code for result in found[0]] == [FENCED_STATE_EPOCH]
    assert not played.here


@pytest.mark.parametrize("group", ["1", "2"])
def test_writes_of_many_share_partitions_have_pauses_between_them(played: PlayedCoordinators, group: str) -> None:
    found = played.begin(StateOperation.WRITE, *(scattered(MOST_BATCHES // 2 + 1, index) for index in range(6)), group=group)
    sizes: list[int] = []
    while not found:
        played.scheduler.run_due(played.clock.now())
        sizes.append(sum(len(place.batches) for body, _ in played.here for place in body.places if isinstance(place, WriteState)))
        while played.here:
            body, answer = played.here.pop()
            answer([StateResult()] * len(body.places))
        while played.sent:
            sizes.append(sum(len(place.batches) for place in played.respond()[1] if isinstance(place, WriteState)))
        played.clock.advance(1)
    assert max(sizes) <= MOST_BATCHES + MOST_BATCHES // 2
