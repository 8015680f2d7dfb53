"""Message sets of magic 0 and 1, and conversion between them and batches: against other people's builders and readers."""

from __future__ import annotations

from array import array
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.records.batches.columns import Columns, Record, open_batches
from ottla.records.batches.header import BadBatch, batches, check, crc_is_valid, read_header, set_log_append_time
from ottla.records.batches.verification import Demands
from ottla.records.compression import codecs
from ottla.records.compression.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD, CodecFailed
from ottla.records.message_sets import legacy
from ottla.records.message_sets.conversion import PIECE_ROWS, down_convert, up_convert
from ottla.records.message_sets.legacy import BadMessage, open_message_set, wrapper, write_message_set
from ottla.records.message_sets.up_conversion import Arrived, Inside, Terms
from ottla.records.pauses import finish
from ottla.wire.errors import (
    CORRUPT_MESSAGE,
    INVALID_RECORD,
    INVALID_TIMESTAMP,
    MESSAGE_TOO_LARGE,
    UNKNOWN_SERVER_ERROR,
    UNSUPPORTED_COMPRESSION_TYPE,
)
from tests.support.arrivals import accept
from tests.unit.records.making import build_rows, simple

aiokafka = pytest.importorskip("aiokafka.record.legacy_records", reason="aiokafka is not installed")
kafka = pytest.importorskip("kafka.record.legacy_records", reason="kafka-python is not installed")

pytestmark = pytest.mark.usefixtures("kernels")
CODECS = (NONE, GZIP, SNAPPY, LZ4)
BUILDERS: dict[str, Any] = {
    "aiokafka": aiokafka._LegacyRecordBatchBuilderPy,
    "kafka-python": kafka.LegacyRecordBatchBuilder,
}
READERS: dict[str, Any] = {"aiokafka": aiokafka._LegacyRecordBatchPy, "kafka-python": kafka.LegacyRecordBatch}
ITEMS = st.none() | st.binary(max_size=30)
MESSAGES = st.lists(st.tuples(st.integers(0, 2**40), ITEMS, ITEMS), min_size=1, max_size=8)
Messages = list[tuple[int, bytes | None, bytes | None]]


def theirs(builder: Any, magic: int, codec: int, messages: Messages) -> bytes:
    batch = builder(magic=magic, compression_type=codec, batch_size=1 << 20)
    for index, (time, key, value) in enumerate(messages):
        assert batch.append(index, timestamp=time if magic else None, key=key, value=value)
    try:
        return bytes(batch.build())
    except RuntimeError as failure:
        pytest.skip(f"{builder.__module__} misses a library: {failure}")


def expected(magic: int, messages: Messages, base: int = 0) -> list[Record]:
    return [Record(base + at, time if magic else -1, 0, key, value, ()) for at, (time, key, value) in enumerate(messages)]


def batch_of(messages: Messages, **fields: Any) -> bytearray:
    return build_rows([(time, key, value, []) for time, key, value in messages], **fields)


def set_of(magic: int, codec: int = NONE, count: int = 3, base_offset: int = 0) -> bytes:
    return b"".join(down_convert(simple(count, codec=codec, base_offset=base_offset), magic))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("name", BUILDERS)
@settings(max_examples=20)
@given(messages=MESSAGES)
def test_their_message_sets_open_and_become_batches(name: str, magic: int, codec: int, messages: Messages) -> None:
    message_set = theirs(BUILDERS[name], magic, codec, messages)
    assert open_message_set(message_set).records() == expected(magic, messages)
    code, _, batch, _ = accept(message_set)
    assert code == 0
    assert check(memoryview(batch))[0] == 0
    assert read_header(batch).codec == codec
    assert open_batches(batch, check_crcs=True).records() == expected(magic, messages)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("name", READERS)
@settings(max_examples=20)
@given(messages=MESSAGES, base=st.sampled_from([0, 5, 2**40]))
def test_batches_become_message_sets_that_they_read(name: str, magic: int, codec: int, messages: Messages, base: int) -> None:
    pieces = list(down_convert(batch_of(messages, codec=codec, base_offset=base), magic))
    assert [record for piece in pieces for record in open_message_set(piece).records()] == expected(magic, messages, base)
    found = []
    entries = split(pieces[0])
    for entry in entries:
        reader = READERS[name](bytearray(entry), magic)
        assert reader.validate_crc()
        try:
            found += [(record.offset, record.key, record.value) for record in reader]
        except RuntimeError as failure:
            pytest.skip(f"{name} misses a library: {failure}")
    assert found == [(record.offset, record.key, record.value) for record in expected(magic, messages, base)]


def split(message_set: bytes) -> list[bytes]:
    entries, pos = [], 0
    while pos < len(message_set):
        size = 12 + int.from_bytes(message_set[pos + 8 : pos + 12], "big")
        entries.append(message_set[pos : pos + size])
        pos += size
    return entries


