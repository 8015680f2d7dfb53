"""Records opened a piece at a time: the same bytes as all at once, in memory that is known before, and not beyond the limit."""

from __future__ import annotations

import random
import tracemalloc
import zlib
from functools import cache

import cramjam
import pytest

from ottla.records.batches.builder import build
from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import HEADER_BYTES, BadBatch, crc_is_valid, read_header
from ottla.records.batches.recompression import Recompression
from ottla.records.batches.verification import Demands, check_slowly, first_at
from ottla.records.compression import codecs, lz4, snappy
from ottla.records.compression.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD, CodecFailed
from ottla.records.compression.decompression import AT_ONCE_BLOCKS, AT_ONCE_BYTES, Unpacking, at_once
from ottla.records.compression.limits import OverLimit
from ottla.records.pauses import finish
from ottla.wire.errors import INVALID_RECORD, MESSAGE_TOO_LARGE

pytestmark = pytest.mark.usefixtures("kernels")

LIMIT_BYTES = 64 << 20
MB = 1 << 20
CODECS = (GZIP, SNAPPY, LZ4, ZSTD)
TEXT = b"".join(b'{"id":%d,"name":"user %d"}' % (number, number * 7919 % 1000) for number in range(100_000))
SAMPLES = (b"", b"a", bytes(3 * MB), TEXT, random.Random(1).randbytes(2 * MB), bytes(lz4.BLOCK_BYTES), bytes(AT_ONCE_BYTES + 1))


def opened(codec: int, data: bytes, limit_bytes: int = LIMIT_BYTES) -> bytes:
    unpacking = Unpacking(codec, data, limit_bytes)
    room_bytes = unpacking.measure()
    out = bytearray()
    for piece in unpacking.pieces():
        assert len(piece) <= max(room_bytes, codec == GZIP and MB)
        out += piece
    return bytes(out)


@cache
def bomb(codec: int) -> bytes:
    return codecs.compress(codec, bytes(LIMIT_BYTES))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", SAMPLES, ids=lambda data: str(len(data)))
def test_pieces_are_the_whole(codec: int, data: bytes) -> None:
    assert opened(codec, codecs.compress(codec, data)) == data


def test_streams_that_were_joined_are_opened_one_after_another() -> None:
    for codec in (GZIP, SNAPPY, ZSTD):
        assert opened(codec, codecs.compress(codec, TEXT) + codecs.compress(codec, b"more")) == TEXT + b"more"
    skippable = b"\x53\x2a\x4d\x18\x02\0\0\0xx"
    assert opened(ZSTD, skippable + codecs.compress(ZSTD, TEXT) + skippable) == TEXT


