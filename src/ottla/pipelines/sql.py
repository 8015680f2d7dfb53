"""A SQL script over topics as tables: each INSERT INTO becomes a streaming query, and so does each SELECT, whose rows are shown.

A table with columns or with option valueFormat reads values in this format, by default JSON. The other fields of a record are in
`_key`, `_partition`, `_offset` and `_timestamp`. Any other topic that a script names is a table of records.

A checkpoint belongs to a query's target and text, not to its position in the script. A query that is edited in place keeps its
checkpoint, which Spark accepts or refuses. Any other new text gets a new checkpoint.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.net.client.admin.admin import Admin
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.query_runner import Tell, follow_all, lock
from ottla.pipelines.state import PipelineState, default_directory
from ottla.pipelines.statements import CreateTable, ForSpark, InsertInto, ShowRows, Statement, statements_of, words_of
from ottla.spark.exactly_once.batches import write_once
from ottla.spark.formats.choice import CORRUPT
from ottla.spark.formats.misfit_counts import count_misfits
from ottla.spark.kafka_options import security_of, security_settings

if TYPE_CHECKING:
    from pyspark.errors import AnalysisException
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

RECORD_COLUMNS = ("key", "partition", "offset", "timestamp")
OF_RECORDS = ("key", "value", "headers", "partition", "topic")
BY_FORMAT = ("keyformat", "keyschema", "valueformat", "valueschema", "schemaregistry", "delimiter")
MOST_SHOWN = 1000
Show = Callable[[Sequence[str], Iterable[Mapping[str, object]]], None]
"""A function that shows rows. Its arguments are the names of the columns, and the rows as mappings from these names."""

SHOWN = "select"
"""The target of queries whose rows are shown."""


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """A query and the name of its checkpoint. `current` means that the query was in the last script that ran."""

    target: str
    digest: str
    name: str
    current: bool = True


def _digest_of(text: str) -> str:
    """Return a digest of a text that ignores differences in white space."""
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:16]


class QueryNames:
    """The names of all queries that this pipeline's scripts have ever had."""

    def __init__(self, stored: Mapping[str, Any]) -> None:
        self._known = [NamedQuery(*each) for each in stored.get("queries", [])]

    def as_json(self) -> dict[str, list[list[Any]]]:
        return {"queries": [[each.target, each.digest, each.name, each.current] for each in self._known]}

    def assign(self, queries: Sequence[tuple[str, str]]) -> list[str]:
        """Return the checkpoint name of each query (target, text) of a script. Store the names of new queries."""
        wanted = [(target, _digest_of(text)) for target, text in queries]
        left = list(self._known)
        found = [_pop_match(left, target, digest) for target, digest in wanted]
        for target in {target for target, _ in wanted}:
            edited = [place for place, (each, _) in enumerate(wanted) if each == target and found[place] is None]
            before = [each for each in left if each.target == target and each.current]
            if len(edited) == len(before) == 1:
                left.remove(before[0])
                found[edited[0]] = before[0]
        names: list[str] = []
        taken = {each.name for each in self._known}
        for known, (target, digest) in zip(found, wanted, strict=True):
            names.append(known.name if known is not None else _new_name(target, digest, taken))
            taken.add(names[-1])
        queries_now = [NamedQuery(*each, name) for each, name in zip(wanted, names, strict=True)]
        self._known = [*queries_now, *(replace(each, current=False) for each in left)]
        return names

    def rename(self, name: str, other: str) -> None:
        """Give the query `name` the checkpoint with the existing name `other`."""
        self._known = [replace(each, name=other) if each.name == name else each for each in self._known]


def _pop_match(left: list[NamedQuery], target: str, digest: str) -> NamedQuery | None:
    """Remove the query with this target and digest from `left`, and return the removed query, or None if `left` has no match."""
    for each in left:
        if (each.target, each.digest) == (target, digest):
            left.remove(each)
            return each
    return None


def _new_name(target: str, digest: str, taken: Iterable[str]) -> str:
    tries = (target, f"{target}-{digest[:8]}", *(f"{target}-{digest[:8]}-{number}" for number in range(2, 1000)))
    return next(each for each in tries if each not in taken)


