"""The quick reader of offsets and the slow one of all records say the same of any bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coord.offset_reader import OffsetReader
from ottla.coord.records import BARE_V3, BARE_V4, OffsetCommitted, Unreadable, decode_record, encode_record
from ottla.wire import encode
from ottla.wire.data.offset_commit import OffsetCommitKey, OffsetCommitValue

NAMES = st.text(st.characters(codec="utf-8"), max_size=20)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
IDS = st.just(bytes(16)) | st.binary(min_size=16, max_size=16)
COMMITTED = st.builds(OffsetCommitted, NAMES, NAMES, INT32, INT64, INT32, st.just("") | NAMES, INT64, st.just(-1) | INT64, IDS)


def outcome(read: object, key: bytes | None, value: bytes | None) -> object:
    """What a reader makes of these bytes: a record, None, or the sentence of its refusal."""
    assert callable(read)
    try:
        return read(key, value)
    except Unreadable as unreadable:
        return str(unreadable)


@given(st.lists(COMMITTED, max_size=20))
def test_what_was_stored_reads_back_whichever_reader_reads_it(records: list[OffsetCommitted]) -> None:
    reader = OffsetReader()
    for record in records:
        assert outcome(reader.read, *encode_record(record)) == outcome(decode_record, *encode_record(record))


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


@given(COMMITTED, st.data())
def test_damaged_bytes_are_refused_in_the_same_words(record: OffsetCommitted, data: st.DataObject) -> None:
    reader = OffsetReader()
    key, value = encode_record(record)
    reader.read(key, value)
    assert value is not None
    damaged = [bytearray(key), bytearray(value)]
    which = damaged[data.draw(st.integers(0, 1))]
    which[data.draw(st.integers(0, len(which) - 1))] ^= data.draw(st.integers(1, 255))
    bad_key, bad_value = map(bytes, damaged)
    assert outcome(reader.read, bad_key, bad_value) == outcome(decode_record, bad_key, bad_value)


@given(
    st.binary(max_size=30),
    st.sampled_from([BARE_V3.size, BARE_V4.size]).flatmap(lambda size: st.binary(min_size=size, max_size=size)),
)
def test_any_bytes_of_the_usual_sizes_are_read_alike(key: bytes, value: bytes) -> None:
    assert outcome(OffsetReader().read, b"\0\1" + key, value) == outcome(decode_record, b"\0\1" + key, value)


@pytest.mark.parametrize("size", [BARE_V3.size, BARE_V4.size])
def test_a_null_key_is_unreadable(size: int) -> None:
    with pytest.raises(Unreadable):
        OffsetReader().read(None, bytes(size))


def test_what_records_have_in_common_is_kept_once() -> None:
    reader = OffsetReader()
    read = [reader.read(*encode_record(OffsetCommitted("g", "topic", p, p, 0, "", 7, topic_id=b"1" * 16))) for p in range(2)]
    first, second = (record for record in read if isinstance(record, OffsetCommitted))
    assert first.group_id is second.group_id
    assert first.topic is second.topic
    assert first.topic_id is second.topic_id
