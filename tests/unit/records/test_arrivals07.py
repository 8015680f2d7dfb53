"""What producers of Kafka 0.7 send becomes batches, and its readers see batches of any kind: the same bytes, the same values."""

from __future__ import annotations

import gzip
import random
import tracemalloc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.kafka07.records import produced_messages as arrivals07
from ottla.kafka07.records.messages import MOST_NESTED, message_set, messages
from ottla.kafka07.records.produced_messages import Arrived07, Run07, Terms07, arrive
from ottla.kafka07.records.renderer import Kind07, Rendering07, open_batch, render, size_of
from ottla.ports import Pauses
from ottla.records import kernel_07
from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import BadBatch, check, read_header, stamp
from ottla.records.batches.verification import Demands, check_at_once
from ottla.records.compression import codecs
from ottla.records.compression.codecs import CodecFailed
from ottla.records.message_sets.legacy import BadMessage
from ottla.records.pauses import finish
from tests.fuzz.mutations import mutations
from tests.unit.records.making import ROWS, Rows, build_rows, edited, simple

pytestmark = pytest.mark.usefixtures("kernels")

NOW = 1_700_000_000_000
TERMS = Terms07(NOW)
PAYLOADS = st.lists(st.binary(max_size=30) | st.sampled_from([bytes(63), bytes(64), bytes(8192)]), min_size=1, max_size=6)
PARTS = st.lists(st.tuples(st.sampled_from([0, 1, 4, 5, 6]), PAYLOADS), min_size=1, max_size=5)
"""What a set is made of: plain messages of format 0 or 1, or some compressed (a bit above), each with payloads."""


def one(payload: bytes, attributes: int = 0, magic: int = 1) -> bytes:
    body = bytes((magic, attributes))[: 1 + magic] + crc32(payload).to_bytes(4, "big") + payload
    return len(body).to_bytes(4, "big") + body


def made(parts: list[tuple[int, list[bytes]]]) -> bytes:
    """Sets one after another: 0 and 1 are plain, 4 gzip, 5 snappy, 6 a compressed one with a plain one in another."""
    kinds = {0: (0, 0), 1: (1, 0), 4: (1, codecs.GZIP), 5: (1, codecs.SNAPPY)}
    out = b""
    for kind, payloads in parts:
        if kind == 6:
            inner = message_set(payloads[:1], magic=0) + message_set(payloads[1:], codec=codecs.SNAPPY)
            out += one(gzip.compress(inner, mtime=0), codecs.GZIP)
        else:
            magic, codec = kinds[kind]
            out += message_set(payloads, magic=magic, codec=codec)
    return out


def arrived(view: bytes, terms: Terms07 = TERMS) -> Arrived07:
    return finish(arrive(view, terms))


def runs_of(view: bytes, terms: Terms07 = TERMS) -> tuple[Run07, ...]:
    found = arrived(view, terms)
    assert not found.too_large_bytes
    return found.runs


def seen(run: Run07) -> bytes:
    """The run as a reader of 0.7 gets it."""
    if run.kept is not None:
        return bytes(run.kept)
    return bytes(finish(render(memoryview(run.batch), run.header, int(run.kind))))


def values_of(run: Run07) -> list[bytes]:
    return [record.value or b"" for record in open_batches(bytes(run.batch), check_crcs=True).records()]


@pytest.mark.slow
@given(parts=PARTS, codec=st.sampled_from([None, *range(5)]), torn=st.integers(0, 20))
def test_readers_of_any_time_get_what_was_sent(parts: list[tuple[int, list[bytes]]], codec: int | None, torn: int) -> None:
    view = made(parts)
    runs = runs_of(view + one(b"x" * 20)[:torn], TERMS._replace(codec=codec))
    assert b"".join(seen(run) for run in runs) == view
    assert sum(run.size for run in runs) == len(view)
    assert [value for run in runs for value in values_of(run)] == [found.payload for found in messages(view)]
    for run in runs:
        error_code, header = check(memoryview(run.batch))
        assert (error_code, header) == (0, run.header)
        checked = check_at_once(memoryview(run.batch), run.header, Demands(before_ms=0, after_ms=0), NOW)
        assert checked == (run.header, None)
        assert run.header.codec == (codec if codec is not None else view_codec(run))