@dataclass(frozen=True, slots=True)
class SqlPipeline:
    """A pipeline that runs a SQL script against a cluster. `options` are further options of all sources."""

    script: str
    servers: str
    show: Show
    name: str = "sql"
    once: bool = False
    every_s: float = 0.0
    state_directory: Path | None = None
    options: dict[str, str] = field(default_factory=dict)

    @property
    def state(self) -> PipelineState:
        about = {"pipeline": "sql", "name": self.name, "servers": self.servers}
        return PipelineState(self.state_directory or default_directory(about), about)

    def run(self, spark: SparkSession, tell: Tell, stop: threading.Event) -> None:
        """Run all queries until all records are read, or until `stop` is set. Raises `PipelineError` and Spark's exceptions."""
        statements = statements_of(self.script)
        state = self.state
        state.open()
        with lock(spark, state):
            running: dict[str, StreamingQuery] = {}
            try:
                Script(self, spark, state, running).begin(statements)
                follow_all(running, tell, stop)
            finally:
                for query in running.values():
                    query.stop()


class Script:
    """The execution of a script's statements, in order. The queries that it starts are added to `running`."""

    def __init__(self, wanted: SqlPipeline, spark: SparkSession, state: PipelineState, running: dict[str, StreamingQuery]) -> None:
        self._wanted, self._spark, self._state = wanted, spark, state
        self._running = running
        self._tables: dict[str, CreateTable] = {}
        stored = state.read("queries")
        self._is_old = not stored and state.checkpoint.exists()
        """Whether the state may be an older version's, which named checkpoints after the positions of queries in the script."""
        self._names = QueryNames(stored)

    def begin(self, statements: Sequence[Statement]) -> None:
        self._topics_named(statements)
        queries = [each for each in statements if isinstance(each, InsertInto | ShowRows)]
        names = self._names.assign([(SHOWN if isinstance(each, ShowRows) else each.table, each.query) for each in queries])
        if not self._is_old:
            self._state.write("queries", self._names.as_json())
        named = iter(names)
        for statement in statements:
            match statement:
                case CreateTable():
                    self._create(statement)
                case InsertInto(table, query):
                    self._insert(table, self._spark.sql(query), next(named))
                case ShowRows(query):
                    self._show(self._spark.sql(query), next(named))
                case ForSpark(text):
                    self._spark.sql(text)
        self._state.write("queries", self._names.as_json())

    def _topics_named(self, statements: Sequence[Statement]) -> None:
        """Create a table of records for each topic that a statement reads by its name and for which the script creates no table."""
        read = [each.text if isinstance(each, ForSpark) else each.query for each in statements if not isinstance(each, CreateTable)]
        created = {each.name for each in statements if isinstance(each, CreateTable)}
        with Admin(self._wanted.servers, **security_settings(self._wanted.options)) as admin:
            topics = set(admin.list_topics())
        for name in sorted(topics & set().union(*map(words_of, read)) - created):
            self._create(CreateTable(name))

    def _create(self, table: CreateTable) -> None:
        self._tables[table.name] = table
        given = {"startingOffsets": "earliest", "kafka.isolation.level": "read_committed", **self._wanted.options, **table.options}
        given = {"kafka.bootstrap.servers": self._wanted.servers, "subscribe": table.name, **given}
        rows = self._spark.readStream.format("ottla").options(**options_of(table), **given).load()
        if "value" in rows.columns and rows.schema["value"].dataType.typeName() == "struct":
            rows = count_misfits(rows, f"misfits of {table.name}") if CORRUPT["value"] in rows.columns else rows
            rows = rows.select("value.*", *(rows[name].alias(f"_{name}") for name in RECORD_COLUMNS))
        rows.createOrReplaceTempView(f"`{table.name}`")  # backticks, because names of topics have dots and hyphens

    def _insert(self, name: str, rows: DataFrame, query: str) -> None:
        """Write rows to a topic: as records if they have a column `value`, otherwise with all columns packed into the value."""
        table = self._tables.get(name, CreateTable(name))
        given = {option: value for option, value in table.options.items() if option.lower() in BY_FORMAT}
        given |= security_of(self._wanted.options)
        given |= {"kafka.bootstrap.servers": self._wanted.servers, "topic": table.options.get("subscribe", name)}
        if not rows.isStreaming:
            raise PipelineError(f"INSERT INTO {name} reads no topic: name one in its query.")
        if "value" not in rows.columns:
            rows, given = pack(rows), {"valueFormat": "json", **given}

        def write(batch: DataFrame, batch_id: int) -> None:
            write_once(batch, batch_id, **given)

        whole = rows.writeStream.format("ottla").options(**given)
        changes = rows.writeStream.foreachBatch(write).outputMode("update")  # a Python sink alone does not support this mode
        self._start(query, name, whole, changes)

    def _show(self, rows: DataFrame, query: str) -> None:
        if not rows.isStreaming:
            self._rows_shown(rows, 0)
            return
        self._start(query, f"{SHOWN}-{len(self._running)}", rows.writeStream.foreachBatch(self._rows_shown))

    def _rows_shown(self, rows: DataFrame, batch_id: int) -> None:
        self._wanted.show(rows.columns, (row.asDict(recursive=True) for row in rows.limit(MOST_SHOWN).collect()))

    def _start(self, name: str, old_name: str, *ways: DataStreamWriter) -> None:
        """Start a query with the first writer that accepts its rows. `old_name` is the name that older versions gave the query."""
        if self._is_old:
            old_name = old_name if old_name not in self._running else f"{old_name}-{len(self._running)}"
            if (self._state.checkpoint / old_name).exists() and old_name not in self._running:
                self._names.rename(name, old_name)
                name = old_name
        trigger = {"availableNow": True} if self._wanted.once else {"processingTime": f"{self._wanted.every_s:g} seconds"}
        checkpoint = str(self._state.checkpoint / name)
        ready = [each.option("checkpointLocation", checkpoint).queryName(name).trigger(**trigger) for each in ways]
        self._running[name] = start_first(ready)


