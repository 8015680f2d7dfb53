"""What a killed run left beside an archive is removed, and nothing else is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ottla.pipelines.archive import check_empty, noted_names, remove_unfinished
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
    assert remove_unfinished(tmp_path, ["a"], "none") == 2
    assert sorted(path.name for path in directory.iterdir()) == sorted([name(0), f".{name(0)}.crc", "part-of-my-notes.parquet"])
    assert remove_unfinished(tmp_path / "nothing", ["a"], "none") == 0


def test_a_compact_file_stands_for_all_before_it(tmp_path: Path) -> None:
    for batch, numbers in {"8": [1], "9.compact": [1, 2, 3], "10": [4], ".11.crc": [5]}.items():
        note(tmp_path, batch, *numbers)
    assert noted_names(tmp_path) == {name(number) for number in (1, 2, 3, 4)}


def test_a_log_that_is_not_sparks_removes_nothing(tmp_path: Path) -> None:
    note(tmp_path / "_spark_metadata", "0", 0)
    (tmp_path / "_spark_metadata" / "1").write_text("v9\n")
    written = tmp_path / "topic=a" / name(7)
    written.parent.mkdir()
    written.write_text("")
    with pytest.raises(PipelineError, match="not what Spark's file sink writes"):
        remove_unfinished(tmp_path, ["a"], "none")
    assert written.exists()


@pytest.mark.parametrize("by", ["none", "day", "hour"])
def test_files_of_others_stay_wherever_they_are(tmp_path: Path, by: str) -> None:
    """A lake may have other tables, archives and topics below one directory."""
    own = tmp_path / {"none": "topic=a", "day": "topic=a/date=2026-01-02", "hour": "topic=a/date=2026-01-02/hour=03"}[by]
    others = [
        tmp_path,
        tmp_path / "table",
        tmp_path / "topic=b" / "date=2026-01-02" / "hour=03",
        tmp_path / "archive" / own.relative_to(tmp_path),
        own / "topic=a",
        tmp_path / "topic=a" / "table",
    ]
    for directory in (own, *others):
        directory.mkdir(parents=True, exist_ok=True)
        (directory / name(1)).write_text("")
    assert remove_unfinished(tmp_path, ["a", "no-such"], by) == 1
    assert not (own / name(1)).exists()
    assert all((directory / name(1)).exists() for directory in others)


def test_a_new_archive_begins_in_an_empty_directory(tmp_path: Path) -> None:
    check_empty(tmp_path / "new")
    (tmp_path / ".hidden").write_text("")
    check_empty(tmp_path)
    (tmp_path / name(0)).write_text("")
    with pytest.raises(PipelineError, match=r"is not empty \(part-00000"):
        check_empty(tmp_path)
