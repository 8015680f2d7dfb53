"""What a topic takes: batches whose records are as their header says, with times and keys as the topic wants them."""

from __future__ import annotations

import tracemalloc
from array import array
from collections.abc import Sequence
from itertools import pairwise
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ottla.ports import Buffer
from ottla.records.batches.builder import build, encode_headers, zigzag
from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import HEADER_BYTES, BatchHeader, check, crc_is_valid, read_header
from ottla.records.batches.verification import (
    MOST_OPENED_BYTES,
    MOST_RECORD_ERRORS,
    Demands,
    Refused,
    Verdict,
    check_at_once,
    check_slowly,
)
from ottla.records.compression import codecs
from ottla.records.kernel_common import AT, DIGITS, INDEX, NEWEST, STAGE, WALK_STATES
from ottla.records.pauses import finish
from ottla.wire.errors import INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE
from tests.unit.records.making import ROWS, Rows, build_rows, edited, simple

pytestmark = pytest.mark.usefixtures("kernels")

NOW = 1_700_000_000_000
HOUR = 3_600_000
CODECS = range(5)
LOG_APPEND_TIME = 0x08


def record(delta: int, body: bytes = b"\x01\x02v\x00", *, age: int = 0, length: int | None = None) -> bytes:
    """One record; `body` begins at its key (none, and the value v)."""
    rest = b"\x00" + zigzag(age) + zigzag(delta) + body
    return zigzag(len(rest) if length is None else length) + rest


def batch_of(*records: bytes, codec: int = 0, **fields: int) -> bytearray:
    """A sound header before these records, which may be anything."""
    model = simple(len(records))
    body = codecs.compress(codec, b"".join(records))
    known: dict[str, Any] = {
        "batch_length": HEADER_BYTES - 12 + len(body),
        "attributes": codec,
        "base_timestamp": NOW,
        "max_timestamp": NOW,
    }
    return edited(model[:HEADER_BYTES] + body, **{**known, **fields})


def verdict(batch: bytearray, demands: Demands | None = None, limit_bytes: int = MOST_OPENED_BYTES) -> Verdict:
    view = memoryview(batch)
    error_code, header = check(view)
    assert error_code == 0
    assert header is not None
    wanted = Demands() if demands is None else demands
    again = memoryview(bytearray(batch))
    at_once = None if limit_bytes < MOST_OPENED_BYTES else check_at_once(again, header, wanted, NOW)
    slowly = finish(check_slowly(view, header, wanted, NOW, limit_bytes=limit_bytes))
    if at_once is not None:
        assert [said(at_once), bytes(again)] == [said(slowly), bytes(view)], "the short way and the long one say the same"
    return slowly


def said(verdict: Verdict) -> tuple[BatchHeader, tuple[int, object] | None]:
    """All of a verdict but a library's words."""
    header, refusal = verdict
    return header, None if refusal is None else (refusal.error_code, refusal.records)


def refused(batch: bytearray, demands: Demands | None = None, limit_bytes: int = MOST_OPENED_BYTES) -> Refused:
    refusal = verdict(batch, demands, limit_bytes)[1]
    assert refusal is not None
    return refusal