@pytest.mark.parametrize("magic", [0, 1])
def test_plain_sets_are_theirs_byte_for_byte(magic: int) -> None:
    messages: Messages = [(5, b"k", b"v"), (6, None, b""), (7, b"", None)]
    assert b"".join(down_convert(batch_of(messages), magic)) == theirs(BUILDERS["kafka-python"], magic, NONE, messages)


def test_offsets_within_wrappers_are_absolute_in_0_and_relative_in_1() -> None:
    for magic, inner in ((0, [70, 71, 72]), (1, [0, 1, 2])):
        wrapped = set_of(magic, GZIP, base_offset=70)
        assert int.from_bytes(wrapped[:8], "big") == 72
        value = wrapped[(34 if magic else 26) :]
        opened = bytes(codecs.decompress(GZIP, value, limit_bytes=10_000))
        assert [int.from_bytes(entry[:8], "big") for entry in split(opened)] == inner
        assert list(open_message_set(wrapped).offsets) == [70, 71, 72]


def test_lz4_has_the_wrong_header_checksum_in_format_0_only() -> None:
    assert set_of(0, LZ4)[26:33] == bytes.fromhex("04224d1860401a")
    assert set_of(1, LZ4)[34:41] == bytes.fromhex("04224d18604082")


def test_raw_snappy_as_librdkafka_sends_it_is_read() -> None:
    inner = set_of(1)
    wrapped = wrapper(0, 1, SNAPPY, 1002, bytes(cramjam.snappy.compress_raw(inner)))
    assert open_message_set(wrapped).records() == open_message_set(inner).records()


def test_a_torn_message_at_the_end_is_cut_off() -> None:
    whole = set_of(1)
    for size in range(len(split(whole)[0])):
        assert len(open_message_set(whole + whole[:size])) == 3
    assert accept(whole[:10]) == Arrived(0)


def test_plain_and_compressed_messages_may_follow_one_another() -> None:
    code, _, batch, _ = accept(set_of(1) + set_of(1, GZIP) + set_of(0, LZ4) + set_of(0))
    assert code == 0
    assert read_header(batch).codec == LZ4
    records = open_batches(batch).records()
    assert [record.offset for record in records] == list(range(12))
    assert [record.timestamp for record in records] == [1000, 1001, 1002] * 2 + [-1] * 6


def test_log_append_time_goes_down_and_may_not_come_up() -> None:
    for codec in (NONE, GZIP):
        batch = simple(3, codec=codec)
        set_log_append_time(batch, 0, len(batch), 5000)
        message_set = b"".join(down_convert(batch, 1))
        columns = open_message_set(message_set)
        assert {(record.timestamp, record.timestamp_type) for record in columns.records()} == {(5000, 1)}
        assert accept(message_set).error_code == INVALID_TIMESTAMP
        assert read_header(up_convert(columns)).timestamp_type == 1


def test_stored_offsets_can_be_kept_on_the_way_up() -> None:
    columns = open_message_set(set_of(1, base_offset=40) + set_of(1, GZIP, base_offset=50))
    batch = up_convert(columns, keep_offsets=True)
    assert [record.offset for record in open_batches(batch).records()] == [40, 41, 42, 50, 51, 52]
    assert read_header(batch).next_offset == 53
    cut = up_convert(columns.slice(1, 4), keep_offsets=True)
    assert [record.offset for record in open_batches(cut).records()] == [41, 42, 50]
    assert [record.offset for record in open_batches(up_convert(columns.slice(1, 4))).records()] == [0, 1, 2]


def test_records_before_the_fetch_offset_are_left_out_of_plain_batches_only() -> None:
    for codec, kept in ((NONE, [11, 12]), (GZIP, [10, 11, 12])):
        pieces = down_convert(simple(3, codec=codec, base_offset=10), 1, from_offset=11)
        assert [offset for piece in pieces for offset in open_message_set(piece).offsets] == kept


def test_control_batches_and_headers_are_lost_on_the_way_down() -> None:
    view = simple(1, control=True) + build_rows([(1, b"k", b"v", [("h", b"x")])], base_offset=1)
    (piece,) = down_convert(view, 1)
    assert open_message_set(piece).records() == [Record(1, 1, 0, b"k", b"v", ())]


def test_gaps_in_offsets_survive() -> None:
    gapped = up_convert(open_message_set(set_of(1, base_offset=3) + set_of(1, base_offset=9)), keep_offsets=True)
    for magic in (0, 1):
        for codec in (NONE, LZ4):
            columns: Columns = open_batches(gapped)
            piece = write_message_set(columns, columns.runs[0], magic, codec=codec)
            assert list(open_message_set(piece).offsets) == [3, 4, 5, 9, 10, 11]


