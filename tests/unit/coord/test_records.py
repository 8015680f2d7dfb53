"""Records of `__consumer_offsets` as Kafka writes them: bytes from a log of Apache Kafka 4.3, round trips, and damage."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coord.coordinator_partitions import UNITS_AT_ONCE, java_hash, partition_of
from ottla.coord.records import (
    GroupForgotten,
    GroupStored,
    OffsetCommitted,
    OffsetForgotten,
    StoredMember,
    decode_record,
    encode_record,
)
from ottla.coord.runtime.record_reader import UnreadableRecord
from tests.support.coordinator_records import is_stored

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
def test_damaged_bytes_are_a_record_or_unreadable_and_nothing_worse(
    record: OffsetCommitted | OffsetForgotten | GroupStored | GroupForgotten, data: st.DataObject
) -> None:
    key, value = encode_record(record)
    damaged = bytearray(value if value is not None else key)
    position = data.draw(st.integers(0, len(damaged) - 1))
    damaged[position] ^= data.draw(st.integers(1, 255))
    read = (bytes(damaged), None) if value is None else (key, bytes(damaged))
    try:
        found = decode_record(*read)
    except UnreadableRecord:
        return
    assert found is None or is_stored(found)


@pytest.mark.parametrize("key", [b"", b"\0", b"\0\1\0"])
def test_a_key_that_is_too_short_is_unreadable(key: bytes) -> None:
    with pytest.raises(UnreadableRecord):
        decode_record(key, None)


def test_a_newer_version_is_unreadable_and_said_so() -> None:
    key, _ = encode_record(GroupForgotten("g"))
    with pytest.raises(UnreadableRecord, match="version 9"):
        decode_record(key, b"\0\x09rest")


def test_kinds_of_other_groups_are_passed_over() -> None:
    assert decode_record(b"\0\x7fanything", b"") is None


KAFKAS_ID = b"inst-eb6ffd15-65e3-41c7-bf76-7bd3750f7c08"
KAFKAS_TOPIC_ID = bytes.fromhex("38e3f91916bb4cbdb5d7264dd332c83e")
KAFKAS_SUBSCRIPTION = b"\0\x03\0\0\0\x01\0\x01t\0\0\0\0\0\0\0\0\xff\xff\xff\xff\0\0"
KAFKAS_ASSIGNMENT = b"\0\0\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x02\0\0\0\0"


def test_what_kafka_wrote_is_read_and_written_alike() -> None:
    """Key and value of an offset and of a group, as Apache Kafka 4.3 stored them for a static member of confluent-kafka."""
    offset = (
        b"\0\x01\0\x01g\0\x01t\0\0\0\x01",
        b"\0\x04\0\0\0\0\0\0\0*\xff\xff\xff\xff\x02m\0\0\x01\xa1\xfc\xbf\xf6\xd6\x01\0\x10" + KAFKAS_TOPIC_ID,
    )
    group = (
        b"\0\x02\0\x01g",
        b"\0\x03\0\x08consumer\0\0\0\x01\0\x05range\0)"
        + KAFKAS_ID
        + b"\0\0\x01\xa1\xfc\xbf\xf6\x85\0\0\0\x01\0)"
        + KAFKAS_ID
        + b"\0\x04inst\0\x03cid\0\n/127.0.0.1\0\x04\x93\xe0\0\0\xaf\xc8"
        + b"\0\0\0\x17"
        + KAFKAS_SUBSCRIPTION
        + b"\0\0\0\x15"
        + KAFKAS_ASSIGNMENT,
    )
    member_id = KAFKAS_ID.decode()
    member = StoredMember(member_id, "inst", "cid", "/127.0.0.1", 300_000, 45_000, KAFKAS_SUBSCRIPTION, KAFKAS_ASSIGNMENT)
    committed = OffsetCommitted("g", "t", 1, 42, -1, "m", 1_795_241_801_430, -1, KAFKAS_TOPIC_ID)
    stored = GroupStored("g", "consumer", 1, "range", member_id, 1_795_241_801_349, (member,))
    assert decode_record(*offset) == committed
    assert encode_record(committed) == offset
    assert decode_record(*group) == stored
    assert encode_record(stored) == group


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


def _hashed_one_by_one(text: str) -> int:
    value = 0
    for low, high in pairs(text.encode("utf-16-le", "surrogatepass")):
        value = (31 * value + (high << 8 | low)) % (1 << 32)
    return value - (1 << 32) if value >= 1 << 31 else value


def pairs(raw: bytes) -> Iterable[tuple[int, int]]:
    return zip(raw[::2], raw[1::2], strict=True)


@pytest.mark.parametrize(
    "units", [1, 2, 3, 4, 5, UNITS_AT_ONCE - 1, UNITS_AT_ONCE, UNITS_AT_ONCE + 1, 3 * UNITS_AT_ONCE, 5 * UNITS_AT_ONCE + 7]
)
@pytest.mark.parametrize("text", ["a", "\x7f\0", "é", "\uffff", "\ud800", "😀", "my-🚄-id-я"])
def test_the_hash_of_a_text_of_any_length_is_that_of_its_units_one_by_one(text: str, units: int) -> None:
    long = (text * units)[:units]
    assert java_hash(long) == _hashed_one_by_one(long)


@pytest.mark.parametrize("key", ["k" * 32_767, "😀" * 8_191])
def test_a_long_key_is_not_hashed_unit_by_unit(key: str) -> None:
    """Anybody can send one, in any request of a group or of a transaction."""
    lines = 0

    def count(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        java_hash(key)
    finally:
        sys.settrace(before)
    assert lines < 1_000


def test_the_partition_of_a_group_is_kafkas() -> None:
    assert partition_of("my-group", 50) == 1_906_497_762 % 50
    assert partition_of("polygenelubricants", 50) == 0
