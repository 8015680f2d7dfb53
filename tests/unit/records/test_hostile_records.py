"""Bytes that lie, at the kernel: refused with a word, never read beyond their end, the same by both runs.

That nothing beyond the end is read is shown with a guard page: the buffer ends where memory ends, and a read further would kill
the process, so that test has one of its own. `make asan` runs all tests of records on kernels built with gcc's AddressSanitizer,
which also sees reads before a buffer and writes outside one; it needs gcc, and takes two minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from array import array
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ottla.records.batches import columns
from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import HEADER_BYTES, BadBatch
from tests.unit.records.making import ROWS, Rows, build_rows, edited, simple

pytestmark = pytest.mark.usefixtures("kernels")


@given(rows=ROWS, where=st.integers(0, 400), byte=st.integers(0, 255), cut=st.integers(0, 60), count=st.integers(-1, 2**31 - 1))
@example(rows=[(0, b"k", b"v", [("h", b"v")])], where=0, byte=0xFF, cut=0, count=1)
def test_mutated_records_open_or_are_refused(rows: Rows, where: int, byte: int, cut: int, count: int) -> None:
    batch = build_rows(rows)
    at = HEADER_BYTES + where % (len(batch) - HEADER_BYTES)
    batch[at] = byte
    del batch[max(len(batch) - cut, HEADER_BYTES + 1) :]
    for claimed in (len(rows), count):
        try:
            opened = open_batches(edited(batch, batch_length=len(batch) - 12, record_count=claimed))
        except BadBatch:
            continue
        for record in opened.records():
            assert len(record.key or b"") + len(record.value or b"") <= len(batch)


RANDOM_RECORDS = st.binary(max_size=80) | st.lists(st.sampled_from([0, 1, 2, 3, 0x7F, 0x80, 0xFE, 0xFF]), max_size=60).map(bytes)


@given(data=RANDOM_RECORDS, count=st.integers(1, 5))
def test_both_runs_read_the_same_in_any_bytes(kernels: SimpleNamespace, data: bytes, count: int) -> None:
    def scan(module: Any) -> tuple[int, list[int], list[int], list[int]]:
        offsets, timestamps, spans = array("q", bytes(8 * count)), array("q", bytes(8 * count)), array("i", bytes(24 * count))
        stop = module.scan(data, 0, len(data), 0, count, 5, -(2**63) + 1, offsets, timestamps, spans)
        return stop, list(offsets), list(timestamps), list(spans)

    from ottla.records import kernel

    assert scan(kernels.kernel) == scan(kernel)


@given(data=RANDOM_RECORDS, count=st.integers(0, 5), length=st.sampled_from([0, 49, 2**31 - 1, 2**32 - 1]) | st.integers(49, 140))
def test_both_runs_read_the_same_batches_in_any_bytes(kernels: SimpleNamespace, data: bytes, count: int, length: int) -> None:
    fields = (5).to_bytes(8) + length.to_bytes(4) + bytes(4) + b"\2" + bytes(40) + count.to_bytes(4) + data

    def scan(module: Any) -> tuple[int, list[int], list[int], list[int]]:
        offsets, timestamps, spans = array("q", bytes(24)), array("q", bytes(24)), array("i", bytes(72))
        rows = module.scan_batches(fields, 0, len(fields), offsets, timestamps, spans)
        return rows, list(offsets), list(timestamps), list(spans)

    from ottla.records import kernel, kernel_sound

    assert scan(kernels.kernel) == scan(kernel)
    passed = kernels.kernel_sound.pass_alike(memoryview(fields), 7, 0, False)
    assert passed == kernel_sound.pass_alike(memoryview(fields), 7, 0, False)


def test_ranges_outside_the_buffers_are_refused(kernels: SimpleNamespace) -> None:
    scan = kernels.kernel.scan
    longs, ints, data = array("q", bytes(16)), array("i", bytes(48)), bytes(simple(2))
    for pos, end, row, count in ((-1, 9, 0, 1), (9, 8, 0, 1), (0, len(data) + 1, 0, 1), (0, 9, -1, 1), (0, 9, 1, 2), (0, 9, 0, -1)):
        with pytest.raises(ValueError, match="scan:"):
            scan(data, pos, end, row, count, 0, 0, longs, longs, ints)
    with pytest.raises(ValueError, match="scan:"):
        scan(data, 61, len(data), 0, 2, 0, 0, longs, longs[:1], ints)
    with pytest.raises(ValueError, match="scan:"):
        scan(data, 61, len(data), 0, 2, 0, 0, longs, longs, ints[:11])
    scan_batches = kernels.kernel.scan_batches
    for pos, end, timestamps, spans in ((-1, 9, longs, ints), (9, 8, longs, ints), (0, len(data) + 1, longs, ints)):
        with pytest.raises(ValueError, match="scan_batches:"):
            scan_batches(data, pos, end, longs, timestamps, spans)
    for timestamps, spans in ((longs[:1], ints), (longs, ints[:11])):
        with pytest.raises(ValueError, match="scan_batches:"):
            scan_batches(data, 0, len(data), longs, timestamps, spans)
    assert scan_batches(data, 0, len(data), longs[:1], longs[:1], ints) == -1
    assert scan_batches(data, 0, len(data) - 1, longs, longs, ints) == -1


@pytest.mark.parametrize("spans", [[99, 1, 0, 0, 0, 0], [0, 0, -5, 3, 0, 0], [0, 0, 0, 0, 3, 2**31 - 1]])
def test_spans_outside_the_data_are_refused(kernels: SimpleNamespace, spans: list[int]) -> None:
    one, out = array("q", [0]), bytearray(200)
    with pytest.raises(ValueError, match="outside"):
        kernels.kernel_record.make_records(columns.Record, None, b"12345", one, one, array("i", spans), 0, 1, 0)
    write = kernels.kernel_build.write
    with pytest.raises(ValueError, match="outside"):
        write(out, 0, array("i"), 0, 1, array("q"), one, 0, array("i", spans), b"12345", b"12345", b"12345")
    with pytest.raises(ValueError, match="outside"):
        write(out, 0, array("i", [1]), 0, 1, array("q"), one, 0, array("i", [0] * 6), b"", b"", b"")


def test_what_does_not_fit_is_not_written(kernels: SimpleNamespace) -> None:
    write_items = kernels.kernel_build.write_items
    with pytest.raises(ValueError, match="room"):
        write_items(bytearray(100), 61, [0], [], [bytes(40)], [])
    with pytest.raises(ValueError, match="differ"):
        write_items(bytearray(100), 61, [0], [b""] * 2, [b""], [])
    with pytest.raises(ValueError, match="differ"):
        write_items(bytearray(100), 61, [0], [], [b""], [b"\0", b"\0"])


GUARDED = """
import ctypes, mmap, random, sys
from array import array
from zlib import crc32
from ottla.records import kernel, kernel_arrow, kernel_legacy, kernel_record, kernel_sound
from ottla.records.batches.builder import build