def test_zstd_cannot_go_down() -> None:
    with pytest.raises(BadMessage) as caught:
        list(down_convert(simple(1, codec=ZSTD), 1))
    assert caught.value.error_code == UNSUPPORTED_COMPRESSION_TYPE


SOUND = set_of(1)
FIRST = split(SOUND)[0]


@pytest.mark.parametrize(
    ("message_set", "code"),
    [
        (SOUND[:20] + b"\xff" + SOUND[21:], CORRUPT_MESSAGE),
        (SOUND[:8] + (13).to_bytes(4, "big") + SOUND[12:], CORRUPT_MESSAGE),
        (SOUND[:8] + (-1).to_bytes(4, "big", signed=True) + SOUND[12:], CORRUPT_MESSAGE),
        (SOUND[:16] + b"\x03" + SOUND[17:], CORRUPT_MESSAGE),
        (bytearray(simple(1)), CORRUPT_MESSAGE),
        (wrapper(0, 1, GZIP, 0, b"not gzip"), CORRUPT_MESSAGE),
        (wrapper(0, 1, GZIP, 0, codecs.compress(GZIP, FIRST[:-1] + b"x")), CORRUPT_MESSAGE),
        (wrapper(0, 1, GZIP, 0, codecs.compress(GZIP, wrapper(0, 1, GZIP, 0, codecs.compress(GZIP, FIRST)))), INVALID_RECORD),
        (wrapper(0, 1, GZIP, 0, codecs.compress(GZIP, set_of(0))), INVALID_RECORD),
        (wrapper(0, 1, GZIP, 0, codecs.compress(GZIP, b"")), INVALID_RECORD),
        (wrapper(0, 1, GZIP, 0, codecs.compress(GZIP, FIRST + FIRST[:-1])), INVALID_RECORD),
        (wrapper(1, 1, GZIP, 0, codecs.compress(GZIP, SOUND)), INVALID_RECORD),
        (wrapper(-1, 1, GZIP, 0, codecs.compress(GZIP, SOUND)), INVALID_RECORD),
    ],
)
def test_broken_sets_are_refused_with_kafkas_code(message_set: bytes, code: int) -> None:
    assert accept(message_set).error_code == code


def numbered(*offsets: int) -> bytes:
    """A message at each of these offsets, in format 1."""
    return b"".join(offset.to_bytes(8, "big", signed=True) + FIRST[8:] for offset in offsets)


@pytest.mark.parametrize(("offset", "inside"), [(-1, (-1, -1)), (5, (-1, -1)), (3, (7, 3)), (0, (7, 3))])
def test_wrapped_messages_get_new_offsets_whatever_theirs_are(offset: int, inside: tuple[int, ...]) -> None:
    """pykafka sends -1 for all; Kafka since 0.11 holds the wrapper's offset against its last message's, and nothing more."""
    code, _, batch, (header,) = accept(wrapper(offset, 1, GZIP, 0, codecs.compress(GZIP, numbered(*inside))))
    assert (code, header.base_offset, header.record_count, len(batch)) == (0, 0, 2, header.size)


def test_what_is_looked_at_in_a_wrapper_depends_on_the_release() -> None:
    less = wrapper(1, 1, GZIP, 0, codecs.compress(GZIP, SOUND))
    newer, older = (wrapper(0, magic, GZIP, 0, codecs.compress(GZIP, set_of(1 - magic))) for magic in (0, 1))
    told = {inside: [accept(one, Terms(inside=inside)).error_code for one in (less, newer, older)] for inside in Inside}
    assert told == {
        Inside.NOTHING: [UNKNOWN_SERVER_ERROR, 0, UNKNOWN_SERVER_ERROR],
        Inside.FORMATS: [0, INVALID_RECORD, INVALID_RECORD],
        Inside.OFFSETS: [INVALID_RECORD] * 3,
    }


def test_a_compacted_topic_wants_keys() -> None:
    keyless = theirs(BUILDERS["kafka-python"], 1, NONE, [(1, None, b"v")])
    assert accept(keyless).error_code == 0
    assert accept(keyless, Terms(Demands(keyed=True))).error_code == INVALID_RECORD


def test_a_bomb_in_a_wrapper_is_refused() -> None:
    bomb = wrapper(0, 1, GZIP, 0, codecs.compress(GZIP, bytes(10 << 20)))
    assert accept(bomb, Terms(limit_bytes=1 << 20)).error_code == MESSAGE_TOO_LARGE


