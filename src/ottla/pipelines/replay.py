"""The replay of an archive into topics: keys, headers, timestamps and the order within each partition are kept.

The archive is divided into parts once, and the plan is stored in the state. Parts are written in order, each as a job
with its own name. After a kill, the next run continues with the current part.
"""

from __future__ import annotations

import functools
import operator
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ottla.net.client.admin.admin import Admin
from ottla.pipelines.archive import MISSING, archive_schema, check_jars, rows_in
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.progress import PipelineStep
from ottla.pipelines.query_runner import Tell, lock
from ottla.pipelines.state import PipelineState, default_directory
from ottla.pipelines.topics import make_missing
from ottla.spark.kafka_options import security_settings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ROWS_PER_PART = 1_000_000


class Span(NamedTuple):
    """The archived offsets of a partition, from `first` to `last` (included). `rows` is the number of archived records."""

    topic: str
    partition: int
    first: int
    last: int
    rows: int


class OffsetRange(NamedTuple):
    """The offsets from `start` up to, not including, `end` of one partition."""

    topic: str
    partition: int
    start: int
    end: int


def parts_of(spans: Iterable[Span], rows_per_part: int) -> list[list[OffsetRange]]:
    """Return parts of about `rows_per_part` rows, in the order of the replay. Each part advances all partitions evenly."""
    spans = sorted(span for span in spans if span.rows)
    count = max(1, -(-sum(span.rows for span in spans) // rows_per_part))
    parts = [[piece for span in spans if (piece := _piece(span, part, count))] for part in range(count)]
    return [part for part in parts if part]


def _piece(span: Span, part: int, count: int) -> OffsetRange | None:
    size = span.last + 1 - span.first
    start, end = (span.first + size * edge // count for edge in (part, part + 1))
    return OffsetRange(span.topic, span.partition, start, end) if end > start else None


def partition_counts(spans: Iterable[Span]) -> dict[str, int]:
    """Return the number of partitions that each topic needs so that every record can return to its own partition."""
    counts: dict[str, int] = {}
    for span in spans:
        counts[span.topic] = max(counts.get(span.topic, 0), span.partition + 1)
    return counts


def as_json(parts: Sequence[Sequence[OffsetRange]]) -> list[list[list[str | int]]]:
    return [[list(piece) for piece in part] for part in parts]


def from_json(stored: Sequence[Sequence[Sequence[str | int]]]) -> list[list[OffsetRange]]:
    return [[OffsetRange(str(topic), *map(int, rest)) for topic, *rest in part] for part in stored]


@dataclass(frozen=True, slots=True)
class ReplayPipeline:
    """A replay of an archive into topics.

    `topics` are the topics to replay; empty means all. `into` is the one topic to which all records are written. `since` and
    `until` limit the timestamps of records (text that Spark accepts as a timestamp, in UTC; `until` not included). With `by_key`,
    records go to the partitions of their keys, not to the original partitions. `options` are further options of the sink.
    """

    directory: Path
    servers: str
    topics: Sequence[str] = ()
    into: str | None = None
    since: str | None = None
    until: str | None = None
    by_key: bool = False
    rows_per_part: int = ROWS_PER_PART
    state_directory: Path | None = None
    options: dict[str, str] = field(default_factory=dict)

    @property
    def state(self) -> PipelineState:
        about = {
            "pipeline": "replay", "archive": str(self.directory.resolve()), "servers": self.servers, "topics": sorted(self.topics),
            "into": self.into, "since": self.since, "until": self.until, "by_key": self.by_key,
        }  # fmt: skip
        return PipelineState(self.state_directory or default_directory(about), about)

    def run(self, spark: SparkSession, tell: Tell, stop: threading.Event) -> None:
        """Write the parts that are not written yet, until `stop` is set. Raises `PipelineError` and Spark's exceptions."""
        state = self.state
        state.open()
        with lock(spark, state):
            rows = _archived_rows(spark, self)
            if not state.read("plan"):
                state.write("plan", _plan(self, rows))
            _write_parts(self, rows, state, tell, stop)


def _archived_rows(spark: SparkSession, wanted: ReplayPipeline) -> DataFrame:
    """Return the rows to replay. Raises `PipelineError` if the directory has no archive of Ottla."""
    from pyspark.sql import functions as f

    about = PipelineState(wanted.directory / "_ottla", {}).read("pipeline")
    if about.get("pipeline") != "archive":
        raise PipelineError(f"{wanted.directory} holds no archive: name a directory that `ottla pipeline archive` has written.")
    form = about["format_of_files"]
    if form in MISSING:
        check_jars(spark, form)
        rows = rows_in(spark, form, wanted.directory, about.get("table"))
    else:
        rows = spark.read.schema(archive_schema(about["by"])).format(form).load(str(wanted.directory))
    if wanted.topics:
        rows = rows.where(f.col("topic").isin(*wanted.topics))
    for edge, compare in ((wanted.since, operator.ge), (wanted.until, operator.lt)):
        if edge is not None:
            rows = rows.where(compare(f.col("timestamp"), f.lit(edge).cast("timestamp")))
    return rows


def _plan(wanted: ReplayPipeline, rows: DataFrame) -> dict[str, object]:
    """Return the plan of a replay as JSON values: its parts and its number of rows. Create missing topics at the target.

    Raises `PipelineError`.
    """
    from pyspark.sql import functions as f

    edges = rows.groupBy("topic", "partition").agg(f.min("offset"), f.max("offset"), f.count("*"))
    spans = [Span(*found) for found in edges.collect()]
    absent = set(wanted.topics) - {span.topic for span in spans}
    if absent or not spans:
        what = f"nothing of topic {min(absent)}" if absent else "no records"
        raise PipelineError(f"The archive in {wanted.directory} holds {what} of the time asked for: name others.")
    counts = partition_counts(spans)
    if wanted.into is not None:
        counts = {wanted.into: max(counts.values())}
    with Admin(wanted.servers, **security_settings(wanted.options)) as admin:
        if wanted.by_key:  # any number of partitions will do if keys choose among them
            counts = {name: counts[name] for name in counts.keys() - set(admin.list_topics(internal=True))}
        make_missing(admin, counts)
    return {"parts": as_json(parts_of(spans, wanted.rows_per_part)), "rows": sum(span.rows for span in spans)}


def _write_parts(wanted: ReplayPipeline, rows: DataFrame, state: PipelineState, tell: Tell, stop: threading.Event) -> None:
    plan, done = state.read("plan"), {"parts": 0, "rows": 0, **state.read("done")}
    parts = from_json(plan["parts"])
    for number in range(done["parts"], len(parts)):
        if stop.is_set():
            return
        began = time.monotonic()
        count = _write(wanted, rows, parts[number], f"{state.job_id}/{number}")
        done = {"parts": number + 1, "rows": done["rows"] + count}
        state.write("done", done)
        seconds = time.monotonic() - began
        left = max(0, plan["rows"] - done["rows"])
        tell(PipelineStep("replay", number, count, done["rows"], round(count / seconds, 1), left, int(seconds * 1000)))


def _write(wanted: ReplayPipeline, rows: DataFrame, part: Sequence[OffsetRange], job_id: str) -> int:
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    counted = Observation()
    chosen = rows.where(functools.reduce(operator.or_, map(_of, part)))
    # One task writes all rows of a partition, so that they keep their order.
    ordered = chosen.repartition(len(part), "topic", "partition").sortWithinPartitions("topic", "partition", "offset")
    names = ["key", "value", "headers", "timestamp", *([] if wanted.by_key else ["partition"])]
    columns = [*names, *(["topic"] if wanted.into is None else [])]
    written = ordered.select(*columns).observe(counted, f.count("*").alias("rows"))
    given = {"kafka.bootstrap.servers": wanted.servers, "includeHeaders": "true", "includeTimestamp": "true"}
    if wanted.into is not None:
        given["topic"] = wanted.into
    given["jobId"], _, given["batchId"] = job_id.rpartition("/")  # a repeated write of the part leaves no second copy
    written.write.format("ottla").options(**given, **wanted.options).mode("append").save()
    found: int = counted.get["rows"]
    return found or chosen.count()  # a part that was decided before a kill is not computed again, so count its rows here


def _of(piece: OffsetRange) -> Column:
    from pyspark.sql import functions as f

    there = (f.col("topic") == piece.topic) & (f.col("partition") == piece.partition)
    return there & (f.col("offset") >= piece.start) & (f.col("offset") < piece.end)