libc = ctypes.CDLL(None, use_errno=True)
libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
pages = mmap.mmap(-1, 4 * mmap.PAGESIZE)
start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
assert libc.mprotect(start + 3 * mmap.PAGESIZE, mmap.PAGESIZE, 0) == 0
edge = start + 3 * mmap.PAGESIZE

def at_the_edge(data):
    ctypes.memmove(edge - len(data), bytes(data), len(data))
    return memoryview((ctypes.c_ubyte * len(data)).from_address(edge - len(data))).cast("B")

if "--beyond" in sys.argv:
    ctypes.string_at(edge, 1)
choose = random.Random(7)
batch = bytes(build([b"key", None], [b"value" * 5, b""], [1, 2], [[("h", b"v"), ("n", None)], None]))
whole = batch[61:]
offsets, timestamps, spans = array("q", bytes(16)), array("q", bytes(16)), array("i", bytes(48))
for turn in range(60_000):
    data = bytearray(whole[: choose.randrange(len(whole) + 1)])
    for _ in range(choose.randrange(4) if data else 0):
        data[choose.randrange(len(data))] = choose.choice((0, 1, 0x7F, 0x80, 0xFF, choose.randrange(256)))
    view = at_the_edge(data)
    kernel.walk(view, 0, 2, 0, 0, 1, True)
    state, digits = array("q", bytes(80)), bytearray(10)
    while kernel.walk_on(view, state, digits, 2, 0, 0, 1, True) == kernel.DOUBTFUL:
        assert state[0] <= len(view) and state[1] <= 2
    kernel.zstd_blocks(view, 0, 1 << 17)
    stop = kernel.scan(view, 0, len(view), 0, 2, 0, 0, offsets, timestamps, spans)
    if stop >= 0:
        kernel_record.make_records(kernel_record.CompiledRecord, None, view, offsets, timestamps, spans, 0, 2, 0)
        kernel.count_headers(view, spans[8:10], spans[10:12])
    kernel_arrow.murmur2(view)
    torn = bytearray((batch * 2)[: choose.randrange(2 * len(batch) + 1)])
    for _ in range(choose.randrange(3) if torn else 0):
        torn[choose.randrange(len(torn))] = choose.choice((0, 1, 2, 0x7F, 0x80, 0xFF, choose.randrange(256)))
    view = at_the_edge(torn)
    kernel_sound.pass_alike(view, 7, 0, True)
    kernel.scan_batches(view, 0, len(view), offsets, timestamps, spans)
    covered = bytes(2) + bytes(data)
    message = bytes(8) + (len(covered) + 4).to_bytes(4, "big") + crc32(covered).to_bytes(4, "big") + covered
    view = at_the_edge(message)
    kernel_legacy.run_of(view, 0, len(view))
    kernel_legacy.scan_messages(view, 0, len(view), 0, 1, offsets, timestamps, spans)
print("sound", kernel.COMPILED)
"""


def test_nothing_beyond_the_last_byte_is_read(kernels: SimpleNamespace) -> None:
    if not kernels.kernel.COMPILED:
        pytest.skip("Python checks every index itself")
    command, environment = [sys.executable, "-c", GUARDED], os.environ | {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["sound", "True"]
    beyond = subprocess.run([*command, "--beyond"], capture_output=True, check=False, env=environment)
    assert beyond.returncode != 0, "the guard page does not guard"
    assert b"Traceback" not in beyond.stderr
