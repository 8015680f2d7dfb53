"""Whatever the bytes are, nothing but `Malformed` leaves `decode`, and it says where."""

from __future__ import annotations

import random

import pytest

from ottla.wire import Malformed, decode, encode
from ottla.wire.api.fetch import FetchResponse
from ottla.wire.api.metadata import MetadataRequest, MetadataResponse
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.inspection.walk import read_seen
from ottla.wire.schema import Message
from tests.fuzz.mutations import mutations
from tests.unit.wire.agreement import assert_as_walked
from tests.unit.wire.values import EVERY, sample, structs_of

pytestmark = pytest.mark.usefixtures("codecs")

_SEED = 20_240_607


def outcome(cls: type[Message], version: int, data: bytes | memoryview) -> Message | Malformed:
    try:
        return decode(cls, version, data)
    except Malformed as e:
        return e


@pytest.mark.rows(170, seconds=0.05)
@pytest.mark.parametrize("cls", EVERY, ids=lambda cls: cls.__name__)
def test_mutated_bytes_raise_malformed_and_nothing_else(cls: type[Message]) -> None:
    rng = random.Random(_SEED)
    for version in {cls.WIRE.valid.start, cls.WIRE.flexible.start if cls.WIRE.flexible else 0, cls.WIRE.valid.stop - 1}:
        if version not in cls.WIRE.valid:
            continue
        seeds = [encode(sample(cls, version, rng), version) for _ in range(3)]
        for data in mutations(seeds, rng):
            found, found_in_view = outcome(cls, version, data), outcome(cls, version, memoryview(b"--" + data)[2:])
            walked = read_seen(cls, version, data)
            if walked.fault:
                assert str(found) == str(found_in_view) == str(walked.fault), data
                assert (walked.fault.message, walked.fault.version) == (cls.__name__, version)
                assert 0 <= walked.fault.position <= len(data)
                continue
            for msg in (found, found_in_view):
                assert isinstance(msg, cls), data
                assert_as_walked(msg, version, walked.leaves)


def test_a_fault_names_message_version_field_and_position() -> None:
    good = encode(
        ProduceRequest(
            topic_data=[
                ProduceRequest.TopicProduceData(
                    name="flights", partition_data=[ProduceRequest.PartitionProduceData(index=3, records=b"abc")]
                )
            ]
        ),
        9,
    )
    with pytest.raises(Malformed) as caught:
        decode(ProduceRequest, 9, good[:-5])
    assert str(caught.value) == (
        "ProduceRequest v9, topic_data[0].partition_data[0].records at byte 22: records of 3 bytes runs past the end: 1 are left"
    )
    assert caught.value.path == "topic_data[0].partition_data[0].records"


def test_positions_count_from_the_start_of_the_buffer() -> None:
    with pytest.raises(Malformed) as caught:
        decode(MetadataRequest, 0, b"12345" + b"\0\0", 5)
    assert caught.value.position == 5


def test_bytes_after_the_message_are_refused() -> None:
    data = encode(MetadataRequest(topics=None), 9)
    with pytest.raises(Malformed, match="2 bytes are left over"):
        decode(MetadataRequest, 9, data + b"\0\0")


@pytest.mark.parametrize("count", [b"\x7f\xff\xff\xff", b"\0\xff\xff\xff"])
def test_a_huge_count_is_refused_before_anything_is_made(count: bytes) -> None:
    with pytest.raises(Malformed, match="items of 2 bytes or more cannot be in the 100 that are left"):
        decode(MetadataRequest, 0, count + bytes(100))


def test_a_huge_compact_count_is_refused_before_anything_is_made() -> None:
    with pytest.raises(Malformed, match="cannot be in the"):
        decode(MetadataResponse, 9, b"\0\0\0\0" + b"\xff\xff\xff\xff\x0f" + bytes(50))


def test_null_where_no_null_may_be_is_refused() -> None:
    with pytest.raises(Malformed, match="topics at byte 0: is null"):
        decode(MetadataRequest, 0, b"\xff\xff\xff\xff")


def test_a_string_longer_than_a_string_may_be_is_refused() -> None:
    data = encode(ProduceRequest(transactional_id="x" * 32_767), 9)
    assert decode(ProduceRequest, 9, data).transactional_id == "x" * 32_767
    too_long = data.replace(b"\x80\x80\x02", b"\x81\x80\x02", 1).replace(b"x", b"xx", 1)
    with pytest.raises(Malformed, match="transactional_id at byte 0: a string of 32768 bytes is longer than 32767"):
        decode(ProduceRequest, 9, too_long)


def test_text_that_is_not_utf8_is_refused_at_the_byte() -> None:
    data = encode(ProduceRequest(transactional_id="abc"), 9).replace(b"abc", b"a\xffc")
    with pytest.raises(Malformed, match="transactional_id at byte 2: is not UTF-8"):
        decode(ProduceRequest, 9, data)


def test_a_tag_of_the_wrong_size_is_refused() -> None:
    msg = FetchResponse(node_endpoints=[FetchResponse.NodeEndpoint(host="h")])
    data = bytearray(encode(msg, 16))
    position = len(data) - len(b"\x02\0\0\0\0\x02h\0\0\0\0\0\0") - 1
    data[position] -= 1
    with pytest.raises(Malformed, match="tags"):
        decode(FetchResponse, 16, data)


@pytest.mark.parametrize("cls", EVERY, ids=lambda cls: cls.__name__)
def test_no_item_of_an_array_is_empty_on_the_wire(cls: type[Message]) -> None:
    """Counts are bounded by the bytes that are left, which rests on every item taking some."""
    from ottla.wire.codec.sizes import _least

    for version in cls.WIRE.valid:
        for part in structs_of(cls):
            for f in part.WIRE.fields:
                if f.array and f.kind == "struct" and version in f.present:
                    assert _least(f.struct, version, version in cls.WIRE.flexible) > 0


def test_a_version_that_never_was_is_the_callers_mistake() -> None:
    with pytest.raises(ValueError, match="MetadataRequest has no version 14: use one of 0 to 13"):
        decode(MetadataRequest, 14, b"")
