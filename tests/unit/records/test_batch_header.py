"""Batch headers: what is read, what is refused with which of Kafka's codes, what is written in place.

The codes were seen on Apache Kafka 4.3: each of these batches was produced to it.
"""

from __future__ import annotations

from typing import Any

import pytest

from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import BadBatch, batches, check, crc_is_valid, read_header, set_log_append_time, stamp
from ottla.records.compression.codecs import ZSTD
from ottla.wire.errors import CORRUPT_MESSAGE, INVALID_RECORD, NONE, UNSUPPORTED_COMPRESSION_TYPE
from tests.unit.records.making import edited, simple

SOUND = simple()


def test_a_sound_batch_passes_with_its_header() -> None:
    code, header = check(memoryview(SOUND))
    assert code == NONE
    assert header is not None
    assert (header.size, header.record_count, header.last_offset, header.next_offset) == (len(SOUND), 3, 2, 3)
    assert (header.base_timestamp, header.max_timestamp, header.timestamp_type, header.codec) == (1000, 1002, 0, 0)


@pytest.mark.parametrize(
    "batch",
    [
        edited(SOUND, fix_crc=False, crc=1),
        edited(SOUND, magic=3),
        edited(SOUND, magic=-1),
        edited(SOUND, fix_crc=False, magic=3),
        SOUND + bytes(12),
        SOUND + bytes(30),
        edited(SOUND, batch_length=len(SOUND) - 13),
        *(edited(SOUND, batch_length=length) for length in (-5, 0, 13, 14, 30, 49)),
    ],
)
def test_damaged_bytes_are_corrupt(batch: bytearray) -> None:
    assert check(memoryview(batch)) == (CORRUPT_MESSAGE, None)


@pytest.mark.parametrize(
    "batch",
    [
        b"",
        *(SOUND[:size] for size in (5, 14, 30, 61, len(SOUND) - 1)),
        SOUND + SOUND,
        edited(SOUND, magic=0),
        edited(SOUND, magic=1),
        edited(SOUND, batch_length=len(SOUND) - 11),
        edited(SOUND, base_offset=5),
        edited(SOUND, record_count=2),
        edited(SOUND, record_count=4),
        edited(SOUND, record_count=0, last_offset_delta=-1),
        edited(SOUND, record_count=-1),
        edited(SOUND, last_offset_delta=-3),
        edited(SOUND, attributes=0x20),
        edited(SOUND, producer_id=1000, producer_epoch=0),
    ],
)
def test_what_no_client_may_send_is_an_invalid_record(batch: bytes) -> None:
    assert check(memoryview(batch)) == (INVALID_RECORD, None)


@pytest.mark.parametrize(
    "batch",
    [
        edited(SOUND, attributes=0x08),
        edited(SOUND, attributes=0x40),
        edited(SOUND, attributes=0x700),
        edited(SOUND, max_timestamp=0),
        edited(SOUND, base_timestamp=-1, max_timestamp=-1),
        edited(SOUND, leader_epoch=9),
        edited(SOUND, producer_id=1000, producer_epoch=0, base_sequence=0),
    ],
)
def test_what_kafka_accepts_passes(batch: bytearray) -> None:
    assert check(memoryview(batch))[0] == NONE


def test_zstd_came_with_produce_7() -> None:
    batch = memoryview(simple(codec=ZSTD))
    assert check(batch, 6) == (UNSUPPORTED_COMPRESSION_TYPE, None)
    assert check(batch, 7)[0] == NONE


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_named_as_such(codec: int) -> None:
    assert check(memoryview(edited(SOUND, attributes=codec))) == (UNSUPPORTED_COMPRESSION_TYPE, None)


def test_stamping_leaves_the_crc_right() -> None:
    batch = bytearray(b"..") + SOUND
    stamp(batch, 2, 2**40, 7)
    assert read_header(batch, 2)[:3] == (2**40, len(SOUND) - 12, 7)
    assert crc_is_valid(memoryview(batch)[2:])
    assert [record.offset for record in open_batches(batch[2:]).records()] == [2**40, 2**40 + 1, 2**40 + 2]


def test_log_append_time_is_every_records_time() -> None:
    batch = bytearray(SOUND)
    set_log_append_time(batch, 0, len(batch), 123456)
    assert crc_is_valid(memoryview(batch))
    assert read_header(batch).timestamp_type == 1
    assert {(record.timestamp, record.timestamp_type) for record in open_batches(batch).records()} == {(123456, 1)}


def test_a_torn_batch_at_the_end_is_left_out() -> None:
    for size in range(len(SOUND)):
        assert [position for position, _ in batches(SOUND + SOUND[:size])] == [0]


@pytest.mark.parametrize("fields", [{"magic": 1}, {"magic": 7}, {"batch_length": 48}, {"batch_length": -100}])
def test_what_cannot_be_a_batch_is_named_with_its_position(fields: dict[str, Any]) -> None:
    with pytest.raises(BadBatch) as caught:
        list(batches(SOUND + edited(SOUND, **fields)))
    assert caught.value.position == len(SOUND)


def test_a_header_that_is_not_there_is_not_read() -> None:
    with pytest.raises(BadBatch, match="60 are left"):
        read_header(SOUND[:60])


@pytest.mark.parametrize(("base", "count", "last"), [(0, 3, 2), (2**31 - 1, 3, 1), (2**31 - 2, 2, 2**31 - 1), (-1, 3, -1)])
def test_sequences_wrap_to_zero(base: int, count: int, last: int) -> None:
    assert read_header(simple(count, base_sequence=base, producer_id=1)).last_sequence == last


def test_the_delete_horizon_is_read_from_the_base_timestamp() -> None:
    assert read_header(edited(SOUND, attributes=0x40, base_timestamp=77)).delete_horizon_ms == 77
    assert read_header(SOUND).delete_horizon_ms is None
