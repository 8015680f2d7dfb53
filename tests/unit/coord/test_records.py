"""Records of `__consumer_offsets` as Kafka writes them: bytes taken from a log that Apache Kafka 4.3 wrote, and round trips."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coord.partitioning import java_hash, partition_of
from ottla.coord.records import (
    GroupForgotten,
    GroupStored,
    OffsetCommitted,
    OffsetForgotten,
    StoredMember,
    Unreadable,
    decode_record,
    encode_record,
)

NAMES = st.text(st.characters(codec="utf-8"), max_size=20)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
IDS = st.binary(min_size=16, max_size=16)


def offsets_committed(
    expire: st.SearchStrategy[int], topic_id: st.SearchStrategy[bytes], epoch: st.SearchStrategy[int]
) -> st.SearchStrategy[OffsetCommitted]:
    return st.builds(OffsetCommitted, NAMES, NAMES, INT32, INT64, epoch, NAMES, INT64, expire, topic_id)


MEMBERS = st.builds(StoredMember, NAMES, st.none() | NAMES, NAMES, NAMES, st.integers(0, 1 << 30), INT32, st.binary(), st.binary())
RECORDS = st.one_of(
    offsets_committed(st.just(-1), IDS, INT32),
    offsets_committed(st.integers(0, 1 << 50), st.just(bytes(16)), st.just(-1)),
    st.builds(OffsetForgotten, NAMES, NAMES, INT32),
    st.builds(
        GroupStored, NAMES, NAMES, INT32, st.none() | NAMES, st.none() | NAMES, INT64, st.lists(MEMBERS, max_size=3).map(tuple)
    ),
    st.builds(GroupForgotten, NAMES),
)


@given(RECORDS)
def test_a_record_reads_back_as_it_was(record: OffsetCommitted | OffsetForgotten | GroupStored | GroupForgotten) -> None:
    assert decode_record(*encode_record(record)) == record


@given(RECORDS, st.data())
def test_damaged_bytes_are_unreadable_or_another_record(
    record: OffsetCommitted | OffsetForgotten | GroupStored | GroupForgotten, data: st.DataObject
) -> None:
    key, value = encode_record(record)
    damaged = bytearray(value if value is not None else key)
    position = data.draw(st.integers(0, len(damaged) - 1))
    damaged[position] ^= data.draw(st.integers(1, 255))
    try:
        if value is None:
            decode_record(bytes(damaged), None)
        else:
            decode_record(key, bytes(damaged))
    except Unreadable as unreadable:
        assert str(unreadable)


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\1\0"])
def test_a_key_that_is_too_short_is_unreadable(key: bytes) -> None:
    with pytest.raises(Unreadable):
        decode_record(key, None)


def test_a_newer_version_is_unreadable_and_said_so() -> None:
    key, _ = encode_record(GroupForgotten("g"))
    with pytest.raises(Unreadable, match="version 9"):
        decode_record(key, b"\0\x09rest")


def test_kinds_of_other_groups_are_passed_over() -> None:
    assert decode_record(b"\0\x03anything", b"") is None


def test_an_offset_is_stored_byte_for_byte_as_kafka_does() -> None:
    key, value = encode_record(OffsetCommitted("g", "t", 1, 42, 7, "m", 1_000))
    assert key == b"\0\x01" + b"\0\x01g" + b"\0\x01t" + b"\0\0\0\x01"
    assert value == b"\0\x03" + (42).to_bytes(8, "big") + b"\0\0\0\x07" + b"\0\x01m" + (1_000).to_bytes(8, "big")


def test_an_offset_with_a_retention_of_its_own_is_stored_in_version_1() -> None:
    _, value = encode_record(OffsetCommitted("g", "t", 1, 42, 7, "m", 1_000, 2_000))
    assert value == b"\0\x01" + (42).to_bytes(8, "big") + b"\0\x01m" + (1_000).to_bytes(8, "big") + (2_000).to_bytes(8, "big")


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        ("", 0),
        ("a", 97),
        ("my-group", -1_906_497_762),
        ("polygenelubricants", -(1 << 31)),
        ("группа", 1_749_938_458),
        ("😀", 1_772_899),
    ],
)
def test_java_hash_is_javas(text: str, hashed: int) -> None:
    assert java_hash(text) == hashed


def test_the_partition_of_a_group_is_kafkas() -> None:
    assert partition_of("my-group", 50) == 1_906_497_762 % 50
    assert partition_of("polygenelubricants", 50) == 0
