"""What other clients' own record builders write is read here, and what is built here is read by them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import check
from ottla.records.compression import codecs
from tests.unit.records.making import HEADERS, Rows, build_rows, records_of

aiokafka_records = pytest.importorskip("aiokafka.record.default_records", reason="aiokafka is not installed")
aiokafka_memory = pytest.importorskip("aiokafka.record.memory_records", reason="aiokafka is not installed")
kafka_records = pytest.importorskip("kafka.record.default_records", reason="kafka-python is not installed")
kafka_memory = pytest.importorskip("kafka.record.memory_records", reason="kafka-python is not installed")

BUILDERS: dict[str, Any] = {
    "aiokafka": aiokafka_records.DefaultRecordBatchBuilder,
    "aiokafka in Python": aiokafka_records._DefaultRecordBatchBuilderPy,
    "kafka-python": kafka_records.DefaultRecordBatchBuilder,
}
READERS: dict[str, Any] = {"aiokafka": aiokafka_memory.MemoryRecords, "kafka-python": kafka_memory.MemoryRecords}
CODECS = {name: codec for codec, name in enumerate(codecs.NAMES)}
ITEMS = st.none() | st.binary(max_size=30)
TIMES = st.integers(0, 2**40)
ROWS = st.lists(st.tuples(TIMES, ITEMS, ITEMS, HEADERS), min_size=1, max_size=8)


def usable(builder: Any, codec: int) -> bool:
    """Whether the other client finds a library for the codec: kafka-python wants one of its own for each."""
    try:
        built(builder, [(0, None, b"v" * 100, [])], codec)
    except Exception as failure:  # each client has its own errors for this
        return "codec" not in str(failure).lower() and "librar" not in str(failure).lower()
    return True


def built(builder: Any, rows: Rows, codec: int) -> bytes:
    batch = builder(
        magic=2,
        compression_type=codec,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for index, (time, key, value, headers) in enumerate(rows):
        assert batch.append(index, time, key, value, headers)
    return bytes(batch.build())


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", BUILDERS)
@settings(max_examples=30)
@given(rows=ROWS)
def test_their_batches_open_here(name: str, codec: str, rows: Rows) -> None:
    if not usable(BUILDERS[name], CODECS[codec]):
        pytest.skip(f"{name} finds no library for {codec}")
    batch = built(BUILDERS[name], rows, CODECS[codec])
    assert check(memoryview(batch))[0] == 0
    assert open_batches(batch, check_crcs=True).records() == records_of(rows)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", READERS)
@settings(max_examples=30)
@given(rows=ROWS)
def test_our_batches_open_there(name: str, codec: str, rows: Rows) -> None:
    if not usable(BUILDERS[name], CODECS[codec]):
        pytest.skip(f"{name} finds no library for {codec}")
    batch = READERS[name](bytes(build_rows(rows, codec=CODECS[codec]))).next_batch()
    assert batch.validate_crc()
    found = [
        (record.offset, record.timestamp, record.timestamp_type, record.key, record.value, tuple(record.headers))
        for record in batch
    ]
    assert found == [tuple(record) for record in records_of(rows)]


@given(rows=ROWS)
def test_uncompressed_batches_are_theirs_byte_for_byte(rows: Rows) -> None:
    theirs = built(BUILDERS["aiokafka in Python"], rows, codecs.NONE)
    ours = build_rows(rows)
    assert ours[21:] == theirs[21:]
    assert ours[17:21] == theirs[17:21]
