"""Replies that take long to compute take turns in slices, keep their client's order, and end when nobody waits for them."""

from __future__ import annotations

import pytest

from ottla.broker.failures import Changes
from ottla.broker.scheduler import MOST_STEPS, Scheduler
from ottla.broker.serving.purgatory import DelayedReply, Purgatory, Reply
from ottla.broker.serving.request import NO_REPLY, Close, Ready
from ottla.ports import Now, Steps, StorageFailed
from ottla.records.batches.builder import build
from ottla.records.compression import codecs
from ottla.records.message_sets.legacy import open_message_set, wrapper
from ottla.sim.clock import SimClock
from ottla.wire.api.api_versions import ApiVersionsRequest
from ottla.wire.errors import MESSAGE_TOO_LARGE
from ottla.wire.framing import FrameHeader, encode_request
from tests.old.message_sets import plain
from tests.support.machine import Machine
from tests.support.messages import request
from tests.unit.broker.test_old_versions import FETCH, PRODUCE, fetched, machine_with, produced, values


class World:
    """Computed replies on a clock that tests move."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.scheduler = Scheduler(self.clock)
        self.purgatory = Purgatory(self.scheduler, Changes())
        self.done: list[str] = []

    def steps(self, name: str, count: int, ms: int = 0) -> Steps[Reply]:
        for _ in range(count):
            self.clock.advance(ms)
            yield None
        self.done.append(name)
        return NO_REPLY

    def ask(self, name: str, count: int, ms: int = 0) -> Reply:
        reply = self.purgatory.run(self.steps(name, count, ms))
        if isinstance(reply, DelayedReply):
            reply.encode_with(lambda ready: self.done.append(f"{name} told"))
        return reply

    def turn(self) -> None:
        now = self.clock.advance(1)
        self.scheduler.run_due(now)
        self.purgatory.evaluate_woken(now)


def test_a_short_computation_is_done_at_once() -> None:
    world = World()
    assert world.ask("short", MOST_STEPS - 1) is NO_REPLY
    assert not world.scheduler.busy
    assert world.scheduler.next_ms() is None


def test_a_long_one_goes_on_a_slice_at_a_time() -> None:
    world = World()
    assert isinstance(world.ask("long", 9, ms=1), DelayedReply)
    began = world.clock.now().mono_ms
    assert world.scheduler.next_ms() == began + 1, "others have a millisecond in between"
    turns = 0
    while world.scheduler.busy:
        world.turn()
        turns += 1
    assert world.done == ["long", "long told"]
    assert turns == 4


def test_computations_take_turns_so_that_a_short_one_need_not_wait_for_a_long_one() -> None:
    world = World()
    world.ask("long", 30, ms=2)
    world.ask("short", 3, ms=2)
    while world.scheduler.busy:
        world.turn()
    assert world.done == ["short", "short told", "long", "long told"]


def test_a_block_that_ends_in_a_sync_is_waited_for_until_it_is_synced() -> None:
    """That its connection may begin other requests meanwhile is no reply."""
    world, synced = World(), DelayedReply(lambda: NO_REPLY, blocking=False, missing=1)

    def block() -> Steps[Reply]:
        yield world.scheduler.rest(1)
        return synced

    told: list[Ready] = []
    job = world.purgatory.wait_for(world.purgatory.run(block()))
    world.scheduler.begin("blocks", job, told.append, urgent=True)
    for _ in range(5):
        world.turn()
    assert told == []
    synced.count_down()
    for _ in range(5):
        world.turn()
    assert told == [NO_REPLY]


def test_a_computation_that_nobody_waits_for_ends_where_it_is() -> None:
    world = World()
    reply = world.purgatory.run(world.steps("gone", 1000, ms=1))
    assert isinstance(reply, DelayedReply)
    reply.encode_with(lambda ready: None)
    world.turn()
    world.purgatory.forget(reply)
    world.turn()
    assert not world.scheduler.busy
    assert not world.done
    assert world.scheduler.next_ms() is None


BIG = [bytes((n % 251,)) * 1000 for n in range(6000)]


class Hasty:
    """A clock that moves each time that it is looked at."""

    def __init__(self, clock: SimClock) -> None:
        self._clock = clock

    def now(self) -> Now:
        return self._clock.advance(2)


@pytest.fixture
def slow() -> Machine:
    """A machine whose slices are over after two looks at the clock."""
    machine = machine_with("t")
    machine.broker.scheduler._clock = Hasty(machine.clock)
    return machine


def test_a_large_old_fetch_is_converted_in_slices_while_others_are_served(slow: Machine) -> None:
    machine = slow
    for start in range(0, len(BIG), 1000):
        batch = build(None, BIG[start : start + 1000], 1_700_000_000_000, codec=codecs.LZ4)
        assert machine.ask(PRODUCE, 9, produced("t", bytes(batch), version=9)).responses[0].partition_responses[0].error_code == 0
    pending = machine.begin(FETCH, 1, fetched(0, version=1, max_bytes=50 << 20))
    assert isinstance(pending, DelayedReply)
    assert pending.blocking, "later requests of this client are answered later"
    served = 0
    while not pending.done:
        assert machine.ask(18, 0, ApiVersionsRequest()).error_code == 0
        served += 1
        machine.pass_time(1)
    assert served > 4
    data = machine.finish(FETCH, 1, pending).responses[0].partitions[0]
    assert [value for _, value in values(data, 1)] == BIG


@pytest.mark.parametrize("lines", [7, 9000])
def test_an_old_fetch_waits_for_memory_as_everything_does_that_opens_batches(slow: Machine, lines: int) -> None:
    """A batch that opens to 9 MB asks for more of it than one that opens to 7 KB, once it is seen that it does."""
    batch = build(None, [bytes(1000)] * lines, 1_700_000_000_000, codec=codecs.GZIP)
    assert slow.ask(PRODUCE, 9, produced("t", bytes(batch), version=9)).responses[0].partition_responses[0].error_code == 0
    checks = slow.broker.checks
    before = checks.memory.free_bytes, checks.memory_of_large.free_bytes
    checks.memory.free_bytes = checks.memory_of_large.free_bytes = 0
    pending = slow.begin(FETCH, 1, fetched(0, version=1, max_bytes=50 << 20))
    for _ in range(100):
        slow.pass_time(1)
    assert isinstance(pending, DelayedReply)
    assert not pending.done, "there is no memory"
    checks.memory.free_bytes, checks.memory_of_large.free_bytes = before
    for memory in (checks.memory, checks.memory_of_large):
        memory._grant()
    least = sum(before)
    for _ in range(100_000):
        if pending.done:
            break
        slow.pass_time(1)
        least = min(least, checks.memory.free_bytes + checks.memory_of_large.free_bytes)
    (topic,) = slow.finish(FETCH, 1, pending).responses
    assert len(values(topic.partitions[0], 1)) == lines
    assert (checks.memory.free_bytes, checks.memory_of_large.free_bytes) == before, "what was held is free again"
    assert (sum(before) - least > 100 << 20) == (lines == 9000)


def test_a_large_old_produce_is_converted_in_slices_and_appended_whole(slow: Machine) -> None:
    machine = slow
    inner = plain(*BIG[:3000])
    sent = wrapper(0, 0, codecs.GZIP, 0, codecs.compress(codecs.GZIP, inner, magic=0))
    pending = machine.begin(PRODUCE, 0, produced("t", sent))
    assert isinstance(pending, DelayedReply)
    assert not pending.done
    partition = machine.broker.partitions.get("t", 0)
    assert partition is not None
    assert partition.high_watermark == 0, "nothing is appended before all is converted"
    while not pending.done:
        machine.pass_time(1)
    answer = machine.finish(PRODUCE, 0, pending).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset, partition.high_watermark) == (0, 0, 3000)
    data = machine.ask(FETCH, 0, fetched(0, max_bytes=50 << 20)).responses[0].partitions[0]
    assert [record.value for record in open_message_set(data.records).records()] == BIG[:3000]


def test_no_frame_is_kept_while_its_messages_are_converted(slow: Machine) -> None:
    """The network overwrites it as soon as `receive` has returned."""
    machine = slow
    sent = plain(*BIG[:3000])
    body = produced("t", sent)
    frame = bytearray(b"".join(map(bytes, encode_request(FrameHeader(PRODUCE, 0, 7, "test"), body))))[4:]
    pending = machine.broker.receive(memoryview(frame), machine.peer, machine.clock.now())
    assert isinstance(pending, DelayedReply)
    frame[:] = bytes(len(frame))
    while not pending.done:
        machine.pass_time(1)
    answer = machine.finish(PRODUCE, 0, pending).responses[0].partition_responses[0]
    assert answer.error_code == 0


def test_what_was_converted_on_terms_that_hold_no_more_is_converted_again(slow: Machine) -> None:
    """The topic takes smaller messages only by the time that these are to be appended."""
    machine = slow
    pending = machine.begin(PRODUCE, 0, produced("t", plain(*BIG)))
    assert isinstance(pending, DelayedReply)
    change = [{"name": "max.message.bytes", "config_operation": 0, "value": "500"}]
    wanted = [{"resource_type": 2, "resource_name": "t", "configs": change}]
    assert machine.ask(44, 0, request(44, 0, resources=wanted)).responses[0].error_code == 0
    while not pending.done:
        machine.pass_time(1)
    answer = machine.finish(PRODUCE, 0, pending).responses[0].partition_responses[0]
    assert answer.error_code == MESSAGE_TOO_LARGE
    partition = machine.broker.partitions.get("t", 0)
    assert partition is not None
    assert partition.high_watermark == 0


def test_one_that_the_disk_refuses_something_ends_its_connection_and_keeps_no_other_back() -> None:
    world = World()

    def refused() -> Steps[Reply]:
        for _ in range(MOST_STEPS):
            yield None
        raise StorageFailed("t-0/0.log", "Input/output error")

    told: list[Ready] = []
    reply = world.purgatory.run(refused())
    assert isinstance(reply, DelayedReply)
    reply.encode_with(told.append)
    world.ask("other", 3 * MOST_STEPS)
    for _ in range(10):
        world.turn()
    assert told == [Close("its request could not be served: t-0/0.log: Input/output error")]
    assert world.done == ["other", "other told"]
