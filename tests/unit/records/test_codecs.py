"""Codecs: round trips, Kafka's framings, other people's frames, and bombs that are refused without taking memory."""

from __future__ import annotations

import gzip as stdlib_gzip
import tracemalloc

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records.compression import codecs, lz4, snappy
from ottla.records.compression.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD, CodecFailed, compress, decompress

ALL = (NONE, GZIP, SNAPPY, LZ4, ZSTD)
REAL = ALL[1:]
DATA = st.binary(max_size=300) | st.builds(lambda piece, times: piece * times, st.binary(max_size=50), st.integers(0, 5000))
NOISE = b"".join(cramjam.lz4.compress_block(bytes(range(256)) * 9, store_size=False) for _ in range(10)) * 70


@pytest.mark.parametrize("codec", ALL)
@given(data=DATA, magic=st.sampled_from([0, 1, 2]))
def test_what_is_compressed_opens_again(codec: int, data: bytes, magic: int) -> None:
    assert bytes(decompress(codec, compress(codec, data, magic=magic), limit_bytes=len(data), magic=magic)) == data


@pytest.mark.parametrize("codec", REAL)
@pytest.mark.parametrize("size", [1, 32 * 1024, 32 * 1024 + 1, 64 * 1024, 64 * 1024 + 1, len(NOISE)])
def test_block_borders_and_noise_survive(codec: int, size: int) -> None:
    data = NOISE[:size]
    assert bytes(decompress(codec, compress(codec, data), limit_bytes=size)) == data


@pytest.mark.parametrize("codec", REAL)
def test_one_byte_above_the_limit_is_refused(codec: int) -> None:
    data = NOISE[:100_000]
    with pytest.raises(CodecFailed, match="limit"):
        decompress(codec, compress(codec, data), limit_bytes=len(data) - 1)


@pytest.mark.parametrize("codec", REAL)
def test_a_bomb_takes_no_more_memory_than_the_limit(codec: int) -> None:
    bomb = compress(codec, bytes(64 << 20))
    tracemalloc.start()
    with pytest.raises(CodecFailed):
        decompress(codec, bomb, limit_bytes=1 << 20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


@pytest.mark.slow
@pytest.mark.parametrize("codec", REAL)
@given(data=st.binary(max_size=200), cut=st.integers(0, 200), flipped=st.integers(0, 200), bits=st.integers(0, 255))
def test_hostile_bytes_fail_in_one_way(codec: int, data: bytes, cut: int, flipped: int, bits: int) -> None:
    sound = bytearray(compress(codec, data * 3))
    if flipped < len(sound):
        sound[flipped] ^= bits
    for hostile in (data, bytes(sound[:cut]), bytes(sound)):
        try:
            opened = decompress(codec, hostile, limit_bytes=10_000)
        except CodecFailed:
            continue
        assert len(opened) <= 10_000


@pytest.mark.parametrize("codec", [-1, 5, 7])
def test_a_codec_that_is_none_is_named(codec: int) -> None:
    with pytest.raises(CodecFailed, match="no codec of this number"):
        compress(codec, b"x")
    with pytest.raises(CodecFailed, match="no codec of this number"):
        decompress(codec, b"x", limit_bytes=10)


@pytest.mark.parametrize(("codec", "levels"), [(GZIP, (1, 9)), (ZSTD, (1, 19))])
def test_a_higher_level_makes_it_smaller(codec: int, levels: tuple[int, int]) -> None:
    data = " ".join(str(number * number % 9973) for number in range(40_000)).encode()
    low, high = (compress(codec, data, level) for level in levels)
    assert len(high) < len(low)
    assert bytes(decompress(codec, high, limit_bytes=len(data))) == data


def test_snappy_is_framed_as_xerials_stream_and_raw_is_read() -> None:
    data = bytes(70_000)
    framed = compress(SNAPPY, data)
    assert framed[:16] == bytes.fromhex("82534e41505059000000000100000001")
    assert bytes(decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(data)), limit_bytes=70_000)) == data
    assert bytes(decompress(SNAPPY, framed + framed, limit_bytes=140_000)) == data * 2


def test_a_snappy_block_cannot_claim_more_than_it_could_hold() -> None:
    with pytest.raises(CodecFailed, match="claims"):
        decompress(SNAPPY, b"\xff\xff\xff\xff\x07" + b"x" * 50, limit_bytes=1 << 40)


def test_lz4_frames_are_those_that_kafka_wants() -> None:
    frame = compress(LZ4, bytes(200_000))
    assert frame[:7] == bytes.fromhex("04224d18604082")
    assert frame[-4:] == bytes(4)
    sizes, pos = [], 7
    while size := int.from_bytes(frame[pos : pos + 4], "little") & 0x7FFFFFFF:
        sizes.append(size)
        pos += 4 + size
    assert len(sizes) == 4
    assert pos + 4 == len(frame)


