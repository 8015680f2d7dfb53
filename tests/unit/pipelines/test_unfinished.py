"""What a killed run left beside an archive is removed, and nothing else is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.pipelines.archive import noted_names, remove_unfinished
from ottla.pipelines.errors import PipelineError


def name(number: int) -> str:
    return f"part-{number:05}-c2f3a0de-9f4f-4a83-a5a3-{number:012x}.c000.snappy.parquet"


def note(log: Path, batch: str, *numbers: int) -> None:
    log.mkdir(exist_ok=True)
    files = [json.dumps({"path": f"file:///x%20y/topic=a/{name(number)}", "action": "add"}) for number in numbers]
    (log / batch).write_text("\n".join(["v1", *files]))


def test_files_that_no_batch_notes_are_removed_with_their_checksums(tmp_path: Path) -> None:
    note(tmp_path / "_spark_metadata", "0", 0)
    directory = tmp_path / "topic=a"
    directory.mkdir()
    for number in (0, 1):
        (directory / name(number)).write_text("")
        (directory / f".{name(number)}.crc").write_text("")
    (directory / "part-of-my-notes.parquet").write_text("")
    assert remove_unfinished(tmp_path) == 2
    assert sorted(path.name for path in directory.iterdir()) == sorted([name(0), f".{name(0)}.crc", "part-of-my-notes.parquet"])
    assert remove_unfinished(tmp_path / "nothing") == 0


def test_a_compact_file_stands_for_all_before_it(tmp_path: Path) -> None:
    for batch, numbers in {"8": [1], "9.compact": [1, 2, 3], "10": [4], ".11.crc": [5]}.items():
        note(tmp_path, batch, *numbers)
    assert noted_names(tmp_path) == {name(number) for number in (1, 2, 3, 4)}


def test_a_log_that_is_not_sparks_removes_nothing(tmp_path: Path) -> None:
    note(tmp_path / "_spark_metadata", "0", 0)
    (tmp_path / "_spark_metadata" / "1").write_text("v9\n")
    (tmp_path / name(7)).write_text("")
    with pytest.raises(PipelineError, match="not what Spark's file sink writes"):
        remove_unfinished(tmp_path)
    assert (tmp_path / name(7)).exists()