def view_codec(run: Run07) -> int:
    return 0 if run.kept is None else run.kept[5] & 3


def test_each_run_is_of_one_kind() -> None:
    view = made([(0, [b"a", b"b"]), (1, [b"c"]), (4, [b"d", b"e"]), (5, [b"f"]), (1, [b"g"])])
    runs = runs_of(view)
    assert [run.kind for run in runs] == [Kind07.PLAIN0, Kind07.PLAIN1, Kind07.KEPT, Kind07.KEPT, Kind07.PLAIN1]
    assert [run.header.record_count for run in runs] == [2, 1, 2, 1, 1]
    assert {(run.header.base_timestamp, run.header.max_timestamp) for run in runs} == {(NOW, NOW)}
    assert [record.key for run in runs for record in open_batches(bytes(run.batch)).records()] == [None] * 7


def test_a_large_set_becomes_batches_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals07, "PIECE_BYTES", 100)
    view = message_set([b"%4d" % n for n in range(50)] + [bytes(300)] + [b"end"])
    runs = runs_of(view)
    assert b"".join(seen(run) for run in runs) == view
    assert [run.header.record_count for run in runs] == [7] * 7 + [1, 1, 1]
    assert len(runs_of(made([(4, [bytes(30)] * 50)]))) == 1, "what was compressed together stays together"


def test_a_compressed_message_without_messages_is_left_out() -> None:
    assert [run.kind for run in runs_of(one(gzip.compress(b""), codecs.GZIP) + one(b"x"))] == [Kind07.PLAIN1]
    assert runs_of(one(gzip.compress(b""), codecs.GZIP)) == ()


def test_snappy_is_read_framed_and_raw() -> None:
    raw = one(bytes(cramjam.snappy.compress_raw(one(b"hello"))), codecs.SNAPPY)
    assert values_of(runs_of(raw)[0]) == [b"hello"]


def test_little_is_no_message_and_more_is_a_torn_one() -> None:
    for cut in range(4):
        assert runs_of(one(b"hello")[:cut]) == ()
    for cut in range(4, len(one(b"hello"))):
        assert "torn" in refused(one(b"hello")[:cut]).sentence
        assert len(runs_of(one(b"first") + one(b"hello")[:cut])) == 1


def refused(view: bytes, terms: Terms07 = TERMS) -> BadMessage:
    with pytest.raises(BadMessage) as caught:
        arrived(view, terms)
    return caught.value


HELLO = one(b"hello")


REFUSED = {
    "a wrong checksum": (HELLO[:-1] + b"O", "CRC-32"),
    "a wrong magic": (HELLO[:4] + b"\x02" + HELLO[5:], "magic"),
    "a wrong codec": (HELLO[:5] + b"\x03" + HELLO[6:], "codec 3"),
    "a size below any": (b"\x00\x00\x00\x04" + bytes(10), "size"),
    "no size": (b"\x00\x00\x00\x00" + bytes(10), "size"),
    "a negative size": (b"\xff\xff\xff\xff" + bytes(10), "size"),
    "a size below that of format 1": (b"\x00\x00\x00\x05\x01" + bytes(10), "size"),
    "a torn set within": (one(gzip.compress(HELLO[:-1]), codecs.GZIP), "ends within a message"),
    "a torn end within": (one(gzip.compress(HELLO + HELLO[:2]), codecs.GZIP), "ends within a message"),
    "a wrong checksum within": (one(gzip.compress(HELLO[:-1] + b"O"), codecs.GZIP), "CRC-32"),
    "a wrong magic within": (one(gzip.compress(HELLO[:4] + b"\x02" + HELLO[5:]), codecs.GZIP), "magic"),
    "what gzip cannot open": (one(b"not gzip", codecs.GZIP), "gzip"),
    "what snappy cannot open": (one(b"not snappy", codecs.SNAPPY), "snappy"),
}


@pytest.mark.parametrize(("view", "reason"), REFUSED.values(), ids=list(REFUSED))
def test_what_cannot_be_is_refused(view: bytes, reason: str) -> None:
    assert reason in refused(view).sentence
    assert refused(HELLO + view).position in (0, len(HELLO))


