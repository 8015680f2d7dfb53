"""What share groups keep and where they begin: over restarts, with settings, transactions, and a log that starts later."""

from __future__ import annotations

import pytest

from ottla.broker.serving.purgatory import DelayedReply
from ottla.ports import StorageFailed
from ottla.records.batches.builder import build
from ottla.records.batches.header import batches
from ottla.sim.power import FaultyDisk
from ottla.wire.api.delete_records import DeleteRecordsRequest
from ottla.wire.api.fetch import FetchRequest
from ottla.wire.errors import INVALID_RECORD_STATE, INVALID_REQUEST, KAFKA_STORAGE_ERROR, NONE
from tests.support.machine import Machine
from tests.support.producing import create, produce
from tests.support.share_members import ACCEPT, RELEASE, RENEW, PlayedMember, initialize

T = ("t", 0)
DELETE_RECORDS = 21


@pytest.fixture
def machine() -> Machine:
    machine = Machine()
    create(machine, "t")
    return machine


def append(machine: Machine, batch: bytearray) -> None:
    partition = machine.broker.partitions.get("t", 0)
    assert partition is not None
    headers = [header for _, header in batches(batch)]
    assert partition.append(batch, headers, machine.clock.now(), origin_client=not headers[0].is_control).error_code == 0


def write(machine: Machine, producer_id: int, value: bytes, sequence: int = 0) -> None:
    now_ms = machine.clock.now().wall_ms
    batch = build(None, [value], now_ms, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True)
    append(machine, batch)


def end(machine: Machine, producer_id: int, *, is_commit: bool) -> None:
    key = b"\0\0\0\1" if is_commit else b"\0\0\0\0"
    now_ms = machine.clock.now().wall_ms
    append(machine, build([key], [bytes(6)], now_ms, producer_id=producer_id, producer_epoch=0, transactional=True, control=True))


@pytest.mark.parametrize("way", ["restart", "kill"])
def test_accepted_records_are_accepted_after_a_restart_and_all_others_are_delivered_again(machine: Machine, way: str) -> None:
    initialize(machine)
    for value in (b"a", b"b", b"c", b"d"):
        produce(machine, value)
    member = PlayedMember(machine)
    member.fetch(max_wait_ms=1000)
    assert member.acknowledge(("t", 0, [(0, 0, [ACCEPT]), (1, 1, [RELEASE]), (3, 3, [ACCEPT])])) == {T: NONE}
    getattr(machine, way)()
    machine.broker.image.group_configs["g"] = {"share.auto.offset.reset": "earliest"}
    other = PlayedMember(machine, "m2")
    assert other.fetch(max_wait_ms=1000)[T].acquired == [(1, 1, 2), (2, 2, 1)]
    assert machine.ask(78, 2, member.fetch_request()).error_code != NONE


def test_a_group_begins_at_the_end_by_default(machine: Machine) -> None:
    initialize(machine, share_auto_offset_reset="latest")
    produce(machine, b"before")
    member = PlayedMember(machine)
    pending = member.begin(max_wait_ms=5000)
    assert isinstance(pending, DelayedReply)
    for _ in range(5):
        machine.pass_time(10)
    produce(machine, b"after")
    assert member.end(pending)[T].values == [b"after"]


def test_a_group_begins_with_the_first_record_of_a_duration(machine: Machine) -> None:
    initialize(machine, share_auto_offset_reset="by_duration:PT1M30.5S")
    produce(machine, b"old")
    machine.pass_time(100_000)
    produce(machine, b"new")
    machine.pass_time(60_000)
    assert PlayedMember(machine).fetch(max_wait_ms=1000)[T].values == [b"new"]


def test_a_group_that_finds_nothing_as_new_as_its_duration_begins_at_the_end(machine: Machine) -> None:
    initialize(machine, share_auto_offset_reset="by_duration:PT1S")
    produce(machine, b"old")
    machine.pass_time(10_000)
    member = PlayedMember(machine)
    assert member.fetch(max_wait_ms=100)[T].acquired == []
    produce(machine, b"new")
    assert member.fetch(max_wait_ms=1000)[T].values == [b"new"]