FIRST, LAST = record(0), record(2)
BROKEN = {
    "fewer records than counted": [FIRST, record(1), b""],
    "a byte behind the last": [FIRST, record(1), LAST + b"\x00"],
    "no record at all": [b"\xff" * 9, b"\xff" * 9, b"\xff" * 9],
    "zeros": [bytes(9), bytes(9), bytes(9)],
    "deltas in another order": [FIRST, LAST, record(1)],
    "the same delta twice": [FIRST, FIRST, LAST],
    "deltas from 1": [record(1), record(2), record(3)],
    "a negative delta": [record(-1), record(0), record(1)],
    "a delta beyond an offset": [FIRST, record(2**32 + 1), LAST],
    "a length beyond the end": [FIRST, record(1), record(2, length=200)],
    "a length that is too short": [FIRST, record(1, length=9), LAST],
    "a negative length": [FIRST, zigzag(-5), LAST],
    "a length of nothing": [FIRST, zigzag(0), LAST],
    "bytes after the headers": [FIRST, record(1, b"\x01\x02v\x00xx"), LAST],
    "a length in too many bytes": [b"\x8e\x80\x80\x80\x80\x00" + FIRST[1:], record(1), LAST],
    "a key beyond its record": [FIRST, record(1, zigzag(100) + b"v\x00"), LAST],
    "a value beyond its record": [FIRST, record(1, b"\x01" + zigzag(100) + b"v\x00"), LAST],
    "more headers than fit": [FIRST, record(1, b"\x01\x02v" + zigzag(1000) + b"xx"), LAST],
    "fewer headers than none": [FIRST, record(1, b"\x01\x02v" + zigzag(-1)), LAST],
    "a header without a name": [FIRST, record(1, b"\x01\x02v\x02\x01\x01"), LAST],
    "a header's value beyond its record": [FIRST, record(1, b"\x01\x02v\x02\x02n" + zigzag(9)), LAST],
}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("what", BROKEN)
def test_records_that_are_not_as_the_header_says_are_refused(what: str, codec: int) -> None:
    refusal = refused(batch_of(*BROKEN[what], codec=codec))
    assert (refusal.error_code, refusal.records) == (INVALID_RECORD, ())
    assert "3 records" in refusal.sentence


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "batch",
    [
        [record(0)],
        [record(n, b"\x02k\x02v\x00") for n in range(3)],
        [record(0, b"\x01\x01\x00"), record(1, zigzag(-5) + zigzag(-9) + b"\x00"), record(2, b"\x00\x00\x00")],
        [record(0, b"\x01\x02v" + encode_headers([("n", b"v"), ("", None)])), record(1), record(2, b"\x01\x02v\x02\x02\xff\x01")],
        [record(n, age=-n) for n in range(200)],
        [record(n, b"\x01" + zigzag(9000) + bytes(9000) + b"\x00") for n in range(70)],
    ],
)
def test_sound_records_are_taken_as_they_are(batch: list[bytes], codec: int) -> None:
    made = batch_of(*batch, codec=codec)
    before = bytes(made)
    header, refusal = verdict(made)
    assert (header, refusal, bytes(made)) == (read_header(made), None, before)


def test_many_records_are_taken() -> None:
    assert verdict(simple(20_000))[1] is None


@pytest.mark.slow
@given(rows=ROWS, codec=st.sampled_from(CODECS))
def test_whatever_is_built_is_taken(rows: Rows, codec: int) -> None:
    header, refusal = verdict(build_rows(rows, codec=codec), Demands(append_time=True))
    assert (refusal, header.record_count) == (None, len(rows))


@pytest.mark.slow
@given(rows=ROWS, where=st.integers(0, 400), byte=st.integers(0, 255), cut=st.integers(0, 20))
@example(rows=[(0, b"k", b"v", [("h", b"v")])], where=0, byte=0xFF, cut=0)
def test_what_is_taken_can_be_opened(rows: Rows, where: int, byte: int, cut: int) -> None:
    batch = build_rows(rows)
    batch[HEADER_BYTES + where % (len(batch) - HEADER_BYTES)] = byte
    del batch[max(len(batch) - cut, HEADER_BYTES + 1) :]
    batch = edited(batch, batch_length=len(batch) - 12)
    header, refusal = verdict(batch)
    if refusal is None:
        assert [one.offset for one in open_batches(batch).records()] == list(range(header.record_count))


NUMBERS = st.sampled_from([-1, 0, 1, NOW, -(2**63), 2**63 - 1, 2**62]) | st.integers(-(2**63), 2**63 - 1)
RANDOM_RECORDS = st.binary(max_size=80) | st.lists(st.sampled_from([0, 1, 2, 8, 14, 0x7F, 0x80, 0xFF]), max_size=60).map(bytes)


@pytest.mark.slow
@given(data=RANDOM_RECORDS, rows=ROWS, sound=st.booleans(), base=NUMBERS, earliest=NUMBERS, latest=NUMBERS, keyed=st.booleans())
def test_both_runs_judge_alike(
    kernels: SimpleNamespace, data: bytes, rows: Rows, sound: bool, base: int, earliest: int, latest: int, keyed: bool
) -> None:
    from ottla.records import kernel

    records = bytes(build_rows(rows)[HEADER_BYTES:]) if sound else data
    for count in (0, 1, 2, len(rows)):
        told = kernels.kernel.walk(records, 0, count, base, earliest, latest, keyed)
        assert told == kernel.walk(records, 0, count, base, earliest, latest, keyed)
        if sound and count == len(rows):
            assert told != kernel.BROKEN


