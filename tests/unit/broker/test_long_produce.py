"""Batches that take long to look at: in pieces while others are served, in bounded memory, before any batch is appended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker.handlers.list_offsets import MAX_TIMESTAMP
from ottla.broker.long_checks import LARGE_BYTES, MOST_HELD_BY_LARGE_BYTES, MOST_HELD_BYTES
from ottla.broker.partitions.partition import Partition
from ottla.broker.serving.purgatory import DelayedReply
from ottla.broker.serving.request import Close
from ottla.ports import Done
from ottla.records.batches.builder import build
from ottla.records.batches.header import read_header, write_crc
from ottla.records.compression.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD
from ottla.wire.api.list_offsets import ListOffsetsRequest
from ottla.wire.api.produce import ProduceRequest, ProduceResponse
from ottla.wire.errors import INVALID_RECORD, MESSAGE_TOO_LARGE, UNKNOWN_SERVER_ERROR, UNKNOWN_TOPIC_OR_PARTITION
from ottla.wire.errors import NONE as NO_ERROR
from tests.support.machine import Machine
from tests.support.producing import create, delete, fetch, records
from tests.unit.broker.test_computed import Hasty

KEY, VERSION = 0, 9
NOW = 1_700_000_000_000
MB = 1 << 20
CODECS = [GZIP, SNAPPY, LZ4, ZSTD]


class Threads:
    """The port of threads as tests want it: work waits until they have it done."""

    def __init__(self) -> None:
        self.turns: list[tuple[Callable[[], None], Done, bool]] = []

    def run(self, work: Callable[[], None], done: Done, *, is_large: bool) -> None:
        self.turns.append((work, done, is_large))

    def one(self, at: int = 0) -> None:
        work, done, _ = self.turns.pop(at)
        work()
        done(None)


class Threaded(Machine):
    """A machine with other threads."""

    def __init__(self, **settings: object) -> None:
        self._workers = self.threads = Threads()
        super().__init__(**settings)
        create(self, "t", 4, max_message_bytes=8 * MB)

    def work(self, turns: int = 10_000) -> None:
        """Have so many turns done, or all that are asked for."""
        self.pass_time(1)
        while self.threads.turns and turns:
            self.threads.one()
            self.pass_time(1)
            turns -= 1


def of(codec: int, size: int = 3 * MB, *, value: bytes = b"", **fields: Any) -> bytes:
    return bytes(build([b"key"] * 2, [value or bytes(size), b"last"], NOW, codec=codec, **fields))


def asking(*batches: bytes | None, acks: int = 1, first: int = 0) -> ProduceRequest:
    parts = [ProduceRequest.PartitionProduceData(index=first + number, records=batch) for number, batch in enumerate(batches)]
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[ProduceRequest.TopicProduceData(name="t", partition_data=parts)])


def parts_of(response: ProduceResponse) -> list[Any]:
    return response.responses[0].partition_responses


def codes(response: ProduceResponse) -> list[int]:
    return [part.error_code for part in parts_of(response)]


def promised(machine: Machine, body: ProduceRequest) -> DelayedReply:
    answer = machine.begin(KEY, VERSION, body)
    assert isinstance(answer, DelayedReply)
    return answer


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_opens_to_much_is_looked_at_on_another_thread(codec: int) -> None:
    machine = Threaded()
    pending = promised(machine, asking(of(codec, 20 * MB)))
    assert not pending.done
    assert fetch(machine, "t") == (NO_ERROR, b""), "others are served meanwhile"
    machine.work()
    assert codes(machine.finish(KEY, VERSION, pending)) == [NO_ERROR]
    assert [len(record.value or b"") for record in records(machine, "t")] == [20 * MB, 4]


@pytest.mark.parametrize("codec", CODECS)
def test_a_time_is_looked_for_on_another_thread_where_a_batch_opens_to_much(codec: int) -> None:
    machine = Threaded()
    batch = build([b"key"] * 3, [b"first", bytes(20 * MB), b"last"], [NOW, NOW + 1, NOW + 2], codec=codec)
    pending = promised(machine, asking(bytes(batch)))
    machine.work()
    assert codes(machine.finish(KEY, VERSION, pending)) == [NO_ERROR]
    for time, expected in ((NOW, (NOW, 0)), (NOW + 2, (NOW + 2, 2)), (MAX_TIMESTAMP, (NOW + 2, 2)), (NOW + 3, (-1, -1))):
        part = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=time)
        body = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequest.ListOffsetsTopic(name="t", partitions=[part])])
        answer = machine.begin(2, 7, body)
        assert isinstance(answer, DelayedReply) == (time != NOW + 3), "no batch has to be opened for a time behind all"
        if isinstance(answer, DelayedReply):
            assert fetch(machine, "t")[0] == NO_ERROR, "others are served meanwhile"
            machine.work()
            answer = machine.finish(2, 7, answer)
        found = answer.topics[0].partitions[0]
        assert (found.error_code, (found.timestamp, found.offset)) == (NO_ERROR, expected)


@pytest.mark.parametrize("codec", [NONE, *CODECS])
def test_what_opens_to_little_is_answered_at_once(codec: int) -> None:
    machine = Threaded()
    assert codes(machine.begin(KEY, VERSION, asking(of(codec, 900_000)))) == [NO_ERROR]
    assert not machine.threads.turns


def test_a_batch_of_more_than_a_megabyte_is_no_business_of_the_brokers_thread() -> None:
    machine = Threaded()
    pending = promised(machine, asking(of(NONE, 2 * MB)))
    machine.work()
    assert codes(machine.finish(KEY, VERSION, pending)) == [NO_ERROR]


def test_many_partitions_are_looked_at_in_turns_with_others() -> None:
    machine = Machine()
    create(machine, "t", 300)
    body = asking(*[of(NONE, 10) for _ in range(300)])
    pending = machine.ask(KEY, VERSION, body)
    assert codes(pending) == [NO_ERROR] * 300


def test_nothing_is_appended_before_everything_was_looked_at() -> None:
    machine = Threaded()
    pending = promised(machine, asking(of(NONE, 10), of(ZSTD), of(NONE, 10)))
    assert fetch(machine, "t") == (NO_ERROR, b"")
    machine.work()
    assert codes(machine.finish(KEY, VERSION, pending)) == [NO_ERROR] * 3
    assert len(records(machine, "t")) == 2


@pytest.mark.expects_errors("met a bug in Ottla")
def test_a_mistake_in_one_batch_costs_that_batch_and_not_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    def mistaken(*_: object) -> None:
        raise RuntimeError("a mistake")

    machine = Threaded()
    for size in (3 * MB, 10):
        monkeypatch.setattr(Partition, "check_slowly" if size > MB else "check_at_once", mistaken)
        body = asking(of(ZSTD), of(ZSTD, size), None)
        if size == 10:
            with pytest.raises(RuntimeError):
                machine.begin(KEY, VERSION, asking(of(ZSTD, size)))
            assert not machine.broker.changes.made, "the door refuses such a request"
        pending = promised(machine, body) if size > MB else None
        machine.work()
        if pending is not None:
            assert codes(machine.finish(KEY, VERSION, pending)) == [UNKNOWN_SERVER_ERROR, UNKNOWN_SERVER_ERROR, INVALID_RECORD]


def test_a_mistake_in_the_second_batch_is_met_before_the_first_is_appended(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Threaded()
    true = Partition.check_at_once

    def mistaken(partition: Partition, *given: Any) -> Any:
        if partition.index == 1:
            raise RuntimeError("a mistake")
        return true(partition, *given)

    monkeypatch.setattr(Partition, "check_at_once", mistaken)
    with pytest.raises(RuntimeError):
        machine.begin(KEY, VERSION, asking(of(NONE, 10), of(NONE, 10)))
    assert not machine.broker.changes.made
    assert fetch(machine, "t") == (NO_ERROR, b"")


def test_a_topic_deleted_meanwhile_takes_nothing() -> None:
    machine = Threaded()
    pending = promised(machine, asking(of(ZSTD), of(NONE, 10)))
    machine.threads.one()
    delete(machine, "t")
    machine.work()
    assert codes(machine.finish(KEY, VERSION, pending)) == [UNKNOWN_TOPIC_OR_PARTITION] * 2


def test_a_batch_is_looked_at_again_under_settings_changed_meanwhile() -> None:
    machine = Threaded()
    body = asking(build_without_key())
    pending = promised(machine, body)
    machine.threads.one()
    machine.set_topic("t", {"cleanup.policy": "compact", "max.message.bytes": str(8 * MB)})
    machine.work()
    assert codes(machine.finish(KEY, VERSION, pending)) == [INVALID_RECORD]


def build_without_key() -> bytes:
    return bytes(build(None, [bytes(3 * MB)], NOW, codec=ZSTD))


def test_the_broker_s_time_is_that_of_the_append() -> None:
    machine = Threaded()
    machine.set_topic("t", {"message.timestamp.type": "LogAppendTime", "max.message.bytes": str(8 * MB)})
    pending = promised(machine, asking(of(ZSTD)))
    machine.pass_time(5000)
    machine.work()
    part = parts_of(machine.finish(KEY, VERSION, pending))[0]
    assert part.log_append_time_ms >= NOW + 5000


def test_sequences_stay_in_order_and_a_retry_is_known() -> None:
    machine = Threaded()
    for sequence, expected in ((0, 0), (2, 2), (0, 0)):
        pending = promised(machine, asking(of(ZSTD, producer_id=7, producer_epoch=0, base_sequence=sequence)))
        machine.work()
        part = parts_of(machine.finish(KEY, VERSION, pending))[0]
        assert (part.error_code, part.base_offset) == (NO_ERROR, expected)


def test_the_next_request_may_begin_when_only_a_sync_is_left_to_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Threaded()
    told: list[bool] = []
    pending = promised(machine, asking(of(ZSTD), acks=-1))
    pending.ready = lambda: told.append(pending.done)
    assert pending.blocking
    with monkeypatch.context() as patch:
        patch.setattr(machine.disk, "run_syncs", lambda: 0)
        machine.work()
        assert (pending.blocking, told) == (False, [False])
    machine.pass_time(1)
    assert told == [False, True]


def test_the_bytes_of_a_frame_that_is_used_again_are_copied() -> None:
    machine = Threaded()
    parts = machine.frame_of(KEY, VERSION, asking(of(ZSTD)))
    answer = machine.broker.receive(parts, machine.peer, machine.clock.now())
    parts[:] = bytes(len(parts))
    machine.settle()
    machine.work()
    assert isinstance(answer, DelayedReply)
    assert codes(machine.finish(KEY, VERSION, answer)) == [NO_ERROR]
    assert len(records(machine, "t")) == 2


def test_batches_take_turns_on_a_thread() -> None:
    machine = Threaded()
    pending = [promised(machine, asking(of(GZIP, 40 * MB), first=number)) for number in range(3)]
    seen: list[int] = []
    while machine.threads.turns:
        seen.append(id(machine.threads.turns[0][0]))
        machine.work(1)
    assert all(one.done for one in pending)
    rounds = [seen[at : at + 3] for at in range(0, 12, 3)]
    assert all(len(set(turn)) == 3 for turn in rounds)


def test_large_batches_have_a_thread_of_their_own_once_it_shows_that_they_are() -> None:
    machine = Threaded()
    promised(machine, asking(of(GZIP, 40 * MB)))
    lanes = []
    while machine.threads.turns:
        lanes.append(machine.threads.turns[0][2])
        machine.work(1)
    assert lanes == sorted(lanes)
    assert (lanes[0], lanes[-1]) == (False, True)


@pytest.mark.parametrize("codec", CODECS)
def test_memory_is_bounded_over_all_connections(codec: int) -> None:
    machine = Threaded()
    checks = machine.broker.checks
    pending = [promised(machine, asking(of(codec, 60 * MB), first=number % 4)) for number in range(4)]
    least = [checks.memory.free_bytes, checks.memory_of_large.free_bytes]
    while not all(one.done for one in pending):
        machine.work(1)
        machine.pass_time(1)
        least = [min(least[0], checks.memory.free_bytes), min(least[1], checks.memory_of_large.free_bytes)]
        assert len(machine.threads.turns) <= 8
    assert min(least) >= 0
    assert (least[1] < LARGE_BYTES * 2) == (codec == ZSTD), "two of 60 MB at once"
    assert (checks.memory.free_bytes, checks.memory_of_large.free_bytes) == (MOST_HELD_BYTES, MOST_HELD_BY_LARGE_BYTES)


def test_a_client_that_is_gone_frees_the_memory_and_the_thread() -> None:
    machine = Threaded()
    checks = machine.broker.checks
    pending = [promised(machine, asking(of(ZSTD, 100 * MB))) for _ in range(3)]
    for _ in range(6):
        machine.work(1)
    assert checks.memory_of_large.free_bytes < MOST_HELD_BY_LARGE_BYTES
    for one in pending:
        machine.broker.forget(one)
    machine.work(3)
    machine.pass_time(1)
    assert not machine.threads.turns
    assert checks.memory_of_large.free_bytes == MOST_HELD_BY_LARGE_BYTES
    assert fetch(machine, "t") == (NO_ERROR, b"")


def test_refusals_of_large_batches_are_those_of_small_ones() -> None:
    machine = Threaded()
    broken = bytearray(of(ZSTD))
    broken[100:] = bytes(len(broken) - 100)
    write_crc(broken, 0, len(broken))
    flipped = bytearray(of(NONE))
    flipped[-1] ^= 1
    for batch, error_code in (
        (broken, INVALID_RECORD),
        (of(ZSTD, 129 * MB), MESSAGE_TOO_LARGE),
        (of(GZIP, 129 * MB), MESSAGE_TOO_LARGE),
        (of(NONE, 9 * MB), MESSAGE_TOO_LARGE),
        (flipped, 2),
    ):
        pending = machine.begin(KEY, VERSION, asking(bytes(batch), of(NONE, 10)))
        machine.work()
        response = machine.finish(KEY, VERSION, pending) if isinstance(pending, DelayedReply) else pending
        assert codes(response) == [error_code, NO_ERROR]


@pytest.mark.parametrize("codec", CODECS)
def test_large_batches_change_their_codec_on_another_thread(codec: int) -> None:
    machine = Threaded()
    for wanted in ("uncompressed", "gzip", "snappy", "lz4", "zstd"):
        machine.set_topic("t", {"compression.type": wanted, "max.message.bytes": str(8 * MB)})
        pending = promised(machine, asking(of(codec, 3 * MB)))
        machine.work()
        assert codes(machine.finish(KEY, VERSION, pending)) == [NO_ERROR]
    for number, stored in enumerate((NONE, GZIP, SNAPPY, LZ4, ZSTD)):
        assert read_header(fetch(machine, "t", offset=2 * number)[1]).codec == stored
        assert [len(record.value or b"") for record in records(machine, "t", offset=2 * number)][:2] == [3 * MB, 4]


def test_what_is_kept_to_be_compressed_by_zstd_counts_as_memory() -> None:
    machine = Threaded()
    machine.set_topic("t", {"compression.type": "zstd", "max.message.bytes": str(8 * MB)})
    checks = machine.broker.checks
    pending = [promised(machine, asking(of(GZIP, 70 * MB))) for _ in range(2)]
    machine.work(3)
    assert checks.memory_of_large.free_bytes < 60 * MB
    assert sum(large for _, _, large in machine.threads.turns) <= 1, "there is not enough for two"
    machine.work()
    assert [codes(machine.finish(KEY, VERSION, one)) for one in pending] == [[NO_ERROR]] * 2
    assert checks.memory_of_large.free_bytes == MOST_HELD_BY_LARGE_BYTES


def test_a_batch_that_grows_too_large_in_the_topic_s_codec_is_refused() -> None:
    machine = Threaded()
    machine.set_topic("t", {"compression.type": "uncompressed"})
    pending = promised(machine, asking(of(ZSTD, 20 * MB)))
    machine.work()
    assert codes(machine.finish(KEY, VERSION, pending)) == [MESSAGE_TOO_LARGE]


def test_without_other_threads_it_is_done_in_slices() -> None:
    machine = Machine()
    create(machine, "t", max_message_bytes=8 * MB)
    assert codes(machine.ask(KEY, VERSION, asking(of(LZ4, 30 * MB)))) == [NO_ERROR]


def test_a_request_of_very_many_partitions_is_served_a_block_at_a_time() -> None:
    machine = Machine()
    create(machine, "t", 4)
    machine.broker.scheduler._clock = Hasty(machine.clock)
    body = asking(*(of(NONE, 10) for _ in range(3000)), acks=-1)
    pending = promised(machine, body)
    assert fetch(machine, "t") == (NO_ERROR, b""), "all are looked at before any is appended"
    turns = 0
    while not pending.done and turns < 10_000:
        machine.pass_time(1)
        turns += 1
    assert turns > 100
    response = machine.finish(KEY, VERSION, pending)
    assert [part.index for part in parts_of(response)] == list(range(3000))
    assert codes(response) == [NO_ERROR] * 4 + [UNKNOWN_TOPIC_OR_PARTITION] * 2996
    assert len(records(machine, "t")) == 2


def test_a_request_of_very_many_partitions_that_wants_no_reply_gets_none_or_its_connections_end() -> None:
    machine = Machine()
    create(machine, "t", 3000)
    machine.broker.scheduler._clock = Hasty(machine.clock)
    for first, is_refused in ((0, False), (1, True)):
        pending = promised(machine, asking(*(of(NONE, 10) for _ in range(3000)), acks=0, first=first))
        for _ in range(10_000):
            if not pending.done:
                machine.pass_time(1)
        assert pending.done
        assert isinstance(pending.answer, Close) == is_refused
        assert is_refused or pending.answer is None


def test_a_large_request_of_few_partitions_is_read_at_once() -> None:
    machine = Machine()
    create(machine, "t", 2)
    answer = machine.begin(KEY, VERSION, asking(of(NONE, 80_000), of(NONE, 10), acks=1))
    assert not isinstance(answer, DelayedReply)