def test_records_of_open_and_aborted_transactions_are_kept_from_a_group_that_reads_committed(machine: Machine) -> None:
    initialize(machine, share_isolation_level="read_committed")
    write(machine, 1, b"aborted")
    write(machine, 2, b"committed")
    member = PlayedMember(machine)
    pending = member.begin(max_wait_ms=5000)
    assert isinstance(pending, DelayedReply)
    end(machine, 1, is_commit=False)
    end(machine, 2, is_commit=True)
    machine.pass_time(10)
    got = member.end(pending)[T] if pending.done else member.got(machine.finish(78, 2, pending))[T]
    assert got.acquired == [(1, 3, 1)], "the member itself passes over markers"
    assert member.acknowledge(("t", 0, [(1, 1, [ACCEPT]), (2, 3, [0])])) == {T: NONE}


def test_a_group_that_reads_uncommitted_gets_records_of_open_transactions(machine: Machine) -> None:
    initialize(machine)
    write(machine, 1, b"open")
    assert PlayedMember(machine).fetch(max_wait_ms=1000)[T].values == [b"open"]


def test_records_that_are_all_aborted_are_passed_over_within_one_fetch(machine: Machine) -> None:
    initialize(machine, share_isolation_level="read_committed")
    for sequence in range(3):
        write(machine, 1, b"aborted", sequence)
    end(machine, 1, is_commit=False)
    produce(machine, b"plain")
    member = PlayedMember(machine)
    got = member.fetch(max_wait_ms=1000, max_records=1)[T]
    assert got.acquired
    assert got.acquired[0][0] >= 3


class UnreadableDisk(FaultyDisk):
    """A disk on which indexes of aborted transactions cannot be read."""

    def may(self, operation: str, path: str, size: int = 0) -> None:
        if operation == "read_file" and path.endswith(".txnindex"):
            raise StorageFailed(path, "Input/output error")
        super().may(operation, path, size)


def fetch_committed(machine: Machine) -> int:
    part = FetchRequest.FetchPartition(partition=0, partition_max_bytes=1 << 20)
    asked = FetchRequest(max_wait_ms=0, isolation_level=1, topics=[FetchRequest.FetchTopic(topic="t", partitions=[part])])
    return int(machine.ask(1, 12, asked).responses[0].partitions[0].error_code)


def test_an_index_of_aborted_transactions_that_cannot_be_read_fails_its_partition_alone() -> None:
    machine = Machine()
    create(machine, "t", 1, internal_segment_bytes=200)  # the indexes of old segments are read when they are needed
    initialize(machine, share_isolation_level="read_committed")
    write(machine, 1, b"aborted")
    end(machine, 1, is_commit=False)
    for _ in range(4):
        produce(machine, b"plain")
    machine.restart()
    machine.broker.image.group_configs["g"] = {"share.auto.offset.reset": "earliest", "share.isolation.level": "read_committed"}
    machine.disk.__class__ = UnreadableDisk
    member = PlayedMember(machine)
    assert member.fetch(max_wait_ms=1000)[T].error_code == KAFKA_STORAGE_ERROR
    assert fetch_committed(machine) == KAFKA_STORAGE_ERROR
    machine.disk.__class__ = FaultyDisk
    assert fetch_committed(machine) == NONE
    assert member.fetch(max_wait_ms=1000)[T].values == [], "the marker comes first"
    assert member.fetch(max_wait_ms=1000)[T].values[0] == b"plain"


