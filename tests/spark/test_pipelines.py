"""Pipelines as programs call them: what is archived, replayed or mirrored is what was there, each record once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.pipelines.archive import ArchivePipeline
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.progress import PipelineStep
from ottla.pipelines.replay import ReplayPipeline
from ottla.pipelines.running import Pipeline
from tests.spark.conftest import Topics

Run = Callable[[Pipeline], list[PipelineStep]]
START_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


@pytest.fixture
def run(spark: Any) -> Run:
    def run(pipeline: Pipeline) -> list[PipelineStep]:
        told: list[PipelineStep] = []
        zone = spark.conf.get("spark.sql.session.timeZone")
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        try:
            pipeline.run(spark, told.append, threading.Event())
        finally:
            spark.conf.set("spark.sql.session.timeZone", zone)
        return told

    return run


def fill(topics: Topics, topic: str, count: int, start: int = 0) -> None:
    """A record each hour; some without key, value or headers."""
    rows: list[dict[str, Any]] = [
        {
            "key": None if number % 7 == 0 else f"k{number % 5}",
            "value": None if number % 11 == 0 else f"v{number}",
            "headers": [] if number % 3 else [("n", str(number).encode())],
            "partition": number % 2,
            "timestamp": START_MS + number * HOUR_MS,
        }
        for number in range(start, start + count)
    ]
    topics.produce(topic, rows)


def held(topics: Topics, topic: str) -> list[tuple[Any, ...]]:
    """What a topic holds, partition by partition in its order, without offsets."""
    found = topics.read(topic)
    return [(each.partition(), each.key(), each.value(), each.timestamp()[1], each.headers() or []) for each in found]


@pytest.mark.slow
def test_an_archive_holds_each_record_once_and_goes_back_as_it_was(
    topics: Topics, run: Run, spark: Any, unique: Callable[[str], str], tmp_path: Path
) -> None:
    topic, again = topics.make(), unique("again")
    fill(topics, topic, 40)
    archive = ArchivePipeline([topic], topics.address, tmp_path / "archive", once=True)
    assert [(step.rows, step.lag) for step in run(archive)] == [(40, 0)]
    fill(topics, topic, 10, start=40)
    assert [step.rows for step in run(archive)] == [10]
    assert run(archive) == []
    days = sorted(path.name for path in (tmp_path / "archive" / f"topic={topic}").iterdir())
    assert days == ["date=2023-11-14", "date=2023-11-15", "date=2023-11-16"]

    replay = ReplayPipeline(tmp_path / "archive", topics.address, into=again, rows_per_part=20, state_directory=tmp_path / "state")
    assert [(step.rows, step.lag) for step in run(replay)] == [(16, 34), (16, 18), (18, 0)]
    assert held(topics, again) == held(topics, topic)
    assert run(replay) == []

    late = ReplayPipeline(
        tmp_path / "archive", topics.address, since="2023-11-15 00:00", until="2023-11-15 03:00", into=unique("late"), by_key=True,
        state_directory=tmp_path / "late",
    )  # fmt: skip
    assert sum(step.rows for step in run(late)) == 3


def test_what_cannot_be_archived_or_replayed_is_told(run: Run, spark: Any, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="holds no archive: name a directory that"):
        run(ReplayPipeline(tmp_path, "localhost:1", state_directory=tmp_path / "state"))
    (tmp_path / "_spark_metadata").mkdir()
    with pytest.raises(PipelineError, match=r"whose state .* is gone"):
        run(ArchivePipeline(["flights"], "localhost:1", tmp_path))