def test_checks_come_in_the_order_of_the_old_broker() -> None:
    """All outer messages come first, each with its checksum before its size; then what is in them."""
    terms = TERMS._replace(max_message_bytes=10)
    large, bad_crc, bad_codec = one(bytes(11)), HELLO[:-1] + b"O", HELLO[:5] + b"\x03" + HELLO[6:]
    assert arrived(large + bad_crc, terms) == Arrived07((), 11)
    assert "CRC-32" in refused(bad_crc + large, terms).sentence
    assert "CRC-32" in refused(large[:-1] + b"x", terms).sentence
    assert arrived(bad_codec + large, terms) == Arrived07((), 11)
    assert "codec 3" in refused(bad_codec + HELLO, terms).sentence


def test_the_compressed_payload_counts_and_not_what_it_opens_to() -> None:
    view = message_set([bytes(5000)], codec=codecs.GZIP)
    assert len(runs_of(view, TERMS._replace(max_message_bytes=200))) == 1
    assert arrived(view, TERMS._replace(max_message_bytes=20)).too_large_bytes > 20


def test_a_release_takes_what_it_knew() -> None:
    assert "magic 1" in refused(HELLO, TERMS._replace(newest_magic=0)).sentence
    assert len(runs_of(one(b"x", magic=0), TERMS._replace(newest_magic=0))) == 1
    assert "codec 2" in refused(message_set([b"x"], codec=codecs.SNAPPY), TERMS._replace(newest_codec=codecs.GZIP)).sentence


def test_sets_within_sets_have_an_end() -> None:
    view = HELLO
    for _ in range(MOST_NESTED):
        view = one(gzip.compress(view, mtime=0), codecs.GZIP)
    assert values_of(runs_of(view)[0]) == [b"hello"]
    assert "sets are nested more than" in refused(one(gzip.compress(view), codecs.GZIP)).sentence


@pytest.mark.slow
@pytest.mark.parametrize("nested", [0, 2])
def test_a_bomb_counts_as_too_large_and_takes_little_memory(nested: int) -> None:
    bomb = one(gzip.compress(message_set([bytes(32 << 20)])), codecs.GZIP)
    for _ in range(nested):
        bomb = one(gzip.compress(bomb), codecs.GZIP)
    terms = TERMS._replace(limit_bytes=1 << 20)
    tracemalloc.start()
    found = arrived(bomb, terms)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.runs == ()
    assert found.too_large_bytes > 1 << 20
    assert peak < 6 << 20
    part = message_set([bytes(600 << 10)], codec=codecs.GZIP)
    assert len(arrived(part, terms).runs) == 1
    assert arrived(part * 2, terms).too_large_bytes > 1 << 20, "one limit is for all of a set"


def test_work_has_pauses() -> None:
    view = message_set([bytes(1000)] * 3000)
    assert sum(1 for _ in arrive(view, TERMS)) >= 6
    assert sum(1 for _ in arrive(message_set([bytes(1000)] * 3000, codec=codecs.SNAPPY), TERMS)) >= 6


def test_mutated_sets_are_taken_as_they_are_read_or_refused() -> None:
    """What is taken has the same messages for readers of any time; what is refused, the slow reader refuses too."""
    seeds = [
        made([(0, [b"one"]), (1, [b"two", b"three"])]),
        made([(4, [b"a", b"b"]), (1, [b"c"])]),
        made([(5, [b"d"]), (6, [b"e", b"f"])]),
    ]
    verdicts = [taken(bytes(view)) for view in mutations(seeds, random.Random(7), 3000)]
    assert set(verdicts) == {True, False}


def taken(view: bytes) -> bool:
    terms = TERMS._replace(limit_bytes=1 << 20)
    try:
        found = arrived(view, terms)
    except BadMessage:
        assert not read_slowly(view, terms.limit_bytes), "only a set whose first message is torn can be read and not be taken"
        return False
    if not found.too_large_bytes:
        assert [value for run in found.runs for value in values_of(run)] == read_slowly(view, terms.limit_bytes)
    return True


def read_slowly(view: bytes, limit_bytes: int) -> list[bytes] | None:
    """The payloads in a set; None if it cannot be."""
    try:
        return [message.payload for message in messages(view, limit_bytes=limit_bytes)]
    except (BadBatch, CodecFailed):
        return None


