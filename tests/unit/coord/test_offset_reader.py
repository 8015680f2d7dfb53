"""The quick reader of offsets and the slow one of all records say the same of any bytes."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coord.group_machine import GroupMachine
from ottla.coord.offset_reader import OffsetReader, Replayed
from ottla.coord.offsets import Offsets, OffsetsCommitted
from ottla.coord.records import (
    BARE_V3,
    BARE_V4,
    OffsetCommitted,
    OffsetPending,
    TransactionEnded,
    decode_record,
    encode_record,
)
from ottla.coord.runtime.record_reader import RecordRows, UnreadableRecord
from ottla.coord.settings import GroupSettings
from ottla.wire import encode
from ottla.wire.data.offset_commits import OffsetCommitKey, OffsetCommitValue
from tests.support.coordinator_records import COMMITTED, DAMAGED, NEAR, NEAR_KEYS, NEAR_VALUES, PAIRS, Pair, state


def rows(pairs: list[Pair], gap: bytes = b"\0") -> RecordRows:
    """The pairs as they lie in a batch, with this between the key and the value of each."""
    data, spans = bytearray(b"header"), []
    for key, value in pairs:
        key_at = len(data)
        data += (key or b"") + gap
        spans.append((key_at, -1 if key is None else len(key), len(data), -1 if value is None else len(value)))
        data += value or b""
    return RecordRows(bytes(data), range(len(spans)), *([span[column] for span in spans] for column in range(4)))


Said = Replayed | str | None
"""What a pair says: a record, None, or the sentence of its refusal."""


def slowly(pairs: list[Pair]) -> Iterator[Said]:
    for key, value in pairs:
        try:
            yield decode_record(key or b"", value)
        except UnreadableRecord as unreadable:
            yield str(unreadable)


def quickly(pairs: list[Pair], gap: bytes = b"\0") -> tuple[list[Replayed], list[Said]]:
    """The records that the reader makes of these pairs, and what it says of those that it leaves to others."""
    reader, lying = OffsetReader(), rows(pairs, gap)
    left: list[Said] = []

    def other(row: int) -> Replayed | None:
        try:
            record = reader.read(*lying.record(row))
        except UnreadableRecord as unreadable:
            left.append(str(unreadable))
            return None
        left.append(record)
        return record

    return list(reader.read_all(lying, other)), left


def one_by_one(records: Iterable[Replayed]) -> list[Replayed]:
    return [each for record in records for each in (record.each() if isinstance(record, OffsetsCommitted) else [record])]


def after(records: Iterable[Replayed]) -> object:
    machine = GroupMachine(GroupSettings(), lambda: "id")
    for record in records:
        machine.apply(record)
    return state(machine)


@given(st.lists(PAIRS, max_size=30))
def test_a_coordinator_knows_the_same_whichever_reader_reads(pairs: list[Pair]) -> None:
    quick, left = quickly(pairs)
    slow = list(slowly(pairs))
    assert after(quick) == after(record for record in slow if record is not None and not isinstance(record, str))
    assert [said for said in left if said is None or isinstance(said, str)] == [
        said for said in slow if said is None or isinstance(said, str)
    ]


@given(NEAR | DAMAGED | PAIRS, st.sampled_from([b"", b"\0", b"\x80\0"]))
def test_each_record_is_what_the_slow_reader_says(pair: Pair, gap: bytes) -> None:
    quick, left = quickly([pair], gap)
    (slow,) = slowly([pair])
    assert (one_by_one(quick) or left) == [slow]


@pytest.mark.parametrize("value", NEAR_VALUES, ids=bytes.hex)
def test_what_differs_in_one_thing_is_what_the_slow_reader_says(value: bytes) -> None:
    pairs: list[Pair] = [(key, value) for key in NEAR_KEYS]
    assert after(quickly(pairs)[0]) == after(
        record for record in slowly(pairs) if record is not None and not isinstance(record, str)
    )
    for pair in pairs:
        quick, left = quickly([pair])
        assert (one_by_one(quick) or left) == list(slowly([pair]))


@given(COMMITTED)
def test_what_is_written_is_what_the_declared_messages_write(record: OffsetCommitted) -> None:
    """However quickly the bytes were made."""
    key, value = encode_record(record)
    assert value is not None
    assert key[2:] == encode(OffsetCommitKey(group=record.group_id, topic=record.topic, partition=record.partition), 0)
    version = int.from_bytes(value[:2])
    offset, leader_epoch, metadata, timestamp_ms, expire_ms, topic_id = record[3:]
    stored = OffsetCommitValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_timestamp=timestamp_ms,
        expire_timestamp=expire_ms,
        topic_id=topic_id,
    )
    assert value[2:] == encode(stored, version)


@pytest.mark.parametrize("size", [BARE_V3.size, BARE_V4.size])
def test_a_null_key_is_unreadable(size: int) -> None:
    with pytest.raises(UnreadableRecord):
        OffsetReader().read(None, bytes(size))
    quick, (left,) = quickly([(None, bytes(size))])
    assert not quick
    assert isinstance(left, str)


def offsets(group_id: str, topic: str, partitions: Iterable[int], topic_id: bytes = b"1" * 16) -> list[Pair]:
    return [encode_record(OffsetCommitted(group_id, topic, p, 10 * p, 0, "", 7, topic_id=topic_id)) for p in partitions]


def test_offsets_in_a_row_are_one_record_for_each_group_and_topic() -> None:
    metadata = encode_record(OffsetCommitted("g", "t", 9, 1, 0, "metadata", 7))
    pairs = [*offsets("g", "t", [2, 0, 1]), *offsets("g", "u", [0]), *offsets("h", "u", [0]), metadata, *offsets("h", "u", [1, 2])]
    quick, _ = quickly(pairs)
    places = [(r.group_id, r.topic, list(r.filed)) for r in quick if isinstance(r, OffsetsCommitted)]
    assert places == [("g", "t", [2, 0, 1]), ("g", "u", [0]), ("h", "u", [0]), ("h", "u", [1, 2])]
    assert one_by_one(quick) == list(slowly(pairs))


def test_of_offsets_that_come_again_the_last_one_counts() -> None:
    again = [encode_record(OffsetCommitted("g", "t", partition, 99, 0, "", 7)) for partition in (1, 2)]
    machine = GroupMachine(GroupSettings(), lambda: "id")
    for record in quickly([*offsets("g", "t", [0, 1]), *offsets("h", "t", [0]), *again])[0]:
        machine.apply(record)
    held = machine.offsets.of("g")["t"]
    assert {partition: committed.offset for partition, committed in held.items()} == {0: 0, 1: 99, 2: 99}


def test_what_records_have_in_common_is_kept_once() -> None:
    pairs = [pair for name in ("g", "h") for pair in offsets(name, "topic", range(2))]
    quick, _ = quickly([*pairs, encode_record(OffsetCommitted("g", "topic", 3, 3, 0, "metadata", 7, topic_id=b"1" * 16))])
    found = [record for record in one_by_one(quick) if isinstance(record, OffsetCommitted)]
    assert len(found) == 5
    assert len({id(record.topic) for record in found}) == 1
    assert len({id(record.topic_id) for record in found}) == 1
    assert len({id(record.commit_timestamp_ms) for record in found[:4]}) == 1


def test_offsets_read_back_together_leave_no_pending_one_of_their_places() -> None:
    """As each of them would: what is newer than an offset of a transaction outlives the transaction's end."""
    held = Offsets()
    for partition in range(3):
        held.apply(OffsetPending(11, OffsetCommitted("g", "t", partition, 99, 0, "", 1)))
    for record in quickly(offsets("g", "t", [0, 1]))[0]:
        held.apply(record)  # type: ignore[arg-type]  # of offsets alone
    held.apply(TransactionEnded(11, True))
    assert {partition: committed.offset for partition, committed in held.of("g")["t"].items()} == {0: 0, 1: 10, 2: 99}


def bytes_taken(read: Callable[[list[Pair]], Iterable[Said]], pairs: list[Pair]) -> int:
    """What a coordinator takes in the end that applies what is read of these pairs."""
    machine = GroupMachine(GroupSettings(), lambda: "id")
    tracemalloc.start()
    try:
        for record in read(pairs):
            assert record is not None
            assert not isinstance(record, str)
            machine.apply(record)
        del record
        gc.collect()  # what the interpreter keeps for objects to come is not the coordinator's
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("together", [1, 3, 6])
def test_offsets_read_quickly_take_no_more_memory(together: int) -> None:
    first_partitions = range(0, 6, together)
    names = [f"group-{number}" for number in range(200)]
    pairs = [pair for p in first_partitions for name in names for pair in offsets(name, "t", range(p, p + together))]
    assert bytes_taken(lambda given: iter(quickly(given)[0]), pairs) < bytes_taken(slowly, pairs)
