"""`__consumer_offsets` read back at start-up: poison is named once and costs nobody else anything; transactions end as they did."""

from __future__ import annotations

import logging
from struct import pack
from typing import Any

import pytest

from ottla.broker.coordination.replay import NAMED
from ottla.broker.partitions.partition import Partition
from ottla.cluster.names import OFFSETS_TOPIC
from ottla.coord.coordinator_partitions import partition_of
from ottla.coord.records import OffsetCommitted, encode_record
from ottla.log.segments.transaction_index import ABORT, COMMIT
from ottla.records.batches.builder import build
from ottla.records.batches.header import read_header
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.metadata import MetadataRequest
from ottla.wire.api.offset_commit import OffsetCommitRequest
from ottla.wire.api.offset_fetch import OffsetFetchRequest
from ottla.wire.errors import NONE, UNSTABLE_OFFSET_COMMIT
from tests.support.machine import Machine

LOG = "ottla.broker"
OFFSET_KEY = b"\0\1" + pack(">h1sh1si", 1, b"p", 1, b"t", 0)
GROUP_KEY = b"\0\2" + pack(">h1s", 1, b"p")
POISON: dict[str, tuple[bytes | None, bytes | None]] = {
    "an offset's value of a version to come": (OFFSET_KEY, b"\0\x63" + bytes(30)),
    "a group's value of a version to come": (GROUP_KEY, b"\0\x63" + bytes(30)),
    "a truncated offset": (OFFSET_KEY, b"\0\3\0\0\0"),
    "a truncated group": (GROUP_KEY, b"\0\3\0\x08consumer"),
    "an empty value": (OFFSET_KEY, b""),
    "a null key": (None, b"\0\3"),
    "an empty key": (b"", b"\0\3"),
    "a key that ends within its group": (b"\0\1\0\x30short", b"\0\3" + bytes(22)),
    "a key that is no UTF-8": (b"\0\1\0\1\xff\0\1t\0\0\0\0", b"\0\3" + bytes(22)),
    "a key with something left over": (OFFSET_KEY + b"more", b"\0\3" + bytes(22)),
}


@pytest.fixture
def machine() -> Machine:
    machine = Machine(offsets_topic_num_partitions=1, num_partitions=2)
    machine.ask(3, 4, MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="t")], allow_auto_topic_creation=True))
    machine.ask(10, 0, FindCoordinatorRequest(key="g"))
    return machine


def partition(machine: Machine) -> Partition:
    found = machine.broker.partitions.get(OFFSETS_TOPIC, partition_of("g", 1))
    assert found is not None
    return found


def append(machine: Machine, batch: bytearray) -> None:
    assert partition(machine).append(batch, (read_header(batch),), machine.clock.now(), origin_client=False).error_code == NONE


def commit(machine: Machine, group: str, offset: int) -> None:
    part = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[part])
    response = machine.ask(8, 8, OffsetCommitRequest(group_id=group, topics=[topic]))
    assert response.topics[0].partitions[0].error_code == NONE


def fetched(machine: Machine, group: str, *, require_stable: bool = False) -> tuple[int, int]:
    topic = OffsetFetchRequest.OffsetFetchRequestTopics(name="t", partition_indexes=[0])
    wanted = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=[topic])
    response: Any = machine.ask(9, 8, OffsetFetchRequest(groups=[wanted], require_stable=require_stable))
    (part,) = response.groups[0].topics[0].partitions
    return part.error_code, part.committed_offset


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == LOG and ("passed over" in record.getMessage() or "skipped" in record.getMessage())
    ]


