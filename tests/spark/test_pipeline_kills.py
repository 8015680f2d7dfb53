"""`ottla pipeline` as a process: killed in the middle of its work and started again, it leaves each record once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.spark.java import NoJava, java_home
from tests.spark.conftest import Topics

dataset = pytest.importorskip("pyarrow.dataset", reason="pyarrow is absent: pip install 'ottla[spark]'")
RECORDS = 2000


@pytest.fixture(autouse=True)
def _java() -> None:
    pytest.importorskip("pyspark", reason="PySpark is absent: pip install 'ottla[spark]'")
    try:
        java_home()
    except NoJava as missing:
        pytest.skip(str(missing))


@contextmanager
def pipeline(*words: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "ottla.cli.main", "pipeline", *words, "--json", "--conf", "spark.driver.memory=512m"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        try:
            yield process
        finally:
            process.kill()


def finished(*words: str) -> list[dict[str, int]]:
    """The steps of a pipeline that runs to its end."""
    with pipeline(*words) as process:
        said, errors = process.communicate(timeout=100)
    assert process.returncode == 0, errors
    return [json.loads(line) for line in said.splitlines()]


@pytest.mark.full(seconds=70)
@pytest.mark.slow
def test_an_archive_that_is_killed_goes_on_with_each_record_once(topics: Topics, tmp_path: Path) -> None:
    topic = topics.make()
    topics.produce(topic, [{"value": str(number), "partition": number % 2} for number in range(RECORDS)])
    words = ("archive", topic, str(tmp_path), "--once", "--bootstrap-server", topics.address)
    with pipeline(*words, "--option", "maxOffsetsPerTrigger=200") as process:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        process.kill()
    assert (first["rows"], first["lag"]) == (200, RECORDS - 200)
    rest = finished(*words)
    assert 0 < sum(step["rows"] for step in rest) <= RECORDS - 200
    files = sorted(tmp_path.glob("topic=*/date=*/*.parquet"))
    rows = dataset.dataset(files, format="parquet").to_table(["partition", "offset", "value"]).to_pylist()
    found = sorted((row["partition"], row["offset"], int(row["value"])) for row in rows)
    assert found == [(index, offset, offset * 2 + index) for index in (0, 1) for offset in range(RECORDS // 2)]
