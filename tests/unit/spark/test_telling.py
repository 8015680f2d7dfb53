"""An error that tells enough hides its traceback in Spark's workers, and nowhere else."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from ottla.client.errors import TimedOut
from ottla.spark.error_display import hide_tracebacks
from ottla.spark.errors import DataLoss, OptionError
from ottla.spark.streams.stream_position import from_json

HIDES = "SPARK_HIDE_TRACEBACK"


@hide_tracebacks
class Reader:
    def plan(self, error: Exception | None = None) -> list[int]:
        if error is not None:
            raise error
        return [1]

    def read(self, error: Exception | None = None) -> Iterator[int]:
        yield 1
        if error is not None:
            raise error


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__spec__=SimpleNamespace(name="pyspark.daemon")))
    monkeypatch.setenv(HIDES, "")


def told(call: str, error: Exception) -> str:
    with pytest.raises(type(error)):
        list(getattr(Reader(), call)(error))
    return os.environ.get(HIDES, "")


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("call", ["plan", "read"])
@pytest.mark.parametrize("error", [OptionError("a"), DataLoss("b"), TimedOut("c")])
def test_a_worker_shows_the_sentence_of_an_error_alone(call: str, error: Exception) -> None:
    assert told(call, error) == "1"


@pytest.mark.usefixtures("worker")
@pytest.mark.parametrize("call", ["plan", "read"])
def test_a_mistake_of_the_package_keeps_its_traceback(call: str) -> None:
    assert told(call, KeyError("x")) == ""


def test_a_person_s_own_process_keeps_its_tracebacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HIDES, raising=False)
    assert told("plan", OptionError("a")) == ""


def test_what_is_called_answers_as_before() -> None:
    assert (Reader().plan(), list(Reader().read())) == ([1], [1])


@pytest.mark.parametrize("stored", [{"offset": 3}, {"flights": {"a": 1}}, {"flights": {"0": None}}, [1]])
def test_a_checkpoint_of_another_source_is_told(stored: object) -> None:
    with pytest.raises(OptionError, match=r"another source wrote it\. Give the query a checkpointLocation of its own"):
        from_json(stored)  # type: ignore[arg-type]  # what a checkpoint may hold