def test_other_ways_to_write_a_stream_are_opened() -> None:
    stream = cramjam.zstd.Compressor()
    stream.compress(TEXT)
    assert opened(ZSTD, bytes(stream.finish())) == TEXT, "its header does not say how much it holds"
    assert opened(SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT
    flags = bytes((lz4.PLAIN | lz4.CONTENT_SIZE, 0x40)) + len(TEXT).to_bytes(8, "little")
    head = lz4.MAGIC + flags + bytes((lz4.header_checksum(flags),))
    assert opened(LZ4, head + codecs.compress(LZ4, TEXT)[len(lz4.HEADER) :]) == TEXT, "its header says how much it holds"


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_cut_or_broken_is_refused(codec: int) -> None:
    packed = codecs.compress(codec, TEXT)
    for data in (b"", packed[: len(packed) // 2], packed[:-1], packed[:5], b"not compressed at all", packed + b"\x01"):
        with pytest.raises(CodecFailed) as failed:
            opened(codec, data)
        assert not failed.value.over_limit


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_over_the_limit_is_refused_in_little_memory(codec: int) -> None:
    packed = bomb(codec)
    tracemalloc.start()
    try:
        with pytest.raises(CodecFailed) as failed:
            for _ in Unpacking(codec, packed, 8 * MB).pieces() if codec == GZIP else [opened(codec, packed, 8 * MB)]:
                pass
        assert tracemalloc.get_traced_memory()[1] < 12 * MB
    finally:
        tracemalloc.stop()
    assert failed.value.over_limit


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4])
def test_memory_is_that_of_a_piece_however_much_there_is(codec: int) -> None:
    unpacking = Unpacking(codec, bomb(codec), LIMIT_BYTES)
    assert unpacking.measure() <= 4 * MB
    tracemalloc.start()
    try:
        assert sum(len(piece) for piece in unpacking.pieces()) == LIMIT_BYTES
        assert tracemalloc.get_traced_memory()[1] < 6 * MB
    finally:
        tracemalloc.stop()


def test_sizes_are_known_before_anything_is_opened() -> None:
    assert Unpacking(ZSTD, bomb(ZSTD), LIMIT_BYTES).measure() == LIMIT_BYTES
    for codec in (SNAPPY, ZSTD):
        with pytest.raises(CodecFailed) as failed:
            Unpacking(codec, bomb(codec), LIMIT_BYTES - 1).measure()
        assert failed.value.over_limit


def test_how_far_a_zstd_frame_looks_back_is_memory_too() -> None:
    blocks = b"\x02\x00\x10\x00" * 599 + b"\x03\x00\x10\x00"  # each 128 KB of one byte
    for exponent, room_bytes in ((13, 600 << 17), (16, (600 << 17) + 56 * MB), (17, (1200 << 17) - 8 * MB)):
        frame = b"\x28\xb5\x2f\xfd\x00" + bytes((exponent << 3,)) + blocks
        assert Unpacking(ZSTD, frame, 256 * MB).measure() == room_bytes
        with pytest.raises(CodecFailed) as failed:
            opened(ZSTD, frame, room_bytes - 1)
        assert failed.value.over_limit
    assert opened(ZSTD, frame, 256 * MB) == bytes(600 << 17)
    with pytest.raises(CodecFailed, match="has a window"):
        Unpacking(ZSTD, b"\x28\xb5\x2f\xfd\x00\x90" + blocks, 256 * MB).measure()


@pytest.mark.parametrize("codec", CODECS)
def test_only_little_is_opened_at_once(codec: int) -> None:
    assert bytes(at_once(codec, memoryview(codecs.compress(codec, bytes(AT_ONCE_BYTES))), AT_ONCE_BYTES) or b"") == bytes(
        AT_ONCE_BYTES
    )
    assert at_once(codec, memoryview(codecs.compress(codec, bytes(AT_ONCE_BYTES + 1))), AT_ONCE_BYTES) is None
    with pytest.raises(CodecFailed):
        at_once(codec, memoryview(b"not compressed" + bytes(4)), AT_ONCE_BYTES)


def test_many_small_blocks_are_not_opened_at_once() -> None:
    block = bytes(cramjam.snappy.compress_raw(b"a"))
    many = snappy.HEADER + (len(block).to_bytes(4, "big") + block) * (AT_ONCE_BLOCKS + 1)
    assert at_once(SNAPPY, memoryview(many), AT_ONCE_BYTES) is None
    assert opened(SNAPPY, many) == b"a" * (AT_ONCE_BLOCKS + 1)
    stored = lz4.HEADER + b"\x01\0\0\x80a" * (AT_ONCE_BLOCKS + 1) + lz4.END_MARK
    assert at_once(LZ4, memoryview(stored), AT_ONCE_BYTES) is None
    assert opened(LZ4, stored) == b"a" * (AT_ONCE_BLOCKS + 1)


def batch(codec: int, size: int = 3 * MB) -> bytearray:
    return build([b"key", None], [bytes(size), b"last"], 5, codec=codec)


@pytest.mark.parametrize("codec", [NONE, *CODECS])
def test_a_record_larger_than_a_piece_is_looked_at_and_not_kept(codec: int) -> None:
    made = batch(codec, 32 * MB)
    view = memoryview(made)
    tracemalloc.start()
    try:
        assert finish(check_slowly(view, read_header(view), Demands(), 5))[1] is None
        assert tracemalloc.get_traced_memory()[1] < 6 * MB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", [NONE, *CODECS])
def test_a_check_pauses_after_each_piece_and_tells_what_it_needs_before_it_takes_it(codec: int) -> None:
    view = memoryview(batch(codec, 32 * MB))
    steps = check_slowly(view, read_header(view), Demands(), 5)
    room_bytes = next(steps)
    assert room_bytes >= (32 * MB if codec == ZSTD else 0)
    assert [room_bytes] * 32 <= list(steps)


def test_a_check_that_needs_more_than_the_limit_ends_before_it_begins() -> None:
    for codec, error_code in ((ZSTD, MESSAGE_TOO_LARGE), (SNAPPY, MESSAGE_TOO_LARGE), (7, INVALID_RECORD)):
        view = memoryview(batch(codec % 7))
        header = read_header(view)._replace(attributes=codec)
        steps = check_slowly(view, header, Demands(), 5, limit_bytes=2 * MB)
        if codec == 7:
            next(steps)
        with pytest.raises(StopIteration) as done:
            next(steps)
        assert done.value.value[1].error_code == error_code


@pytest.mark.parametrize("codec", [NONE, *CODECS])
@pytest.mark.parametrize("wanted", [NONE, *CODECS])
def test_a_batch_changes_its_codec_piece_by_piece(codec: int, wanted: int) -> None:
    view = memoryview(batch(codec))
    change = Recompression(wanted, None, 5 * MB)
    assert finish(check_slowly(view, read_header(view), Demands(), 5, taken=change.add))[1] is None
    made, header = change.finish(read_header(view))
    assert (header, header.codec, crc_is_valid(memoryview(made))) == (read_header(made), wanted, True)
    assert open_batches(made).records() == open_batches(view).records()


def test_a_batch_that_becomes_too_large_is_not_finished() -> None:
    view = memoryview(batch(ZSTD))
    with pytest.raises(OverLimit):
        finish(check_slowly(view, read_header(view), Demands(), 5, taken=Recompression(NONE, None, MB).add))


def test_members_of_a_gzip_stream_end_anywhere() -> None:
    member = zlib.compress(b"x" * 1000, wbits=31)
    assert opened(GZIP, member * 300) == b"x" * 300_000
    assert len(made := batch(GZIP)) > HEADER_BYTES
    assert crc_is_valid(memoryview(made))


@pytest.mark.parametrize("codec", [NONE, *CODECS])
def test_a_time_is_found_without_keeping_what_is_opened(codec: int) -> None:
    times = [5 + number * 7 % 1000 for number in range(2000)]
    view = memoryview(build(None, [bytes(4000)] * 2000, times, codec=codec, base_offset=40))
    header = read_header(view)
    for wanted in (0, 5, 6, 400, 1003, 1004):
        expected = next(((time, 40 + index) for index, time in enumerate(times) if time >= wanted), None)
        assert finish(first_at(view, header, wanted)) == expected
    tracemalloc.start()
    try:
        assert finish(first_at(view, header, 1005)) is None
        assert tracemalloc.get_traced_memory()[1] < 5 * MB
    finally:
        tracemalloc.stop()


def test_a_time_is_not_found_in_broken_records() -> None:
    view = memoryview(batch(NONE))
    view[HEADER_BYTES + 1 :] = bytes(len(view) - HEADER_BYTES - 1)
    with pytest.raises(BadBatch):
        finish(first_at(view, read_header(view), 6))
