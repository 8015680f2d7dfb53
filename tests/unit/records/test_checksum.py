"""CRC-32C is that of the package, whose other modules a client does not load."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import crc32c
from hypothesis import given
from hypothesis import strategies as st

from ottla.records import checksum
from ottla.records.batches.builder import build
from ottla.records.batches.header import crc_is_valid, set_producer


def test_the_checksum_is_that_of_the_package() -> None:
    assert checksum.crc32c(b"123456789") == 0xE3069283 == crc32c.crc32c(b"123456789")


def test_a_batch_needs_no_parser_of_emails() -> None:
    code = "import sys, ottla.records.batches.header, crc32c as package; assert package.crc32c(b'') == 0"
    loads = "import sys, ottla.records.batches.header; assert not {'email', 'argparse', 'importlib.metadata'} & set(sys.modules)"
    for statement in (loads, code):
        assert subprocess.run([sys.executable, "-c", statement], check=False).returncode == 0


@given(start=st.binary(max_size=40), zeros=st.integers(0, 5_000))
def test_the_remainder_after_zeros_is_that_of_their_bytes(kernels: SimpleNamespace, start: bytes, zeros: int) -> None:
    def remainder(data: bytes) -> int:
        return ~checksum.crc32c(data, 0xFFFFFFFF) & 0xFFFFFFFF

    found = kernels.kernel_checksum.remainder_after_zeros(remainder(start), zeros)
    assert found == remainder(start + bytes(zeros))


@given(
    values=st.lists(st.binary(max_size=300), min_size=1, max_size=20),
    producers=st.lists(
        st.tuples(st.integers(-1, (1 << 63) - 1), st.integers(-1, (1 << 15) - 1), st.integers(-1, (1 << 31) - 1)), min_size=1
    ),
    transactional=st.booleans(),
    codec=st.sampled_from([0, 1]),
)
def test_a_batch_with_another_producer_is_the_one_that_was_built_with_it(
    kernels: SimpleNamespace, values: list[bytes], producers: list[tuple[int, int, int]], transactional: bool, codec: int
) -> None:
    batch = build(None, values, 7, codec=codec)
    for producer in producers:
        set_producer(batch, *producer, transactional=transactional)
    producer_id, epoch, sequence = producers[-1]
    built = build(
        None,
        values,
        7,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    assert batch == built


def test_a_batch_with_damaged_records_stays_damaged_when_its_producer_is_set(kernels: SimpleNamespace) -> None:
    batch = build(None, [b"value"], 7)
    batch[-3] ^= 1
    set_producer(batch, 1, 2, 3)
    assert not crc_is_valid(memoryview(batch))