@given(cut=st.integers(0, 200), where=st.integers(0, 400), byte=st.integers(0, 255), codec=st.sampled_from(CODECS))
def test_mutated_sets_open_or_are_refused(cut: int, where: int, byte: int, codec: int) -> None:
    for magic in (0, 1):
        message_set = bytearray(set_of(magic, codec))
        message_set[where % len(message_set)] = byte
        for hostile in (message_set, message_set[:cut], wrapper(0, magic, codec or GZIP, 0, bytes(message_set))):
            error_code, _, view, _ = accept(hostile)
            assert all(crc_is_valid(memoryview(view)[pos : pos + header.size]) for pos, header in batches(view))
            assert not (error_code and view)


@given(data=st.binary(max_size=60), cut=st.integers(0, 30))
def test_both_runs_read_the_same_in_any_bytes(kernels: SimpleNamespace, data: bytes, cut: int) -> None:
    from ottla.records import kernel_legacy

    def scan(module: Any, entry: bytes) -> tuple[Any, ...]:
        offsets, timestamps, spans = array("q", [0]), array("q", [0]), array("i", [0] * 6)
        stop = module.scan_messages(entry, 0, len(entry), 0, 1, offsets, timestamps, spans)
        return module.run_of(entry, 0, len(entry)), stop, offsets, timestamps, spans

    body = FIRST[16 : 16 + cut] + data
    sound_crc = FIRST[:8] + (len(body) + 4).to_bytes(4, "big") + crc32(body).to_bytes(4, "big") + body
    for entry in (data, sound_crc, b"\xff" * 8 + sound_crc[8:]):
        assert scan(kernels.kernel_legacy, entry) == scan(kernel_legacy, entry)


def test_failures_name_what_is_wrong() -> None:
    with pytest.raises(BadBatch, match="at byte 0: the CRC-32"):
        open_message_set(SOUND[:20] + b"\xff" + SOUND[21:])
    with pytest.raises(CodecFailed, match="gzip: "):
        open_message_set(wrapper(0, 1, GZIP, 0, b"not gzip"))


LARGE = bytes(range(256)) * (3 << 12)
"""A value that takes several pieces of work to compress."""


@pytest.mark.parametrize("codec", CODECS)
def test_much_is_compressed_with_pauses_and_read_by_all(codec: int) -> None:
    steps = codecs.compress_slowly(codec, LARGE)
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as done:
            packed = done.value
            break
        pauses += 1
    assert bytes(codecs.decompress(codec, packed)) == LARGE
    assert pauses >= (5 if codec else 0)
    assert codecs.compress(codec, LARGE[:1000]) == finish(codecs.compress_slowly(codec, LARGE[:1000]))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_a_large_record_goes_down_and_up_with_pauses(magic: int, codec: int) -> None:
    batch = build_rows([(5, b"k", LARGE, [])], codec=codec, base_offset=7)
    pieces = list(down_convert(batch, magic))
    assert b"" in pieces, "an empty piece is a pause"
    assert max(len(piece) for piece in pieces) < len(LARGE) // 2
    message_set = b"".join(pieces)
    time = 5 if magic else -1
    assert open_message_set(message_set).records() == [Record(7, time, 0, b"k", LARGE, ())]
    code, _, view, (header,) = accept(message_set)
    assert (code, header.codec, check(memoryview(view))[0]) == (0, codec, 0)
    assert open_batches(view, check_crcs=True).records() == [Record(0, time, 0, b"k", LARGE, ())]


@pytest.mark.parametrize("codec", [NONE, LZ4])
@pytest.mark.parametrize("magic", [0, 1])
def test_large_records_among_small_ones_are_written_as_all_are(magic: int, codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: Messages = [(5, b"a", b"b"), (9, LARGE, None), (7, None, LARGE), (8, b"", b""), (6, LARGE, LARGE)]
    columns = open_batches(batch_of(rows, base_offset=3))
    in_parts = write_message_set(columns, columns.runs[0], magic, codec=codec)
    monkeypatch.setattr(legacy, "LARGE_BYTES", 1 << 40)
    assert in_parts == write_message_set(columns, columns.runs[0], magic, codec=codec)
    assert open_message_set(in_parts).records() == expected(magic, rows, 3)


@pytest.mark.slow
def test_a_batch_of_many_records_goes_down_in_several_pieces_that_follow_one_another() -> None:
    count = 3 * PIECE_ROWS
    batch = build_rows([(n, None, b"", []) for n in range(count)], codec=LZ4, base_offset=9)
    pieces = [piece for piece in down_convert(batch, 1, from_offset=9 + PIECE_ROWS) if piece]
    assert len(pieces) == 2, "what is wholly below the offset asked for is left out"
    found = [open_message_set(piece) for piece in pieces]
    assert [(opened.offsets[0], opened.offsets[-1]) for opened in found] == [
        (9 + PIECE_ROWS, 8 + 2 * PIECE_ROWS),
        (9 + 2 * PIECE_ROWS, 8 + count),
    ]
