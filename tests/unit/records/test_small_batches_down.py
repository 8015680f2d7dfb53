"""Many small batches become message sets together, as each does by itself; what is not small, sound or known is left to others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records.batches.header import BadBatch, batches, read_header, set_log_append_time
from ottla.records.compression import codecs
from ottla.records.compression.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD, CodecFailed
from ottla.records.message_sets.conversion import SMALL_BYTES, SMALL_ROWS, DownConversion, down_convert_batch, up_convert
from ottla.records.message_sets.legacy import BadMessage, open_message_set
from tests.unit.records.making import ROWS, Rows, build_rows, edited, simple

pytestmark = pytest.mark.usefixtures("kernels")

CODECS = (NONE, GZIP, SNAPPY, LZ4)
TAKEN_ON = 40
"""How many tiny batches at least are taken on together."""


def one_by_one(view: bytes, magic: int, from_offset: int = 0, limit_bytes: int = codecs.DEFAULT_LIMIT_BYTES) -> Iterator[bytes]:
    """What each batch becomes by itself: what the others are held against."""
    for pos, header in batches(view):
        batch = memoryview(view)[pos : pos + header.size]
        yield b"".join(down_convert_batch(batch, header, magic, from_offset=from_offset, limit_bytes=limit_bytes))


def together(view: bytes, magic: int, **limits: int) -> list[bytes]:
    return [bytes(piece) for piece in DownConversion(magic, **limits).pieces(memoryview(view))]


@st.composite
def made(draw: st.DrawFn) -> bytearray:
    """One batch of any kind, at offset 0."""
    rows: Rows = draw(ROWS)
    codec = draw(st.sampled_from(CODECS))
    batch = build_rows(rows, codec=codec, control=draw(st.sampled_from([False] * 5 + [True])))
    if draw(st.booleans()):
        set_log_append_time(batch, 0, len(batch), draw(st.sampled_from([-1, 0, 5000, 2**62])))
    return batch


@st.composite
def logs(draw: st.DrawFn) -> tuple[bytes, int]:
    """(batches as a log has them, with gaps between them, the offset after them)"""
    out, offset = bytearray(), draw(st.sampled_from([0, 7, 2**40]))
    for batch in draw(st.lists(made(), max_size=8)):
        out += edited(batch, base_offset=offset)
        offset += read_header(batch).record_count + draw(st.integers(0, 3))
    return bytes(out), offset


@pytest.mark.rows(2, seconds=1)
@pytest.mark.slow
@pytest.mark.parametrize("magic", [0, 1])
@given(log=logs(), skipped=st.integers(0, 20), torn=st.integers(0, 80))
def test_together_they_become_what_each_becomes(magic: int, log: tuple[bytes, int], skipped: int, torn: int) -> None:
    view, next_offset = log
    from_offset = max(0, next_offset - skipped)
    expected = b"".join(one_by_one(view, magic, from_offset))
    assert b"".join(together(view, magic, from_offset=from_offset)) == expected
    assert b"".join(together(view + view[:torn], magic, from_offset=from_offset)).startswith(expected)


@pytest.mark.parametrize("codec", CODECS)
def test_a_run_of_small_batches_is_one_piece(codec: int) -> None:
    view = b"".join(simple(2, codec=codec, base_offset=2 * n) for n in range(TAKEN_ON))
    found = together(view, 1)
    assert len(found) == (1 if codec != GZIP else 2), "gzip takes several times as long"
    opened = open_message_set(b"".join(found))
    assert list(opened.offsets) == list(range(2 * TAKEN_ON))
    assert len(opened.runs) == (TAKEN_ON if codec else 1), "each batch has a wrapper of its own"


def test_no_piece_is_so_long_that_it_takes_long() -> None:
    view = b"".join(simple(1, base_offset=n) for n in range(2000))
    found = together(view, 1)
    assert len(found) > 10
    assert b"".join(found) == b"".join(one_by_one(view, 1))


def test_it_ends_with_the_batch_that_makes_it_enough() -> None:
    view = b"".join(simple(2, codec=LZ4, base_offset=2 * n) for n in range(TAKEN_ON))
    sizes = [len(piece) for piece in one_by_one(view, 1)]
    for enough in (1, sizes[0], sizes[0] + 1, sum(sizes[:7]), sum(sizes[:7]) + 1, sum(sizes)):
        conversion = DownConversion(1)
        found = b"".join(conversion.pieces(memoryview(view), enough))
        assert enough <= len(found) < enough + sizes[0]
        assert conversion.next_offset == 2 * len(open_message_set(found).runs), "there it goes on"


@pytest.mark.parametrize("codec", CODECS)
def test_small_and_large_ones_stay_in_order(codec: int) -> None:
    many: Rows = [(n, b"k", b"v", []) for n in range(SMALL_ROWS + 1)]
    large: Rows = [(5, b"k", bytes(range(256)) * (SMALL_BYTES // 250), [])]
    parts, offset = [], 0
    kinds: list[Rows] = [[(1, None, b"", [])], many, [(2, b"", None, [])], large, [(3, b"a", b"b", [])]]
    for rows in kinds:
        parts.append(build_rows(rows, codec=codec, base_offset=offset))
        offset += len(rows)
    view = b"".join(parts)
    conversion = DownConversion(1)
    found = b"".join(conversion.pieces(memoryview(view)))
    assert found == b"".join(one_by_one(view, 1))
    assert list(open_message_set(found).offsets) == list(range(offset))
    assert conversion.next_offset == offset


def test_control_batches_are_passed_over_and_counted() -> None:
    conversion = DownConversion(1)
    view = simple(1) + simple(1, base_offset=1, control=True)
    assert list(open_message_set(b"".join(conversion.pieces(memoryview(view)))).offsets) == [0]
    assert conversion.next_offset == 2


def test_what_compaction_left_of_a_batch_keeps_its_offsets() -> None:
    apart = b"".join(one_by_one(bytes(simple(1, base_offset=3) + simple(1, base_offset=9)), 1))
    gapped = bytes(up_convert(open_message_set(apart), keep_offsets=True))
    for from_offset, kept in ((0, [3, 9]), (4, [9]), (10, [])):
        found = b"".join(together(gapped, 1, from_offset=from_offset))
        assert list(open_message_set(found).offsets) == kept


BROKEN: dict[str, Any] = {
    "zstd": lambda: simple(1, codec=ZSTD),
    "a codec that never was": lambda: edited(simple(1), attributes=5),
    "a negative base offset": lambda: edited(simple(1), base_offset=-1),
    "too large a base offset": lambda: edited(simple(1), base_offset=1 << 62),
    "more records than there are": lambda: edited(simple(2), record_count=3),
    "fewer records than there are": lambda: edited(simple(2), record_count=1),
    "no records, and bytes": lambda: edited(simple(2), record_count=0),
    "another magic": lambda: edited(simple(1), magic=1),
    "no room for its header": lambda: edited(simple(1), batch_length=10),
    "no lz4": lambda: edited(simple(1), attributes=LZ4),
    "no snappy": lambda: edited(simple(1), attributes=SNAPPY),
    "no gzip": lambda: edited(simple(1), attributes=GZIP),
    "a broken lz4 block": lambda: simple(3, codec=LZ4)[:-6] + b"\xff" * 2 + bytes(4),
    "no lz4 end mark": lambda: simple(3, codec=LZ4)[:-1] + b"\x01",
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=list(BROKEN))
def test_what_is_sound_before_a_broken_batch_is_given_first(broken: Any) -> None:
    sound = bytes(simple(2, codec=LZ4))
    with pytest.raises((BadBatch, CodecFailed, BadMessage)):
        list(one_by_one(bytes(broken()), 1))
    pieces = DownConversion(1).pieces(memoryview(sound + bytes(broken()) + sound))
    assert bytes(next(pieces)) == b"".join(one_by_one(sound, 1))
    with pytest.raises((BadBatch, CodecFailed, BadMessage)):
        list(pieces)


def test_a_limit_counts_for_small_batches_too() -> None:
    view = bytes(build_rows([(1, None, bytes(5000), [])], codec=LZ4))
    assert together(view, 1, limit_bytes=6000) == list(one_by_one(view, 1))
    with pytest.raises(CodecFailed) as caught:
        together(view, 1, limit_bytes=4000)
    assert caught.value.over_limit


@pytest.mark.parametrize("codec", CODECS)
@given(where=st.integers(0, 400), byte=st.integers(0, 255), cut=st.none() | st.integers(0, 200))
def test_mutated_batches_become_the_same_or_nothing_by_both_ways(codec: int, where: int, byte: int, cut: int | None) -> None:
    view = bytearray(simple(3, codec=codec, base_offset=4) + simple(2, codec=codec, base_offset=7))
    view[where % len(view)] = byte
    hostile = bytes(view[:cut])
    assert outcome(lambda: b"".join(together(hostile, 1))) == outcome(lambda: b"".join(one_by_one(hostile, 1)))


def outcome(made: Any) -> Any:
    """What it makes, or how it fails."""
    try:
        return made()
    except (BadBatch, CodecFailed) as failure:
        return type(failure), str(failure)


@pytest.mark.parametrize("magic", [0, 1])
def test_lz4_blocks_that_are_stored_as_they_are(magic: int) -> None:
    noise = bytes((n * n * 31 + 7 * n) >> 3 & 0xFF for n in range(3000))
    view = bytes(build_rows([(1, None, noise[:30], [])], codec=LZ4)) + bytes(build_rows([(1, None, noise, [])], codec=LZ4))
    assert b"".join(together(view, magic)) == b"".join(one_by_one(view, magic))
