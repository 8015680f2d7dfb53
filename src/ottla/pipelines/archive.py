"""The archive of topics as Parquet or ORC files, each record once, in one directory for each topic and day or hour.

Spark's file sink logs each finished micro-batch with its files in `DIRECTORY/_spark_metadata`, and Spark reads only logged
files. Other readers read all files. Therefore the next start removes the files that a killed run has written and not logged.

The archive can also be a table of Delta Lake or Iceberg. Both formats store which micro-batches of a query are written, so each
record is written once, as with files. The Spark session and all readers need the format's jars; without them, an error says so.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.query_runner import Tell, follow, lock
from ottla.pipelines.state import PipelineState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NOTED = "_spark_metadata"
_WRITTEN = re.compile(r"\.?part-\d{5,}-[0-9a-f]{8}-[0-9a-f-]{27}[.-]\S*\.(parquet|orc)(\.crc)?")
_VERSIONED = re.compile(r"(\d+)(\.compact)?")

DELTA: Final = "delta"
ICEBERG: Final = "iceberg"
DELTA_LOG: Final = "_delta_log"
MISSING: Final = {
    DELTA: "Delta Lake: give it with --conf spark.jars.packages=io.delta:delta-spark_2.13:VERSION, "
    "--conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension and "
    "--conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog",
    ICEBERG: "Iceberg: give it with --conf spark.jars.packages=org.apache.iceberg:iceberg-spark-runtime-SPARK_2.13:VERSION and a "
    "catalog, --conf spark.sql.catalog.NAME=org.apache.iceberg.spark.SparkCatalog",
}

RECORD = (
    "key BINARY, value BINARY, partition INT, offset BIGINT, timestamp TIMESTAMP, timestampType INT, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
"""The columns in a file. The topic and the time are in the names of directories."""
BY = {"none": ("topic",), "day": ("topic", "date"), "hour": ("topic", "date", "hour")}
"""How an archive is divided by time -> the columns that name its directories."""
PARTITIONING = {"topic": "topic STRING", "date": "date DATE", "hour": "hour STRING"}


def archive_schema(by: str) -> str:
    """Return the columns of an archive as DDL. `by` says whether the archive's directories are by day, by hour or not by time."""
    return ", ".join([RECORD, *(PARTITIONING[name] for name in BY[by])])


def check_jars(spark: SparkSession, form: str) -> None:
    """Raise `PipelineError` if the session cannot write this format."""
    from py4j.protocol import Py4JJavaError

    jvm: Any = spark._jvm  # Py4J resolves packages by name
    try:
        jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource(form, spark._jsparkSession.sessionState().conf())
    except Py4JJavaError:
        raise PipelineError(f"This Spark has no {MISSING[form]}, or archive with --format parquet.") from None


def _check_table(form: str, table: str | None) -> None:
    """Raise `PipelineError` if the format `form` is Iceberg and `table` is None, or if `table` is given for another format."""
    if form == ICEBERG and table is None:
        raise PipelineError("An archive in Iceberg needs the name of its table: give --table CATALOG.DATABASE.NAME.")
    if form != ICEBERG and table is not None:
        raise PipelineError(f"--table names a table of Iceberg, and an archive in {form} lies in its directory: leave it out.")


def _exists(spark: SparkSession, form: str, directory: Path, table: str | None) -> bool:
    """Return whether `table` exists in Spark's catalog or, without `table`, whether `directory` has a Delta log."""
    return spark.catalog.tableExists(table) if table is not None else form == DELTA and (directory / DELTA_LOG).exists()


def rows_in(spark: SparkSession, form: str, directory: Path, table: str | None) -> DataFrame:
    return spark.read.table(table) if table is not None else spark.read.format(form).load(str(directory))