def test_format_0_has_its_wrong_header_checksum() -> None:
    frame = compress(LZ4, b"data", magic=0)
    assert frame[:7] == bytes.fromhex("04224d1860401a")
    assert bytes(decompress(LZ4, frame, limit_bytes=4, magic=0)) == b"data"
    assert bytes(decompress(LZ4, compress(LZ4, b"data"), limit_bytes=4, magic=0)) == b"data"
    with pytest.raises(CodecFailed, match="checksum"):
        decompress(LZ4, frame, limit_bytes=4, magic=1)


def test_lz4_frames_of_others_are_read() -> None:
    data = bytes(300_000)
    compressor = cramjam.lz4.Compressor(content_checksum=True, block_linked=False)
    compressor.compress(data)
    assert bytes(decompress(LZ4, bytes(compressor.finish()), limit_bytes=len(data))) == data
    sized = bytearray(lz4.MAGIC + b"\x68\x40" + len(data).to_bytes(8, "little"))
    sized.append(lz4.header_checksum(sized[4:]))
    assert bytes(decompress(LZ4, bytes(sized) + compress(LZ4, data)[7:], limit_bytes=len(data))) == data


def test_linked_lz4_blocks_are_refused_as_kafka_does() -> None:
    compressor = cramjam.lz4.Compressor(block_linked=True)
    compressor.compress(bytes(200_000))
    with pytest.raises(CodecFailed, match="linked"):
        decompress(LZ4, bytes(compressor.finish()), limit_bytes=1 << 20)


def test_gzip_and_zstd_of_others_are_read() -> None:
    data = NOISE[:50_000]
    assert bytes(decompress(GZIP, stdlib_gzip.compress(data), limit_bytes=len(data))) == data
    assert bytes(decompress(GZIP, stdlib_gzip.compress(data) * 2, limit_bytes=2 * len(data))) == data * 2
    stream = cramjam.zstd.Compressor()
    stream.compress(data)
    assert bytes(decompress(ZSTD, bytes(stream.finish()), limit_bytes=len(data))) == data


def test_a_view_of_a_larger_buffer_is_opened_where_it_lies() -> None:
    for codec in REAL:
        whole = b"before" + compress(codec, b"inside" * 100) + b"after"
        assert bytes(decompress(codec, memoryview(whole)[6:-5], limit_bytes=600)) == b"inside" * 100


def test_the_names_are_kafkas() -> None:
    assert codecs.NAMES == ("none", "gzip", "snappy", "lz4", "zstd")
    assert snappy.BLOCK_BYTES == 32 * 1024


@pytest.mark.parametrize("size", [0, 1, 100, 65_536, 65_537, 300_000])
def test_lz4_frames_with_and_without_checksums_open_alike(size: int) -> None:
    data = (b"flight %d " % size * 30_000)[:size]
    compressor = cramjam.lz4.Compressor(content_checksum=True, block_linked=False)
    compressor.compress(data)
    checked = bytes(compressor.finish())
    assert checked[4] & 0x04  # the flag of a checksum over the content
    assert bytes(codecs.decompress(codecs.LZ4, checked)) == data
    assert bytes(codecs.decompress(codecs.LZ4, codecs.compress(codecs.LZ4, data))) == data


@pytest.mark.parametrize(
    "spoil", ["no end mark", "half an end mark", "bytes behind it", "a block larger than its frame's", "no block"]
)
def test_lz4_frames_that_end_wrongly_are_refused(spoil: str) -> None:
    sound = bytes(codecs.compress(codecs.LZ4, b"flight " * 100))
    wrong = {
        "no end mark": sound[:-4],
        "half an end mark": sound[:-2],
        "bytes behind it": sound + b"\0",
        "a block larger than its frame's": sound[:7] + (0x80000000 | 70_000).to_bytes(4, "little") + bytes(70_000) + bytes(4),
        "no block": sound[:7],
    }
    with pytest.raises(codecs.CodecFailed, match="lz4"):
        codecs.decompress(codecs.LZ4, wrong[spoil])


def test_more_than_the_limit_is_told_from_damage() -> None:
    for codec in (codecs.GZIP, codecs.SNAPPY, codecs.LZ4, codecs.ZSTD):
        packed = codecs.compress(codec, bytes(200_000))
        with pytest.raises(codecs.CodecFailed) as told:
            codecs.decompress(codec, packed, limit_bytes=1000)
        assert told.value.over_limit
        with pytest.raises(codecs.CodecFailed) as told:
            codecs.decompress(codec, packed[:-5])
        assert not told.value.over_limit