@pytest.mark.slow
@pytest.mark.parametrize("count", [63, 64, 8191, 8192, 8193])
def test_offset_deltas_of_any_width_are_counted(count: int) -> None:
    records = [record(n) for n in range(count + 1)]
    assert verdict(batch_of(*records))[1] is None
    assert refused(batch_of(*records[:-1], record(count + 1))).error_code == INVALID_RECORD
    assert refused(batch_of(*records[:-1], record(count - 1))).error_code == INVALID_RECORD


def test_ranges_outside_the_buffer_are_an_error(kernels: SimpleNamespace) -> None:
    for pos, count in ((-1, 1), (2, 1), (0, -1)):
        with pytest.raises(ValueError, match="walk:"):
            kernels.kernel.walk(b"1", pos, count, 0, 0, 0, False)
    for at, digits in ((-1, 0), (2, 0), (0, -1), (0, 10)):
        state = array("q", bytes(8 * WALK_STATES))
        state[AT], state[DIGITS] = at, digits
        with pytest.raises(ValueError, match="walk_on:"):
            kernels.kernel.walk_on(b"1", state, bytearray(10), 1, 0, 0, 0, False)
    with pytest.raises(ValueError, match="walk_on:"):
        kernels.kernel.walk_on(b"1", array("q", [0]), bytearray(10), 1, 0, 0, 0, False)
    with pytest.raises(ValueError, match="walk_on:"):
        kernels.kernel.walk_on(b"1", array("q", bytes(8 * WALK_STATES)), bytearray(9), 1, 0, 0, 0, False)


@pytest.mark.slow
@given(
    data=RANDOM_RECORDS,
    rows=ROWS,
    sound=st.booleans(),
    broken=st.none() | st.tuples(st.integers(0, 400), st.integers(0, 255)),
    cuts=st.lists(st.integers(0, 9000), max_size=8),
    limits=st.tuples(NUMBERS, NUMBERS, NUMBERS),
    keyed=st.booleans(),
)
def test_a_walk_over_pieces_finds_what_a_walk_over_all_does(
    kernels: SimpleNamespace,
    data: bytes,
    rows: Rows,
    sound: bool,
    broken: tuple[int, int] | None,
    cuts: list[int],
    limits: tuple[int, int, int],
    keyed: bool,
) -> None:
    records = bytearray(build_rows(rows)[HEADER_BYTES:]) if sound else bytearray(data)
    if broken is not None and records:
        records[broken[0] % len(records)] = broken[1]
    places = sorted({cut % (len(records) + 1) for cut in cuts} | {0, len(records)})
    pieces = [records[start:end] for start, end in pairwise(places)]
    for count in {0, 1, len(rows)}:
        for cut in (pieces, [records[at : at + 1] for at in range(len(records))]):
            assert walked(kernels.kernel, cut, count, *limits, keyed) == kernels.kernel.walk(records, 0, count, *limits, keyed)


def walked(kernel: ModuleType, pieces: Sequence[Buffer], count: int, *limits: Any) -> int:
    """What `walk_on` says of all pieces."""
    state, digits, is_doubtful = array("q", bytes(8 * WALK_STATES)), bytearray(10), False
    state[NEWEST] = -1
    for piece in pieces:
        state[AT] = 0
        while found := kernel.walk_on(piece, state, digits, count, *limits):
            if found == kernel.BROKEN:
                return int(found)
            is_doubtful = True
    if state[INDEX] != count or state[STAGE] or state[DIGITS]:
        return int(kernel.BROKEN)
    return int(kernel.DOUBTFUL) if is_doubtful else state[NEWEST]


@pytest.mark.parametrize("codec", CODECS)
def test_a_time_outside_what_the_topic_takes_is_refused_by_record(codec: int) -> None:
    hour = Demands(before_ms=HOUR, after_ms=HOUR)
    records = [record(0), record(1, age=HOUR + 1), record(2, age=HOUR), record(3, age=-HOUR - 1), record(4, age=-NOW - 1)]
    refusal = refused(batch_of(*records, codec=codec, max_timestamp=NOW), hour)
    assert (refusal.error_code, [index for index, _ in refusal.records]) == (INVALID_TIMESTAMP, [1, 3])
    assert f"{NOW + HOUR + 1} is outside {NOW - HOUR} to {NOW + HOUR}" in refusal.records[0][1]
    assert refusal.records[0][1] in refusal.sentence
    records = [record(0), record(1, age=HOUR), record(2, age=-HOUR), record(3, age=-NOW - 1)]
    assert verdict(batch_of(*records, codec=codec, max_timestamp=NOW + HOUR), hour)[1] is None