def options_of(table: CreateTable) -> dict[str, str]:
    """Return the source options that a table's columns imply, except options that the table itself sets. Raises `PipelineError`."""
    own = {name.lower(): value for name, value in table.options.items()}
    if table.columns is None:
        return {}
    if own.get("valueformat", "").lower() == "protobuf":
        raise PipelineError(f"Table {table.name} has the columns of its schema, as its values are messages: leave out its own.")
    found = {"valueFormat": "json", "valueSchema": table.columns}
    return {name: value for name, value in found.items() if name.lower() not in own}


def pack(rows: DataFrame) -> DataFrame:
    """Return rows whose columns are packed into `value`, except columns with the names of a record's other fields."""
    from pyspark.sql import functions as f

    kept = [name for name in OF_RECORDS if name in rows.columns]
    inside = [name for name in rows.columns if name not in kept]
    if not inside:
        raise PipelineError("Rows to insert have no column for the value: select some besides key, headers, partition and topic.")
    return rows.select(*kept, f.struct(*(rows[f"`{name}`"] for name in inside)).alias("value"))


def start_first(ways: Sequence[DataStreamWriter]) -> StreamingQuery:
    """Start a query with the first writer of `ways` that Spark accepts, and return the query.

    If Spark refuses only the output mode of all writers, use complete mode with the first: each micro-batch then has all groups.
    """
    from pyspark.errors import AnalysisException

    for writer in ways:
        try:
            return writer.start()
        except AnalysisException as error:
            if not _is_of_mode(error):
                raise
    return ways[0].outputMode("complete").start()


def _is_of_mode(error: AnalysisException) -> bool:
    """Return whether Spark refused only the output mode. Spark does so for groups without a watermark and for sorted groups."""
    return any(word in str(error.getCondition()) for word in ("OUTPUT_MODE", "UNSUPPORTED_STREAMING_OPERATION"))
