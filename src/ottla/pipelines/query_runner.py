"""The execution of a pipeline on Spark: the session, the lock on the pipeline's state, and the monitoring of queries."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ottla.pipelines.errors import JavaFailed, PipelineError, sentence_of
from ottla.pipelines.progress import PipelineStep, Steps
from ottla.pipelines.state import PipelineState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Tell = Callable[[PipelineStep], None]


class Pipeline(Protocol):
    """A pipeline that can run, and continue after a stop or a kill."""

    @property
    def state(self) -> PipelineState: ...

    def run(self, spark: SparkSession, tell: Tell, stop: threading.Event) -> None:
        """Run the pipeline. Return when all is done, or soon after `stop` is set. Raises `PipelineError` and Spark's exceptions."""


LOOK_EVERY_S = 0.2
PATIENCE_S = 30.0
"""The time, in s, that an earlier run's Java process can take to end after its Python process was killed."""
SETTINGS: Mapping[str, str] = {
    "spark.app.name": "ottla pipeline",
    "spark.sql.session.timeZone": "UTC",  # UTC, so that an archive has the same days wherever it is written
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.streaming.metricsEnabled": "false",
}


@contextmanager
def session(master: str, settings: Mapping[str, str], log: Path) -> Iterator[SparkSession]:
    """Yield a Spark session that ends with the block. Java and its workers print to `log`. Raises `NoJava`, `JavaFailed`."""
    with _printing_to(log):
        spark = _begun(master, {**SETTINGS, **settings})
    from py4j.protocol import Py4JError

    try:
        yield spark
    except (Py4JError, ConnectionError) as error:
        raise JavaFailed(
            f"Spark's Java has failed or was ended ({_line_of(error)}): start the pipeline again, and it continues."
        ) from error
    finally:
        with suppress(Py4JError, ConnectionError):  # if Java has ended, there is nothing to stop
            spark.stop()


def _line_of(error: Exception) -> str:
    """Return one line of text about an error. Py4J errors fetch their text from Java, which fails if Java has ended."""
    try:
        return sentence_of(error).rstrip(".")
    except Exception:  # calls to a Java that has ended raise many kinds of exceptions
        return "it does not answer"


def _begun(master: str, settings: Mapping[str, str]) -> SparkSession:
    from ottla.spark.session import QUICK, local, prepare_environment

    if master.startswith("local"):
        return local(master, settings)
    prepare_environment()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master)
    for name, value in {**QUICK, **settings}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@contextmanager
def _printing_to(log: Path) -> Iterator[None]:
    """Redirect the output of processes that start within the block to the file `log`."""
    kept = [os.dup(number) for number in (1, 2)]
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        for number in (1, 2):
            os.dup2(file, number)
        yield
    finally:
        for number, old in zip((1, 2), kept, strict=True):
            os.dup2(old, number)
            os.close(old)
        os.close(file)


@contextmanager
def lock(spark: SparkSession, state: PipelineState) -> Iterator[None]:
    """Hold the lock of the pipeline's state during the block. Raises `PipelineError` if another run holds the lock.

    Java holds the lock because Java writes: if Python is killed, Java continues to write for a moment.
    """
    jvm: Any = spark._jvm  # Py4J resolves packages by name
    file = jvm.java.io.RandomAccessFile(str(state.lock), "rw")
    try:
        deadline = time.monotonic() + PATIENCE_S
        while file.getChannel().tryLock() is None:
            if time.monotonic() > deadline:
                raise PipelineError(
                    f"Another process runs the pipeline of {state.directory}: stop it first, or name another --state."
                )
            time.sleep(LOOK_EVERY_S)
        yield
    finally:
        file.close()


def _do_nothing() -> None: ...


def follow(
    query: StreamingQuery, pipeline: str, tell: Tell, stop: threading.Event, *, between: Callable[[], None] = _do_nothing
) -> None:
    """Report each micro-batch of a query until the query ends, or `stop` is set. Raises Spark's exceptions if the query fails.

    `between` is called several times a second.
    """
    follow_all({pipeline: query}, tell, stop, between=between)


def follow_all(
    queries: Mapping[str, StreamingQuery], tell: Tell, stop: threading.Event, *, between: Callable[[], None] = _do_nothing
) -> None:
    """Report each micro-batch of several queries, by name. Return when all have ended, one has failed, or `stop` is set."""
    steps = {name: Steps(name) for name in queries}
    going = dict(queries)
    while going:
        ended = [name for name, query in going.items() if not query.isActive]
        for name, query in going.items():
            for progress in query.recentProgress:
                step = steps[name].convert(json.loads(progress.json))
                if step is not None:
                    tell(step)
        for name in ended:
            going.pop(name).awaitTermination()
        between()
        if going and stop.wait(0 if ended else LOOK_EVERY_S):
            for query in going.values():
                query.stop()