def expected(rows: Rows, magic: int) -> bytes:
    return message_set([value or b"" for _, _, value, _ in rows], magic=magic)


@pytest.mark.slow
@given(rows=ROWS, codec=st.sampled_from(range(5)), magic=st.sampled_from([0, 1]))
def test_any_batch_is_seen_as_its_values_alone(rows: Rows, codec: int, magic: int) -> None:
    """Keys, headers and times are lost, null is empty, and compression makes no difference."""
    batch = build_rows(rows, codec=codec)
    header = read_header(batch)
    whole = finish(render(memoryview(batch), header, magic))
    assert bytes(whole) == expected(rows, magic)
    assert finish(size_of(memoryview(batch), header, magic)) == len(whole)


READS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 60) | st.sampled_from([8192, 1 << 16])), min_size=1, max_size=12)


@pytest.mark.slow
@given(rows=ROWS, magic=st.sampled_from([0, 1]), reads=READS, onwards=st.booleans())
def test_a_batch_is_rendered_from_any_byte_to_any(rows: Rows, magic: int, reads: list[tuple[float, int]], onwards: bool) -> None:
    batch = build_rows(rows)
    whole = expected(rows, magic)
    rendering = opened(batch, magic)
    assert rendering.size == len(whole)
    position = 0
    for where, size in reads:
        position = position if onwards else round(where * len(whole))
        out = bytearray(b"#" * size)
        written = rendering.into(position, memoryview(out))
        assert bytes(out[:written]) == whole[position : position + size]
        assert written == min(size, len(whole) - position)
        assert out[written:] == b"#" * (size - written)
        position += written


def opened(batch: bytearray, magic: int, limit_bytes: int = 1 << 20) -> Rendering07:
    return finish(open_batch(memoryview(batch), read_header(batch), magic, limit_bytes))


@pytest.mark.slow
@given(rows=ROWS, magic=st.sampled_from([0, 1]), data=st.data())
def test_records_and_positions_are_found_by_each_other(rows: Rows, magic: int, data: st.DataObject) -> None:
    rendering = opened(build_rows(rows), magic)
    starts = [len(expected(rows[:index], magic)) for index in range(len(rows) + 1)]
    assert [rendering.position_of(index) for index in range(len(rows) + 1)] == starts
    for position in data.draw(st.lists(st.integers(0, rendering.size), max_size=6)):
        index = max(index for index, start in enumerate(starts) if start <= position)
        assert rendering.record_at(position) == (index, starts[index])


def test_a_batch_that_lies_is_not_rendered() -> None:
    sound = simple(3)
    for broken in (
        edited(sound, record_count=2),
        edited(sound, record_count=4),
        edited(sound[:-1], batch_length=len(sound) - 13),
        edited(sound[:61] + b"\x01" + sound[62:]),
    ):
        with pytest.raises(BadBatch):
            opened(broken, 1)


def test_what_opens_to_more_than_the_limit_is_not_rendered() -> None:
    with pytest.raises(CodecFailed, match="limit"):
        opened(build_rows([(0, None, bytes(2 << 20), [])], codec=codecs.GZIP), 1)


def pauses(work: Pauses[object]) -> int:
    return sum(1 for _ in work)


def test_a_large_batch_is_rendered_with_pauses() -> None:
    batch = build_rows([(0, None, bytes(1000), [])] * 2500)
    assert pauses(render(memoryview(batch), read_header(batch), 1)) >= 4


@given(data=st.binary(max_size=60), count=st.integers(0, 4), magic=st.integers(0, 1), wanted=st.integers(0, 60))
def test_both_runs_read_the_same_in_any_bytes(kernels: SimpleNamespace, data: bytes, count: int, magic: int, wanted: int) -> None:
    def read(module: Any) -> list[object]:
        out = bytearray(wanted)
        written = bytearray(4 * len(data) + 24 * 5)
        look = module.look(data, 0, len(data), wanted)
        return [
            module.measure(data, 0, len(data), count),
            module.locate(data, 0, len(data), count, magic, wanted),
            module.measure_batches(data, 0, len(data), 0, magic),
            module.value_at(data, 0, len(data)),
            module.render(data, 0, len(data), count, magic, out, 0),
            bytes(out),
            look,
            module.write(data, 0, look[1], written, 0, wanted) if look[0] >= 0 else None,
            bytes(written),
        ]

    assert read(kernels.kernel_07) == read(kernel_07)


