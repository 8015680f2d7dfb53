"""Apache Kafka's `DumpLogSegments` reads the records that we write: every codec, every format, each field of each record."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from ottla.records.batches.builder import build
from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import read_header
from ottla.records.compression import codecs
from ottla.records.message_sets.conversion import down_convert
from tests.support.arrow import from_arrow
from tests.support.java import run

pytestmark = [pytest.mark.java, pytest.mark.slow]

DUMP = "org.apache.kafka.tools.DumpLogSegments"
NOW = 1_700_000_000_000
COUNT = 300
KEYS = [None if n % 7 == 0 else b"key-%d" % n for n in range(COUNT)]
VALUES = [None if n % 11 == 0 else b"value-%d " % n * (n % 9) + b"." for n in range(COUNT)]
TIMES = [NOW + 97 * n - (n % 5) * 1000 for n in range(COUNT)]
HEADERS = [[("name", b"h%d" % n), ("second", b"")] if n % 3 == 0 else [] for n in range(COUNT)]
RECORD = re.compile(r"^\| offset: (\d+) (?:CreateTime|NoTimestampType): (-?\d+) keySize: (-?\d+) valueSize: (-?\d+)(.*)")


def of_lists(codec: int) -> bytes:
    return bytes(build(KEYS, VALUES, TIMES, HEADERS, codec=codec))


def of_arrow(codec: int) -> bytes:
    headers = pa.array(
        [[{"key": name, "value": value} for name, value in own] for own in HEADERS],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    )
    keys, values, times = pa.array(KEYS, pa.binary()), pa.array(VALUES, pa.binary()), pa.array(TIMES, pa.timestamp("ms"))
    (batch,) = from_arrow(values, keys, times, headers, codec=codec)
    return bytes(batch)


def of_format(magic: int) -> Callable[[int], bytes]:
    return lambda codec: b"".join(bytes(piece) for piece in down_convert(of_lists(codec), magic))


WRITERS: dict[str, tuple[Callable[[int], bytes], range]] = {
    "lists": (of_lists, range(5)),
    "arrow": (of_arrow, range(5)),
    "format 1": (of_format(1), range(4)),
    "format 0": (of_format(0), range(4)),
}


def payloads(line: str) -> tuple[str | None, str | None]:
    """Key and value as printed; both stand at the end of the line."""
    key = re.search(r" key: (.*?)(?= payload: |$)", line)
    value = re.search(r" payload: (.*)$", line)
    return key and key[1], value and value[1]


@pytest.mark.rows(1, seconds=2)
@pytest.mark.parametrize("writer", WRITERS)
def test_apache_kafka_reads_what_we_write(writer: str, tmp_path: Path) -> None:
    write, known = WRITERS[writer]
    for codec in known:
        directory = tmp_path / f"{codecs.NAMES[codec]}-0"
        directory.mkdir()
        (directory / "00000000000000000000.log").write_bytes(write(codec))
    files = ",".join(str(tmp_path / f"{codecs.NAMES[codec]}-0" / "00000000000000000000.log") for codec in known)
    said = run(DUMP, "--deep-iteration", "--print-data-log", "--files", files)
    for codec, part in zip(known, said.split("Dumping ")[1:], strict=True):
        assert f"{codecs.NAMES[codec]}-0" in part
        assert "isvalid: false" not in part
        rows = [row for row in map(RECORD.match, part.splitlines()) if row is not None]
        assert [int(row[1]) for row in rows] == list(range(COUNT))
        assert [int(row[2]) for row in rows] == ([-1] * COUNT if writer == "format 0" else TIMES)
        assert [int(row[3]) for row in rows] == [-1 if key is None else len(key) for key in KEYS]
        assert [int(row[4]) for row in rows] == [-1 if value is None else len(value) for value in VALUES]
        expected = [tuple(item and item.decode() for item in pair) for pair in zip(KEYS, VALUES, strict=True)]
        assert [payloads(row[5]) for row in rows] == expected
        if "format" not in writer:
            assert "compresscodec: " + codecs.NAMES[codec] in part
            assert "headerKeys: [name,second]" in rows[0][5]


def test_what_is_written_for_kafka_is_what_was_meant() -> None:
    """Without Java: the writers above agree with one another."""
    assert open_batches(of_arrow(0)).records() == open_batches(of_lists(0)).records()
    assert read_header(of_arrow(4)).codec == 4