def test_a_topic_with_the_brokers_time_takes_any_of_the_producers() -> None:
    records = [record(0), record(1, age=2**62), record(2, age=-(2**62) - NOW)]
    assert verdict(batch_of(*records), Demands(append_time=True))[1] is None


@pytest.mark.parametrize("codec", CODECS)
def test_a_record_without_a_key_is_refused_where_keys_are_wanted(codec: int) -> None:
    records = [record(0), record(1, b"\x02k\x02v\x00"), record(2), record(3, b"\x00\x02v\x00")]
    assert verdict(batch_of(*records, codec=codec))[1] is None
    for demands in (Demands(keyed=True), Demands(keyed=True, append_time=True)):
        refusal = refused(batch_of(*records, codec=codec), demands)
        assert (refusal.error_code, [index for index, _ in refusal.records]) == (INVALID_RECORD, [0, 2])
        assert "key" in refusal.sentence


def test_a_time_decides_the_code_and_a_missing_key_the_sentence() -> None:
    records = [record(0, age=9 * HOUR), record(1, b"\x02k\x02v\x00", age=9 * HOUR)]
    refusal = refused(batch_of(*records), Demands(keyed=True, after_ms=HOUR))
    assert refusal.error_code == INVALID_TIMESTAMP
    assert ["key" in sentence for _, sentence in refusal.records] == [True, False]


def test_of_many_records_at_fault_the_first_thousand_are_named() -> None:
    refusal = refused(batch_of(*[record(n) for n in range(MOST_RECORD_ERRORS + 500)]), Demands(keyed=True))
    assert [index for index, _ in refusal.records] == list(range(MOST_RECORD_ERRORS))


@pytest.mark.parametrize("codec", CODECS)
def test_a_greatest_timestamp_that_is_not_is_put_right(codec: int) -> None:
    made = batch_of(record(0), record(1, age=5), record(2, age=-5), codec=codec, max_timestamp=NOW + 99 * HOUR)
    header, refusal = verdict(made, Demands(after_ms=HOUR))
    assert (refusal, header.max_timestamp, read_header(made)) == (None, NOW + 5, header)
    assert crc_is_valid(memoryview(made))
    timeless = batch_of(record(0), base_timestamp=-1, max_timestamp=7)
    assert verdict(timeless)[0].max_timestamp == -1


def test_a_producer_that_claims_the_brokers_time_is_put_right_or_refused() -> None:
    def claims(max_timestamp: int = NOW) -> bytearray:
        return batch_of(record(0), record(1, age=-9 * HOUR), attributes=LOG_APPEND_TIME, max_timestamp=max_timestamp)

    made = claims()
    header, refusal = verdict(made, Demands(before_ms=HOUR, after_ms=HOUR))
    assert (refusal, header.attributes, header.max_timestamp, read_header(made)) == (None, 0, NOW, header)
    assert crc_is_valid(memoryview(made))
    for demands, batch in ((Demands(append_time=True), claims()), (Demands(after_ms=HOUR), claims(NOW + 2 * HOUR))):
        refusal = refused(batch, demands)
        assert (refusal.error_code, [index for index, _ in refusal.records]) == (INVALID_TIMESTAMP, [0, 1])
    assert refused(claims(), Demands(keyed=True)).error_code == INVALID_RECORD


@pytest.mark.parametrize("codec", CODECS[1:])
def test_bytes_that_the_codec_cannot_open_are_refused(codec: int) -> None:
    sound = codecs.compress(codec, b"".join(record(n) for n in range(3)))
    for body in (b"not compressed at all", b"", sound[:-3], sound[:12]):
        made = edited(simple(3)[:HEADER_BYTES] + body, batch_length=HEADER_BYTES - 12 + len(body), attributes=codec)
        assert refused(made).error_code == INVALID_RECORD


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_bomb_is_refused_in_little_memory(codec: int) -> None:
    made = build(None, [bytes(30_000_000)], NOW, codec=codec)
    tracemalloc.start()
    try:
        refusal = refused(made, limit_bytes=1_000_000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert refusal.error_code == MESSAGE_TOO_LARGE
    assert "smaller" in refusal.sentence
    assert peak < 5_000_000
