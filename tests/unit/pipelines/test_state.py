"""What a pipeline remembers belongs to it alone, and is never half written."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.pipelines.errors import PipelineError, sentence_of
from ottla.pipelines.state import PipelineState, default_directory

ABOUT = {"pipeline": "archive", "topics": ["flights"]}


def test_a_state_is_found_again_and_keeps_its_name(tmp_path: Path) -> None:
    first, second = PipelineState(tmp_path / "s", ABOUT), PipelineState(tmp_path / "s", ABOUT)
    first.open()
    name = first.job_id
    second.open()
    assert second.job_id == name
    second.write("done", {"parts": 3})
    assert first.read("done") == {"parts": 3}
    assert first.read("never written") == {}
    other = PipelineState(tmp_path / "t", ABOUT)
    other.open()
    assert other.job_id != name


def test_a_state_of_another_pipeline_is_refused(tmp_path: Path) -> None:
    PipelineState(tmp_path, ABOUT).open()
    with pytest.raises(PipelineError, match=r"state of another pipeline \(topics: \['flights'\], not \['delays'\]\): name another"):
        PipelineState(tmp_path, {**ABOUT, "topics": ["delays"]}).open()


def test_a_damaged_state_and_a_place_that_cannot_be_written_are_told(tmp_path: Path) -> None:
    (tmp_path / "pipeline.json").write_text("{")
    with pytest.raises(PipelineError, match="is damaged"):
        PipelineState(tmp_path, ABOUT).open()
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match="Cannot keep a state in"):
        PipelineState(tmp_path / "file" / "s", ABOUT).open()


def test_each_pipeline_has_a_place_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    here = default_directory(ABOUT)
    assert here.parent == tmp_path / "ottla" / "pipelines"
    assert here.name.startswith("archive-")
    assert default_directory(dict(reversed(ABOUT.items()))) == here
    assert default_directory({**ABOUT, "topics": ["delays"]}) != here


LONG = """Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure:
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "sending.py", line 133, in _send
ottla.spark.errors.OptionError: Topic flights has no partition 7: name one of 0 to 2, or leave it null.

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:569)"""


def test_the_useful_sentence_is_found_in_what_spark_says() -> None:
    assert sentence_of(RuntimeError(LONG)) == "Topic flights has no partition 7: name one of 0 to 2, or leave it null."
    assert sentence_of(RuntimeError("\n[PATH_NOT_FOUND] Path does not exist\n more")) == "[PATH_NOT_FOUND] Path does not exist"
    assert sentence_of(RuntimeError()) == "RuntimeError"
