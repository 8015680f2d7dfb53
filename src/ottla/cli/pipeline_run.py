"""The run of one pipeline for a command: Spark session, signals, progress on the terminal, and errors."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

from ottla.cli.command.exits import fail
from ottla.cli.command.output import as_lines
from ottla.cli.command.signals import Interruption
from ottla.errors import KafkaError
from ottla.pipelines.errors import JavaFailed, PipelineError, sentence_of
from ottla.pipelines.progress import PipelineStep
from ottla.pipelines.query_runner import Pipeline, session
from ottla.spark.java import NoJava


def run(pipeline: Pipeline, master: str, settings: Mapping[str, str], *, as_json: bool) -> int:
    """Run a pipeline until it ends, or until SIGTERM or Ctrl-C; return the exit code."""
    try:
        from pyspark.errors import PySparkException
    except ImportError:
        return fail("Pipelines need PySpark: pip install 'ottla[spark]'.")
    told = ShownSteps(as_json=as_json)
    interruption = Interruption()
    try:
        pipeline.state.open()
        with session(master, settings, pipeline.state.log) as spark, interruption:
            pipeline.run(spark, told.tell, interruption.stop)
    except JavaFailed as error:
        if not interruption.stop.is_set():  # a signal to all processes can end Java before the pipeline
            return told.failed(str(error))
    except (PipelineError, NoJava, KafkaError) as error:
        return told.failed(str(error))
    except PySparkException as error:
        return told.failed(f"{sentence_of(error)} (Spark's output is in {pipeline.state.log}.)")
    told.end()
    return 0


class ShownSteps:
    """The printed progress of a pipeline: a line of JSON or text for each step, or on a terminal one line that changes."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._changing = not as_json and sys.stdout.isatty()
        self._began_s = time.monotonic()
        self._shown = ""
        self._total_rows = 0

    def tell(self, step: PipelineStep) -> None:
        self._total_rows = step.total_rows
        if self._as_json:
            print(*as_lines([step.as_row()]), flush=True)
        else:
            self._show(line_of(step))

    def _show(self, line: str) -> None:
        if self._changing:
            print(f"\r{line.ljust(len(self._shown))}", end="", flush=True)
        else:
            print(line, flush=True)
        self._shown = line

    def end(self) -> None:
        """Print the total."""
        if self._changing and self._shown:
            print()
        if not self._as_json:
            print(f"Done: {self._total_rows:,} rows in {time.monotonic() - self._began_s:.0f} s.")

    def failed(self, sentence: str) -> int:
        if self._changing and self._shown:
            print()
        return fail(sentence)


def line_of(step: PipelineStep) -> str:
    """Return one step as text: rows, rate, lag, and the number of rows that did not fit their table."""
    lag = "-" if step.lag is None else f"{step.lag:,}"
    misfits = f"   {step.misfits:,} do not fit" if step.misfits else ""
    counts = f"{step.rows:>11,} rows {step.rows_per_second:>11,.0f} rows/s"
    return f"{step.pipeline} {step.batch:>6} {counts}   {step.total_rows:>13,} in all   lag {lag}{misfits}"
