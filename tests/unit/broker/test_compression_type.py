"""compression.type of a topic: batches are stored in the codec that it names, and nothing else of them changes."""

from __future__ import annotations

import pytest

from ottla.records.batches.builder import build
from ottla.records.batches.header import read_header, write_crc
from ottla.records.compression import codecs
from ottla.wire.errors import INVALID_RECORD, MESSAGE_TOO_LARGE, NONE
from tests.support.machine import Machine
from tests.support.producing import create, fetch, produce, records

NAMES = {"uncompressed": codecs.NONE, "gzip": codecs.GZIP, "snappy": codecs.SNAPPY, "lz4": codecs.LZ4, "zstd": codecs.ZSTD}
WALL_MS = 1_700_000_000_000


def batch(codec: int, *, count: int = 3, value: bytes = b"some words and words again " * 20, sequence: int = 0) -> bytearray:
    times = [WALL_MS + 10 * number for number in range(count)]
    headers = [[("name", b"h%d" % number), ("none", None)] for number in range(count)]
    return build(
        [b"key", None, b""][:count],
        [value] * count,
        times,
        headers,
        codec=codec,
        producer_id=7,
        producer_epoch=2,
        base_sequence=sequence,
    )


@pytest.mark.parametrize("wanted", NAMES)
@pytest.mark.parametrize("sent", NAMES)
def test_the_codec_changes_and_all_else_stays(sent: str, wanted: str) -> None:
    machine = Machine()
    create(machine, "t", compression_type=wanted)
    create(machine, "as_it_came")
    for sequence in (0, 3, 0):
        made = batch(NAMES[sent], sequence=sequence)
        expected = {0: 0, 3: 3}[sequence]
        for topic in ("t", "as_it_came"):
            part = produce(machine, topic=topic, batch=bytes(made))
            assert (part.error_code, part.base_offset) == (NONE, expected), "a retry is known by its sequence"
    _, stored = fetch(machine)
    header, plain = read_header(stored), read_header(fetch(machine, "as_it_came")[1])
    assert (header.codec, plain.codec) == (NAMES[wanted], NAMES[sent])
    changed = {"attributes": 0, "batch_length": 0, "crc": 0}
    assert header._replace(**changed) == plain._replace(**changed)
    assert records(machine) == records(machine, "as_it_came")
    if sent == wanted:
        assert stored == fetch(machine, "as_it_came")[1]


@pytest.mark.parametrize(
    ("codec", "low", "high"), [("gzip", 1, 9), ("lz4", 9, 8), ("lz4", 9, 1), ("lz4", 3, 17), ("zstd", -100, 19)]
)
def test_levels_are_those_of_the_topic(codec: str, low: int, high: int) -> None:
    sizes = []
    value = b"".join(b"line %d of %d; " % (number * number % 977, number) for number in range(3000))
    for level in (low, high):
        machine = Machine()
        configs: dict[str, object] = {f"compression_{codec}_level": level}
        create(machine, "t", 1, compression_type=codec, **configs)
        produce(machine, batch=batch(codecs.NONE, value=value))
        assert [record.value for record in records(machine)] == [value] * 3
        sizes.append(len(fetch(machine)[1]))
    assert sizes[1] < sizes[0]


def test_the_time_of_the_append_is_given_to_a_batch_in_another_codec() -> None:
    machine = Machine()
    create(machine, "t", compression_type="zstd", message_timestamp_type="LogAppendTime")
    part = produce(machine, batch=batch(codecs.GZIP))
    now = machine.clock.now().wall_ms
    assert part.log_append_time_ms == now
    assert {(record.timestamp, record.timestamp_type) for record in records(machine)} == {(now, 1)}


def test_a_batch_that_grows_too_large_is_refused() -> None:
    machine = Machine()
    create(machine, "t", compression_type="uncompressed", max_message_bytes=2000)
    made = batch(codecs.ZSTD, value=b"a" * 5000)
    assert len(made) < 2000
    assert produce(machine, batch=made).error_code == MESSAGE_TOO_LARGE
    assert fetch(machine) == (NONE, b"")


def test_a_batch_that_cannot_be_opened_is_refused() -> None:
    machine = Machine()
    create(machine, "t", compression_type="lz4")
    made = batch(codecs.ZSTD)
    made[70:90] = bytes(20)
    write_crc(made, 0, len(made))
    assert produce(machine, batch=made).error_code == INVALID_RECORD


def test_a_changed_setting_takes_effect_at_once() -> None:
    machine = Machine(compression_type="gzip")
    create(machine, "t")
    produce(machine, batch=batch(codecs.NONE, sequence=0))
    machine.set_topic("t", {"compression.type": "snappy"})
    produce(machine, batch=batch(codecs.NONE, sequence=3))
    assert [read_header(fetch(machine, offset=offset)[1]).codec for offset in (0, 3)] == [codecs.GZIP, codecs.SNAPPY]