def numbered(batches: list[bytearray], base_offset: int = 5) -> bytes:
    """Batches one after another, with offsets from `base_offset` on."""
    for batch in batches:
        stamp(batch, 0, base_offset, 0)
        base_offset = read_header(batch).next_offset
    return b"".join(batches)


@pytest.mark.slow
@given(
    parts=st.lists(ROWS, min_size=1, max_size=5), magic=st.sampled_from([0, 1]), room=st.integers(0, 400), torn=st.integers(0, 70)
)
def test_plain_batches_in_a_row_are_passed_at_once(
    kernels: SimpleNamespace, parts: list[Rows], magic: int, room: int, torn: int
) -> None:
    kernel = kernels.kernel_07
    batches = [build_rows(rows) for rows in parts]
    view = numbered(batches)
    sizes = [len(expected(rows, magic)) for rows in parts]
    whole = [sum(map(len, batches[:n])) for n in range(len(parts) + 1) if sum(map(len, batches[:n])) <= len(view) - torn][-1]
    passed = next(n for n in range(len(parts) + 1) if sum(map(len, batches[:n])) == whole)
    after = 5 + sum(map(len, parts[:passed]))
    assert kernel.measure_batches(view, 0, len(view) - torn, 5, magic) == (whole, after, sum(sizes[:passed]))
    fits = max(n for n in range(len(parts) + 1) if sum(sizes[:n]) <= room)
    out = bytearray(room)
    written = kernel.render_batches(view, 0, len(view), 5, 1000, magic, out, 0)
    assert written == (sum(map(len, batches[:fits])), 5 + sum(map(len, parts[:fits])), sum(sizes[:fits]))
    assert out[: written[2]] == b"".join(expected(rows, magic) for rows in parts[:fits])


def test_only_plain_batches_that_follow_are_passed_at_once(kernels: SimpleNamespace) -> None:
    """Neither compressed ones, nor control batches, nor broken ones, nor those behind a gap or an end."""
    kernel, out = kernels.kernel_07, bytearray(1000)
    first = simple(2)
    others = [simple(2, codec=1), simple(2, control=True), edited(simple(2), record_count=3), edited(simple(2), magic=1)]
    for other in others:
        view = numbered([first, other])
        assert kernel.measure_batches(view, 0, len(view), 5, 1)[:2] == (len(first), 7)
        assert kernel.render_batches(view, 0, len(view), 5, 1000, 1, out, 0)[:2] == (len(first), 7)
    view = numbered([first, simple(2)])
    assert kernel.measure_batches(view, 0, len(view), 4, 1) == (0, 4, 0)
    assert kernel.render_batches(view, 0, len(view), 4, 1000, 1, out, 7) == (0, 4, 7)
    assert kernel.render_batches(view, 0, len(view), 5, 7, 1, out, 0)[:2] == (len(first), 7)


def test_the_kernel_stays_within_its_ranges(kernels: SimpleNamespace) -> None:
    kernel = kernels.kernel_07
    calls: tuple[Callable[[], object], ...] = (
        lambda: kernel.measure(b"abc", 2, 4, 1),
        lambda: kernel.locate(b"abc", -1, 3, 1, 1, 9),
        lambda: kernel.value_at(b"abc", 3, 2),
        lambda: kernel.render(b"abc", 0, 3, 1, 1, bytearray(3), 4),
        lambda: kernel.measure_batches(b"abc", 0, 4, 0, 1),
        lambda: kernel.render_batches(b"abc", 0, 3, 0, 9, 1, bytearray(3), 4),
        lambda: kernel.look(b"abc", 0, 4, 9),
        lambda: kernel.write(HELLO, 0, len(HELLO), bytearray(28), 0, 0),
        lambda: kernel.write(HELLO, 0, len(HELLO), bytearray(99), 0, -1),
    )
    for call in calls:
        with pytest.raises(ValueError, match=r"range|room|outside"):
            call()