@dataclass(frozen=True, slots=True)
class ArchivePipeline:
    """An archive of topics in a directory. With `once`, the run ends when all records are archived.

    `every_s` is the interval of micro-batches. `form` is parquet, orc, delta or iceberg; with Iceberg the rows are in `table`.
    `options` are further options of the source.
    """

    topics: Sequence[str]
    servers: str
    directory: Path
    form: str = "parquet"
    by: str = "day"
    once: bool = False
    every_s: float = 60.0
    table: str | None = None
    options: dict[str, str] = field(default_factory=dict)

    @property
    def state(self) -> PipelineState:
        """Return the pipeline's state. It is in the archive's directory, because neither is of use without the other."""
        about = {"pipeline": "archive", "topics": sorted(self.topics), "format_of_files": self.form, "by": self.by}
        about |= {} if self.table is None else {"table": self.table}
        return PipelineState(self.directory / "_ottla", about)

    def run(self, spark: SparkSession, tell: Tell, stop: threading.Event) -> None:
        """Run until everything is archived, or until `stop` is set. Raises `PipelineError` and Spark's exceptions."""
        state = self.state
        _check_table(self.form, self.table)
        if self.form in MISSING:
            check_jars(spark, self.form)
        is_there = (self.directory / NOTED).exists() or _exists(spark, self.form, self.directory, self.table)
        if is_there and not state.checkpoint.exists():
            raise PipelineError(
                f"{self.directory} holds an archive whose state {state.checkpoint} is gone, and Spark would leave out new records "
                "or write old ones again: restore it, or archive to another directory."
            )
        if self.form not in MISSING and not state.directory.exists():
            check_empty(self.directory)
        state.open()
        with lock(spark, state):
            if self.form not in MISSING:
                remove_unfinished(self.directory, self.topics, self.by)
            follow(_start(spark, self, state), "archive", tell, stop)


def _start(spark: SparkSession, wanted: ArchivePipeline, state: PipelineState) -> StreamingQuery:
    reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", wanted.servers)
    reader = reader.options(**{"startingOffsets": "earliest", "kafka.isolation.level": "read_committed", **wanted.options})
    rows = reader.options(subscribe=",".join(wanted.topics), includeHeaders="true").load()
    writer = _with_times(rows, wanted.by).writeStream.format(wanted.form).partitionBy(*BY[wanted.by])
    trigger = {"availableNow": True} if wanted.once else {"processingTime": f"{wanted.every_s:g} seconds"}
    writer = writer.option("checkpointLocation", str(state.checkpoint)).queryName("archive").trigger(**trigger)
    return writer.toTable(wanted.table) if wanted.table is not None else writer.option("path", str(wanted.directory)).start()


def _with_times(rows: DataFrame, by: str) -> DataFrame:
    """Add the columns that name directories by time, in the session's time zone."""
    from pyspark.sql import functions as f

    made = {"date": f.to_date("timestamp"), "hour": f.date_format("timestamp", "HH")}
    return rows.withColumns({name: made[name] for name in BY[by] if name in made})


def check_empty(directory: Path) -> None:
    """Raise `PipelineError` unless the directory of a new archive is empty."""
    found = next((path.name for path in sorted(_list_logged(directory)) if not path.name.startswith(".")), None)
    if found is not None:
        raise PipelineError(
            f"{directory} is not an archive of Ottla and is not empty ({found}): archive to a new directory, or to an empty one."
        )


def remove_unfinished(directory: Path, topics: Iterable[str], by: str) -> int:
    """Remove files of these topics that the file sink wrote and did not log. Return the number of removed files.

    No run may be active. Only the archive's own directories are searched, because users may keep tables, or other archives, within
    them.
    """
    places = [directory / f"topic={topic}" for topic in topics]
    for column in BY[by][1:]:
        places = [below for place in places for below in place.glob(f"{column}=*")]
    written = [path for place in places for path in _list_logged(place) if _WRITTEN.fullmatch(path.name)]
    if not written:
        return 0
    noted = noted_names(directory / NOTED)
    unfinished = [path for path in written if path.name.removeprefix(".").removesuffix(".crc") not in noted]
    for path in unfinished:
        path.unlink()
    return len(unfinished)


def noted_names(log: Path) -> set[str]:
    """Return the names of all files in the file sink's log. They are in its newest compact file, and in the files after it."""
    found = [(int(match[1]), bool(match[2]), path) for path in _list_logged(log) if (match := _VERSIONED.fullmatch(path.name))]
    compact = max((number for number, is_compact, _ in found if is_compact), default=-1)
    wanted = [path for number, is_compact, path in found if number > compact or (is_compact and number == compact)]
    return {name for path in wanted for name in _names_in(path)}


def _list_logged(log: Path) -> Iterable[Path]:
    return log.iterdir() if log.is_dir() else ()


def _names_in(path: Path) -> Iterable[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    if not lines or lines[0] != "v1":
        raise PipelineError(f"{path} is not what Spark's file sink writes: restore it, or archive to another directory.")
    for line in lines[1:]:
        yield Path(json.loads(line)["path"]).name