def test_deleted_records_are_not_delivered_and_cannot_be_acknowledged(machine: Machine) -> None:
    initialize(machine)
    for value in (b"a", b"b", b"c", b"d"):
        produce(machine, value)
    one, other = PlayedMember(machine, "m1"), PlayedMember(machine, "m2")
    assert one.fetch(max_wait_ms=1000, max_records=1)[T].acquired == [(0, 0, 1)]
    part = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=2)
    body = DeleteRecordsRequest(topics=[DeleteRecordsRequest.DeleteRecordsTopic(name="t", partitions=[part])], timeout_ms=1000)
    assert machine.ask(DELETE_RECORDS, 2, body).topics[0].partitions[0].error_code == NONE
    assert other.fetch(max_wait_ms=1000)[T].acquired == [(2, 3, 1)]
    assert one.acknowledge(("t", 0, [(0, 0, [ACCEPT])]))[T] in (NONE, INVALID_RECORD_STATE)


def test_a_renewed_lock_lasts_longer_and_a_group_can_forbid_that(machine: Machine) -> None:
    initialize(machine, share_record_lock_duration_ms="20000")
    produce(machine, b"a")
    one, other = PlayedMember(machine, "m1"), PlayedMember(machine, "m2")
    one.fetch(max_wait_ms=1000)
    other.fetch()
    machine.pass_time(15_000)
    assert one.acknowledge(("t", 0, [(0, 0, [RENEW])]), is_renew_ack=True) == {T: NONE}
    assert one.acknowledge(("t", 0, [(0, 0, [RENEW])])) == {T: INVALID_REQUEST}
    machine.pass_time(15_000)
    assert other.fetch() == {}
    machine.broker.image.group_configs["g"] = {"share.renew.acknowledge.enable": "false"}
    assert one.acknowledge(("t", 0, [(0, 0, [RENEW])]), is_renew_ack=True) == {T: INVALID_RECORD_STATE}
    machine.pass_time(10_000)
    assert other.fetch(max_wait_ms=100)[T].acquired == [(0, 0, 2)]


def test_a_fetch_that_renews_gets_no_records(machine: Machine) -> None:
    initialize(machine)
    produce(machine, b"a")
    member = PlayedMember(machine)
    member.fetch(max_wait_ms=1000)
    produce(machine, b"b")
    acks = [("t", 0, [(0, 0, [RENEW])])]
    nothing = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "is_renew_ack": True}
    got = member.fetch(acks, **nothing)[T]
    assert (got.acquired, got.acknowledge_error_code) == ([], NONE)
    answer = machine.ask(78, 2, member.fetch_request(acks, is_renew_ack=True, max_wait_ms=1))
    assert answer.error_code == INVALID_REQUEST
    assert (
        answer.error_message
        == "max_bytes, min_bytes, max_records, max_wait_ms must be 0 in a request that renews acquisition locks."
    )


def test_a_record_is_delivered_no_more_often_than_its_group_allows(machine: Machine) -> None:
    initialize(machine, share_delivery_count_limit="2")
    produce(machine, b"poison")
    member = PlayedMember(machine)
    for count in (1, 2):
        assert member.fetch(max_wait_ms=1000)[T].acquired == [(0, 0, count)]
        member.acknowledge(("t", 0, [(0, 0, [RELEASE])]))
    produce(machine, b"next")
    assert member.fetch(max_wait_ms=1000)[T].acquired == [(1, 1, 1)]


def test_no_more_records_are_locked_than_the_group_allows(machine: Machine) -> None:
    initialize(machine, share_partition_max_record_locks="100")
    for _ in range(3):
        produce(machine, *[b"x"] * 60)
    one, other = PlayedMember(machine, "m1"), PlayedMember(machine, "m2")
    got = one.fetch(max_wait_ms=1000)[T].acquired
    assert sum(last - first + 1 for first, last, _ in got) in range(60, 121)
    pending = other.begin(max_wait_ms=5000)
    assert isinstance(pending, DelayedReply)
    one.acknowledge(("t", 0, [(first, last, [ACCEPT]) for first, last, _ in got]))
    machine.pass_time(1)
    assert pending.done
    assert other.end(pending)[T].acquired
