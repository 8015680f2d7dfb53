"""A mistake in a later slice of a request that has changed nothing costs that request alone, whatever the request is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from ottla.broker.coordination.coordinators import Coordinators
from ottla.broker.failures import SHOWN_BYTES, Changes, Mistake
from ottla.broker.handlers import describe_topic_partitions, fetch_reading, log_dirs, produce
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.scheduler import Scheduler
from ottla.broker.serving import down_conversion, router
from ottla.broker.serving.purgatory import DelayedOperation, DelayedReply, Purgatory, Reply
from ottla.broker.serving.request import Close, Ready
from ottla.ports import Now, Pauses, Steps, StorageFailed
from ottla.records.batches.builder import build
from ottla.sim.clock import SimClock
from ottla.wire import framing
from ottla.wire.api.api_versions import ApiVersionsRequest
from ottla.wire.errors import NONE, UNKNOWN_SERVER_ERROR
from tests.old.message_sets import plain as old_messages
from tests.support.machine import Machine
from tests.support.messages import request
from tests.unit.broker.test_computed import slow as a_slow_machine
from tests.unit.broker.test_old_versions import FETCH, PRODUCE, fetched, machine_with, produced

LIST_OFFSETS, METADATA, OFFSET_COMMIT, FIND_COORDINATOR, DESCRIBE_LOG_DIRS, DESCRIBE_TOPIC_PARTITIONS = 2, 3, 8, 10, 35, 75
slow = a_slow_machine


def mistaken(*args: object, **kwargs: object) -> NoReturn:
    raise IndexError("nobody foresaw it")


def mistaken_later(*args: object, **kwargs: object) -> Steps[Any]:
    for _ in range(9):
        yield None
    mistaken()


def answered(machine: Machine, key: int, version: int, body: Any) -> Any:
    """The answer to a request that takes several slices."""
    pending = machine.begin(key, version, body)
    assert isinstance(pending, DelayedReply)
    for _ in range(10_000):
        if pending.done:
            return pending.answer if isinstance(pending.answer, Close) else machine.finish(key, version, pending)
        machine.pass_time(1)
    raise AssertionError("it was not answered")


def of_old_messages(machine: Machine, patch: pytest.MonkeyPatch) -> list[int]:
    patch.setattr(produce, "arrive", mistaken_later)
    response = answered(machine, PRODUCE, 0, produced("t", old_messages(b"value")))
    return [response.responses[0].partition_responses[0].error_code]


def of_old_readers(machine: Machine, patch: pytest.MonkeyPatch) -> list[int]:
    machine.ask(PRODUCE, 9, produced("t", bytes(build(None, [b"value"], 1)), version=9))
    patch.setattr(down_conversion, "_convert", mistaken_later)
    response = answered(machine, FETCH, 1, fetched(0, version=1))
    return [response.responses[0].partitions[0].error_code]


def of_blocks(machine: Machine, patch: pytest.MonkeyPatch) -> list[int]:
    answer = Partitions.absent_error
    asked = [{"partition_index": index, "timestamp": -1} for index in range(1000)]

    def mistaken_once(partitions: Partitions, topic: str, index: int) -> int:
        return mistaken() if index == 500 else answer(partitions, topic, index)

    patch.setattr(Partitions, "absent_error", mistaken_once)
    response = answered(machine, LIST_OFFSETS, 7, request(LIST_OFFSETS, 7, topics=[{"name": "t", "partitions": asked}]))
    (topic,) = response.topics
    assert [part.partition_index for part in topic.partitions] == list(range(1000))
    refused = [part.error_code for part in topic.partitions if part.error_code == UNKNOWN_SERVER_ERROR]
    assert 0 < len(refused) < 1000, "the others are answered"
    return refused[:1]


def of_pages(machine: Machine, patch: pytest.MonkeyPatch) -> list[int]:
    patch.setattr(describe_topic_partitions, "_described_slowly", mistaken_later)
    body = request(DESCRIBE_TOPIC_PARTITIONS, 0, topics=[{"name": "t"}], response_partition_limit=10, cursor=None)
    response = answered(machine, DESCRIBE_TOPIC_PARTITIONS, 0, body)
    return [topic.error_code for topic in response.topics]


def of_directories(machine: Machine, patch: pytest.MonkeyPatch) -> list[int]:
    patch.setattr(log_dirs, "_all_described", mistaken_later)
    response = answered(machine, DESCRIBE_LOG_DIRS, 4, request(DESCRIBE_LOG_DIRS, 4, topics=None))
    return [response.error_code]


REQUESTS: dict[str, Callable[[Machine, pytest.MonkeyPatch], list[int]]] = {
    "old messages": of_old_messages,
    "old readers": of_old_readers,
    "blocks": of_blocks,
    "pages": of_pages,
    "directories": of_directories,
}


@pytest.mark.expects_errors("met a bug in Ottla")
@pytest.mark.parametrize("kind", REQUESTS)
def test_a_mistake_in_a_later_slice_costs_the_request_alone(
    kind: str, slow: Machine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    machine, frames, frame_of = slow, list[bytes](), slow.frame_of

    def noted(key: int, version: int, body: Any) -> memoryview:
        frames.append(bytes(frame := frame_of(key, version, body)))
        return frame

    with monkeypatch.context() as patch:
        patch.setattr(machine, "frame_of", noted)
        assert REQUESTS[kind](machine, patch) == [UNKNOWN_SERVER_ERROR]
    assert machine.broker.changes.mistakes == 1
    (entry,) = (record for record in caplog.records if record.exc_info is not None)
    sent = frames[-1][:SHOWN_BYTES] if kind != "blocks" else frames[-1][:20]
    assert f"It begins with {sent.hex()}" in entry.getMessage(), "blocks show which one met it"
    assert machine.ask(18, 0, ApiVersionsRequest()).error_code == NONE
    assert machine.ask(LIST_OFFSETS, 7, request(LIST_OFFSETS, 7, topics=[])).topics == []


def of_a_promise_made_bytes(machine: Machine, patch: pytest.MonkeyPatch) -> DelayedReply:
    """The records are appended, and their answer cannot be written; the error can."""
    encode, told = framing.encode_response, list[object]()

    def mistaken_once(*given: Any) -> Any:
        told.append(given)
        return encode(*given) if len(told) > 1 else mistaken()

    patch.setattr(router, "encode_response", mistaken_once)
    pending = begun(machine, PRODUCE, 9, produced("t", bytes(build(None, [b"value"], 1)), acks=-1, version=9))
    machine.settle()
    return pending


def of_a_promise_not_made(machine: Machine, patch: pytest.MonkeyPatch) -> DelayedReply:
    """The offset is committed, and no answer can be made of that."""
    machine.ask(FIND_COORDINATOR, 0, request(FIND_COORDINATOR, 0, key="g"))
    ask_one = Coordinators.request

    def mistaken_end(rooms: Any, key: str, body: object, asked: Any, finish: object, **more: Any) -> Any:
        return ask_one(rooms, key, body, asked, mistaken, **more)

    patch.setattr(Coordinators, "request", mistaken_end)
    offset = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
    body = request(OFFSET_COMMIT, 8, group_id="g", topics=[{"name": "t", "partitions": [offset]}])
    pending = begun(machine, OFFSET_COMMIT, 8, body)
    machine.settle()
    return pending


def of_a_retry(machine: Machine, patch: pytest.MonkeyPatch) -> DelayedReply:
    body = fetched(0, version=11)
    body.max_wait_ms, body.min_bytes = 500, 1
    pending = begun(machine, FETCH, 11, body)
    patch.setattr(fetch_reading.Fetch, "_slice", mistaken)
    machine.ask(PRODUCE, 9, produced("t", bytes(build(None, [b"value"], 1)), version=9))
    return pending


def begun(machine: Machine, key: int, version: int, body: Any) -> DelayedReply:
    pending = machine.broker.receive(machine.frame_of(key, version, body), machine.peer, machine.clock.now())
    assert isinstance(pending, DelayedReply)
    return pending


PROMISED: dict[str, tuple[int, int, Callable[[Machine, pytest.MonkeyPatch], DelayedReply]]] = {
    "made bytes": (PRODUCE, 9, of_a_promise_made_bytes),
    "made": (OFFSET_COMMIT, 8, of_a_promise_not_made),
    "tried again": (FETCH, 11, of_a_retry),
}


@pytest.mark.expects_errors("met a bug in Ottla")
@pytest.mark.parametrize("kind", PROMISED)
def test_a_mistake_in_a_promised_reply_costs_the_request_alone(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine, (key, version, provoke) = machine_with("t"), PROMISED[kind]
    with monkeypatch.context() as patch:
        pending = provoke(machine, patch)
    assert UNKNOWN_SERVER_ERROR in codes(machine.finish(key, version, pending))
    assert machine.broker.changes.mistakes == 1
    answer = machine.ask(PRODUCE, 9, produced("t", bytes(build(None, [b"another"], 1)), version=9))
    part = answer.responses[0].partition_responses[0]
    assert (part.error_code, part.base_offset) == (NONE, key != OFFSET_COMMIT), "what was appended stays, and more can be"


def codes(response: Any) -> list[int]:
    """The error of a response as a whole, and those of its partitions."""
    topics = response.topics if hasattr(response, "topics") else response.responses
    parts = [part for topic in topics for part in getattr(topic, "partition_responses", getattr(topic, "partitions", []))]
    return [getattr(response, "error_code", NONE), *(part.error_code for part in parts)]


@pytest.mark.expects_errors("met a bug in Ottla")
def test_a_connection_is_closed_where_not_even_the_mistake_can_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = machine_with("t")
    pending = begun(machine, PRODUCE, 9, produced("t", bytes(build(None, [b"value"], 1)), acks=-1, version=9))
    with monkeypatch.context() as patch:
        patch.setattr(router, "encode_response", mistaken)
        machine.settle()
    assert isinstance(pending.answer, Close)
    assert machine.ask(18, 0, ApiVersionsRequest()).error_code == NONE


def test_a_retry_that_the_disk_fails_closes_its_connection() -> None:
    purgatory = Purgatory(Scheduler(SimClock()), Changes())
    replies: list[Ready] = []

    def retry(now: Now, expired: bool) -> Reply | None:
        raise StorageFailed("t-0", "no room")

    purgatory.watch(DelayedOperation(("k",), None, retry), replies.append)
    purgatory.wake("k")
    purgatory.evaluate_woken(Now(0, 0))
    (closed,) = replies
    assert isinstance(closed, Close)
    assert "no room" in closed.reason


def test_a_retry_that_has_changed_something_is_never_taken_for_a_refusal() -> None:
    changes = Changes()
    purgatory = Purgatory(Scheduler(SimClock()), changes)

    def retry(now: Now, expired: bool) -> Reply | None:
        changes.made = True
        mistaken()

    purgatory.watch(DelayedOperation(("k",), None, retry), lambda ready: None)
    purgatory.wake("k")
    with pytest.raises(IndexError):
        purgatory.evaluate_woken(Now(0, 0))


def steps_of(changes: Changes, *, changing: bool, error: Exception) -> Pauses[str]:
    changes.made = True
    yield
    changes.made = changing
    raise error


def test_a_mistake_after_a_change_in_the_same_step_is_never_taken_for_a_refusal() -> None:
    changes = Changes()
    with pytest.raises(IndexError):
        list(changes.attempt_steps(steps_of(changes, changing=True, error=IndexError())))
    assert changes.made


def test_what_earlier_steps_changed_stays_and_is_remembered() -> None:
    changes = Changes()
    steps = changes.attempt_steps(steps_of(changes, changing=False, error=IndexError()))
    next(steps)
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert isinstance(end.value.value, Mistake)
    assert changes.made


def test_an_expected_failure_is_none_of_them() -> None:
    changes = Changes()
    with pytest.raises(StorageFailed):
        list(changes.attempt_steps(steps_of(changes, changing=False, error=StorageFailed("t-0", "no room"))))
    assert not changes.mistakes