@pytest.mark.expects_errors("passed over")
@pytest.mark.parametrize("kind", POISON)
def test_poison_is_named_in_one_line_and_harms_nobody_else(machine: Machine, caplog: pytest.LogCaptureFixture, kind: str) -> None:
    commit(machine, "before", 1)
    key, value = POISON[kind]
    append(machine, build([key], [value], 0))
    commit(machine, "after", 2)
    with caplog.at_level(logging.INFO, LOG):
        machine.restart()
    (line,) = lines(caplog)
    assert line.startswith("__consumer_offsets-0: the record at offset 1 is passed over: ")
    assert (fetched(machine, "before"), fetched(machine, "after")) == ((NONE, 1), (NONE, 2))
    commit(machine, "before", 3)
    assert fetched(machine, "before") == (NONE, 3)


@pytest.mark.expects_errors("passed over")
def test_poison_within_a_batch_spares_its_neighbours(machine: Machine) -> None:
    good = [encode_record(OffsetCommitted(name, "t", 0, 5, 0, "", 1)) for name in ("first", "last")]
    rows = [good[0], *POISON.values(), good[1]]
    append(machine, build([key for key, _ in rows], [value for _, value in rows], 0))
    machine.restart()
    assert (fetched(machine, "first"), fetched(machine, "last")) == ((NONE, 5), (NONE, 5))


@pytest.mark.expects_errors("is passed over", "cannot be read", "is damaged")
def test_a_damaged_batch_is_named_and_the_others_are_read(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    commit(machine, "before", 1)
    key, value = encode_record(OffsetCommitted("damaged", "t", 0, 5, 0, "", 1))
    batch = build([key], [value], 0)
    batch[-5] ^= 0xFF
    append(machine, batch)
    commit(machine, "after", 2)
    with caplog.at_level(logging.INFO, LOG):
        machine.restart()
    (line,) = lines(caplog)
    assert line.startswith("__consumer_offsets-0: the batch at offset 1 is passed over: ")
    assert (fetched(machine, "before"), fetched(machine, "damaged"), fetched(machine, "after")) == (
        (NONE, 1),
        (NONE, -1),
        (NONE, 2),
    )


def test_kinds_that_only_a_newer_release_knows_are_counted(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    commit(machine, "before", 1)
    append(machine, build([b"\0\x63new", b"\0\x63newer"], [b"\0\0", b"\0\0"], 0))
    commit(machine, "after", 2)
    with caplog.at_level(logging.INFO, LOG):
        machine.restart()
    assert lines(caplog) == ["__consumer_offsets-0: 2 records of types of a newer release were skipped"]
    assert fetched(machine, "after") == (NONE, 2)


@pytest.mark.expects_errors("passed over")
def test_of_much_poison_only_the_first_is_named(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    append(machine, build([b""] * 50, [b""] * 50, 0))
    with caplog.at_level(logging.INFO, LOG):
        machine.restart()
    assert len(lines(caplog)) == NAMED + 1
    assert (
        lines(caplog)[-1] == f"__consumer_offsets-0: 50 records or batches were passed over, of which the first {NAMED} are named"
    )


def transactional(machine: Machine, producer_id: int, group: str, offset: int) -> None:
    key, value = encode_record(OffsetCommitted(group, "t", 0, offset, 0, "", 1))
    append(machine, build([key], [value], 0, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True))


def end(machine: Machine, producer_id: int, kind: int) -> None:
    key, value = pack(">hh", 0, kind), pack(">hi", 0, 0)
    append(machine, build([key], [value], 0, producer_id=producer_id, producer_epoch=0, transactional=True, control=True))


def test_offsets_of_transactions_count_as_their_markers_say(machine: Machine) -> None:
    for name in ("committed", "aborted", "open"):
        commit(machine, name, 1)
    transactional(machine, 11, "committed", 5)
    transactional(machine, 12, "aborted", 6)
    transactional(machine, 13, "open", 7)
    end(machine, 11, COMMIT)
    end(machine, 12, ABORT)
    machine.restart()
    assert fetched(machine, "committed", require_stable=True) == (NONE, 5)
    assert fetched(machine, "aborted", require_stable=True) == (NONE, 1)
    assert fetched(machine, "open") == (NONE, 1)
    assert fetched(machine, "open", require_stable=True) == (UNSTABLE_OFFSET_COMMIT, -1)
