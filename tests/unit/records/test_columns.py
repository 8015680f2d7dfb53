"""Batches opened into columns and built from them: the same on the compiled and the uncompiled kernel."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records import kernel
from ottla.records.batches.arenas import LARGEST_BYTES, Arenas
from ottla.records.batches.builder import build
from ottla.records.batches.columns import Columns, Record, open_batches
from ottla.records.batches.header import BadBatch, BatchHeader, check, read_header
from ottla.records.compression.codecs import CodecFailed
from tests.unit.records.making import ROWS, Rows, build_rows, edited, records_of, simple

pytestmark = pytest.mark.usefixtures("kernels")


@pytest.mark.slow
@given(rows=ROWS, codec=st.integers(0, 4))
def test_what_is_built_opens_again(rows: Rows, codec: int) -> None:
    batch = build_rows(rows, codec=codec)
    code, header = check(memoryview(batch))
    assert code == 0
    assert header is not None
    assert header.max_timestamp == max(row[0] for row in rows)
    assert header.base_timestamp == rows[0][0]
    columns = open_batches(batch, check_crcs=True)
    assert columns.records() == records_of(rows)
    assert columns.next_offset == len(rows)


@st.composite
def stretches(draw: st.DrawFn) -> bytes:
    """Batches one after the other: mostly plain ones, perhaps with a header that lies, or cut off in the middle of the last.

    No header lies about its last offset, by which a batch below `from_offset` is passed unopened: joined batches are all opened.
    """
    made, next_offset = b"", draw(st.sampled_from([0, 7, 2**40]))
    for rows in draw(st.lists(ROWS, max_size=4)):
        batch = build_rows(rows, codec=draw(st.sampled_from([0, 0, 0, 4])), base_offset=next_offset)
        if draw(st.sampled_from([False, False, True])):
            lies = {"attributes": st.sampled_from([8, 16, 32, 64]), "crc": st.just(1)}
            lies |= {"record_count": st.integers(-1, 13), "base_offset": st.sampled_from([-1, 2**62]), "magic": st.just(1)}
            lies |= {"batch_length": st.sampled_from([-1, 0, 48, 49, 2**31 - 1])}
            name = draw(st.sampled_from(sorted(lies)))
            batch = edited(batch, fix_crc=False, **{name: draw(lies[name])})
        made += bytes(batch)
        next_offset += len(rows)
    return made[: len(made) - draw(st.sampled_from([0, 0, 1, 30, 70]))]


@given(data=stretches(), from_offset=st.sampled_from([0, 0, 5, 2**40 + 3]), control=st.booleans(), check_crcs=st.booleans())
def test_joined_batches_have_the_records_of_single_ones(data: bytes, from_offset: int, control: bool, check_crcs: bool) -> None:
    def opened(joined: bool) -> object:
        try:
            columns = open_batches(data, from_offset=from_offset, control=control, check_crcs=check_crcs, joined=joined)
        except (BadBatch, CodecFailed) as error:
            return str(error)
        return columns.records(), columns.next_offset, list(columns.offsets), list(columns.timestamps)

    assert opened(joined=True) == opened(joined=False)


def test_memory_of_columns_is_reused_once_nobody_reads_them() -> None:
    def opened(number: int) -> Columns:
        return open_batches(build(None, [b"%d" % number] * 9, number, base_offset=number), joined=True)

    kept = [opened(number) for number in range(5)]
    for number, columns in enumerate(kept):
        assert list(columns.offsets) == list(range(number, number + 9))
        assert list(columns.timestamps) == [number] * 9
    last = kept.pop()
    memory = last.all_offsets.obj
    times = last.timestamps
    del last, columns
    assert opened(7).all_offsets.obj is not memory, "a view of the memory is left"
    assert list(times) == [4] * 9
    arenas = Arenas(kept=1)
    first = arenas.allocate(64)
    again = first.obj
    del first
    assert arenas.allocate(60).obj is again
    assert arenas.allocate(LARGEST_BYTES + 1).obj is not arenas.allocate(LARGEST_BYTES + 1).obj


def test_plain_batches_of_one_timestamp_type_are_joined() -> None:
    plain = bytes(simple(3)) + bytes(simple(2, base_offset=3))
    stamped = [bytes(edited(simple(2, base_offset=at), attributes=8, max_timestamp=at)) for at in (5, 7)]
    assert [(run.first, run.end) for run in open_batches(plain, joined=True).runs] == [(0, 5)]
    assert len(open_batches(plain + stamped[0], joined=True).runs) == 3
    columns = open_batches(b"".join(stamped), from_offset=6, joined=True)
    assert (len(columns.runs), list(columns.offsets), list(columns.timestamps)) == (1, [6, 7, 8], [5, 7, 7])
    assert {record.timestamp_type for record in columns.records()} == {1}


def test_the_header_says_what_was_asked_for() -> None:
    batch = build(None, [b"v"], 5, producer_id=7, producer_epoch=3, base_sequence=9, transactional=True, base_offset=11)
    header = read_header(batch)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.base_offset) == (7, 3, 9, 11)
    assert header.is_transactional
    assert not header.is_control
    assert header.leader_epoch == -1


def test_keys_and_values_may_be_any_buffer() -> None:
    batch = build([memoryview(b"key"), None], [bytearray(b"value"), b""], [1, 2])
    assert [(record.key, record.value) for record in open_batches(batch).records()] == [(b"key", b"value"), (None, b"")]


@pytest.mark.parametrize(
    ("keys", "values", "times", "headers"),
    [([], [], 0, None), ([b""], [b"", b""], 0, None), (None, [b""], [1, 2], None), (None, [b""], 0, [None, None])],
)
def test_columns_that_differ_in_length_are_refused(keys: list[bytes], values: list[bytes], times: int, headers: list[None]) -> None:
    with pytest.raises(ValueError, match="as many keys"):
        build(keys, values, times, headers)


def test_batches_one_after_the_other_are_one_table_with_the_torn_one_left_out() -> None:
    parts = [simple(3, base_offset=10), simple(2, base_offset=13, codec=3), simple(4, base_offset=20, codec=1)]
    columns = open_batches(b"".join(parts) + parts[0][:70])
    assert [record.offset for record in columns.records()] == [10, 11, 12, 13, 14, 20, 21, 22, 23]
    assert list(columns.offsets) == [10, 11, 12, 13, 14, 20, 21, 22, 23]
    assert list(columns.timestamps) == [1000, 1001, 1002, 1000, 1001, 1000, 1001, 1002, 1003]
    assert columns.next_offset == 24


@given(st.integers(8, 26), st.integers(8, 26))
def test_only_the_offsets_asked_for_are_opened(first: int, end: int) -> None:
    view = b"".join(bytes(simple(3, base_offset=base, codec=base % 5)) for base in (10, 13, 20))
    columns = open_batches(view, from_offset=first, until_offset=end)
    assert [record.offset for record in columns.records()] == [
        offset for offset in (10, 11, 12, 13, 14, 15, 20, 21, 22) if first <= offset < end
    ]
    assert columns.record_count == len(columns.offsets) == len(columns.span_column(kernel.VALUE_SIZE))
    assert columns.next_offset == (-1 if end <= 10 else min(end, 13 if end <= 13 else 16 if end <= 20 else 23))


def test_control_batches_are_hidden_unless_asked_for_and_move_the_reader_on() -> None:
    view = simple(1) + simple(1, base_offset=1, control=True)
    assert [record.offset for record in open_batches(view).records()] == [0]
    assert open_batches(view).next_offset == 2
    assert [record.offset for record in open_batches(view, control=True).records()] == [0, 1]


def test_batches_can_be_left_out_by_their_headers() -> None:
    def not_of_9(header: BatchHeader) -> bool:
        return header.producer_id != 9

    view = simple(1, producer_id=9, base_sequence=0) + simple(1, base_offset=1, producer_id=8, base_sequence=0)
    assert [record.offset for record in open_batches(view, wanted=not_of_9).records()] == [1]


def test_a_slice_shares_memory_and_keeps_its_runs_apart() -> None:
    columns = open_batches(simple(3) + simple(3, base_offset=3, codec=4))
    piece = columns.slice(2, 5)
    assert [record.offset for record in piece.records()] == [2, 3, 4]
    assert [(run.first, run.end) for run in piece.pieces()] == [(2, 3), (3, 5)]
    assert piece.all_offsets is columns.all_offsets
    assert len(columns.slice(4, 99)) == 2
    assert len(columns.slice(9, 99)) == 0


def test_nothing_opens_to_nothing() -> None:
    columns = open_batches(b"")
    assert (len(columns), columns.next_offset, columns.records(), list(columns.offsets)) == (0, -1, [], [])


def test_gaps_after_compaction_are_kept() -> None:
    assert open_batches(edited(simple(2), last_offset_delta=9)).next_offset == 10


def test_a_record_is_a_tuple_with_names() -> None:
    record = open_batches(build([b"k"], [b"v"], 5, [[("h", None)]], base_offset=4)).records()[0]
    assert type(record) is Record
    assert record == (4, 5, 0, b"k", b"v", (("h", None),))
    assert hash(record) == hash((4, 5, 0, b"k", b"v", (("h", None),)))


@pytest.mark.parametrize(
    "batch",
    [
        edited(simple(3), record_count=4, last_offset_delta=3),
        edited(simple(3), record_count=2, last_offset_delta=1),
        edited(simple(3), record_count=-1),
        edited(simple(3), record_count=2**31 - 1, last_offset_delta=2**31 - 2),
        edited(simple(3, codec=4), record_count=2**31 - 1),
        edited(simple(3), base_offset=-1),
        edited(simple(3), base_offset=2**63 - 1),
    ],
)
def test_a_header_that_lies_about_its_records_is_found_out(batch: bytearray) -> None:
    with pytest.raises(BadBatch):
        open_batches(batch)


def test_a_codec_that_lies_is_found_out() -> None:
    with pytest.raises(CodecFailed):
        open_batches(edited(simple(3), attributes=1))


def test_a_wrong_crc_is_found_only_where_asked() -> None:
    batch = edited(simple(3), fix_crc=False, crc=1)
    assert len(open_batches(batch)) == 3
    with pytest.raises(BadBatch, match="CRC"):
        open_batches(batch, check_crcs=True)


def test_the_limit_counts_for_all_batches_together() -> None:
    batch = build(None, [bytes(1000)], 0, codec=4)
    open_batches(batch * 2, limit_bytes=2100)
    with pytest.raises(CodecFailed, match="limit"):
        open_batches(batch * 2, limit_bytes=1500)


def test_an_uncompiled_kernel_says_so_once(kernels: SimpleNamespace, caplog: pytest.LogCaptureFixture) -> None:
    from ottla.records import compilation_warning

    compilation_warning.warn_once.cache_clear()
    with caplog.at_level(logging.INFO, "ottla.records"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(compilation_warning, "kernel", kernels.kernel)
        build(None, [b""], 0)
        open_batches(b"")
    assert len(caplog.records) == (0 if kernels.kernel.COMPILED else 1)
