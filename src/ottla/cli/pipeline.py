"""`ottla pipeline`: archives, replays, mirrors and queries of topics with Spark. `ottla.pipelines` does the work."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cli.command.arguments import count, decimal
from ottla.cli.command.connection import SERVERS, add_options, client_texts, read_config, settings
from ottla.cli.command.exits import MISUSED, fail
from ottla.cli.command.output import as_lines, table
from ottla.cli.command.parser import Example

if TYPE_CHECKING:
    from ottla.cli.command.parser import Commands, Parser
    from ottla.pipelines.query_runner import Pipeline

MOST_SECONDS = 1_000_000
"""The longest pause between batches, in s: eleven days."""
_OTHER_TIME = re.compile(r"\d{4}(-(0?[1-9]|1[0-2])(-(0?[1-9]|[12]\d|3[01])( .*[A-Za-z/].*)?)?)?")
"""A time that Spark accepts and Python does not: without a day or month, with numbers of one digit, or with the name of a zone."""
ARCHIVE = """Archive topics in files, each record once, in one directory for each topic and day or hour. A restart,
also after a kill, continues: its state is in DIRECTORY/_ottla."""
REPLAY = """Write an archive of `ottla pipeline archive` back into topics. Keys, headers, timestamps and the order within partitions
are kept. A restart after a kill continues."""

MIRROR = """Copy topics into another cluster: each record into its partition, with its key, headers and timestamp. With --group, the
committed offsets of a group are copied, translated to the offsets there, so that its consumers can move. A restart after a kill
continues."""

SQL = """Run a script of Spark's SQL over topics as tables. CREATE TABLE name (column TYPE, …) USING ottla OPTIONS (subscribe
'topic') says what a topic's values hold; a topic that is not created is a table of records. Each INSERT INTO a topic runs on as a
query of its own, which continues when the script is restarted; the rows of each SELECT are shown."""
TABLES = """List topics as tables: their partitions, the number of offsets, and the columns of their values, by a schema or the last
records: JSON, unless --value-format or a registry has another format. --sql prints statements for `ottla pipeline sql`, to be
run before a script."""
ARCHIVE_EXAMPLES = (
    Example("pipeline archive flights archive --once", "Archive what is there now, and stop."),
    Example("pipeline archive flights,planes archive --once --by hour", "Two topics, with a directory for each hour."),
)
REPLAY_EXAMPLES = (
    Example("pipeline replay archive --topic flights", "Write the records of one topic again."),
    Example("pipeline replay archive --into flights-2", "Write all records into another topic."),
)
MIRROR_EXAMPLES = (
    Example("pipeline mirror flights --to other:9092 --once", "Copy what is there now, and stop."),
    Example(
        "pipeline mirror flights --to other:9092 --once --all-groups --prefix old-",
        "With the offsets of all groups, into the topic old-flights.",
    ),
)
SQL_EXAMPLES = (Example("pipeline sql late.sql --once", "Run a script over what is there now."),)
TABLES_EXAMPLES = (
    Example("pipeline tables", "All topics with the columns of their values."),
    Example("pipeline tables flights --json", "For programs."),
    Example("pipeline tables flights --sql > tables.sql", "Statements for the beginning of a script."),
)


def build(parser: Parser) -> None:
    own = parser.group()
    _add_archive(own)
    _add_replay(own)
    _add_mirror(own)
    _add_sql(own)
    _add_tables(own)


def _add_archive(own: Commands) -> None:
    command = own.add("archive", "archive topics in files, each record once", description=ARCHIVE, examples=ARCHIVE_EXAMPLES)
    command.add_argument("topics", metavar="TOPIC[,…]", type=_names, help="the topics to archive")
    command.add_argument("directory", metavar="DIRECTORY", type=Path, help="the directory of the files")
    help_text = "the files' format (default parquet), or a table of Delta Lake or Iceberg, whose jars Spark then needs"
    command.add_argument("--format", choices=("parquet", "orc", "delta", "iceberg"), default="parquet", help=help_text)
    command.add_argument("--table", metavar="CATALOG.DATABASE.NAME", help="the table of Iceberg; DIRECTORY holds its state alone")
    command.add_argument(
        "--by", choices=("day", "hour", "none"), default="day", help="the period of a directory (default day, in UTC)"
    )
    _add_streaming(command, 60.0)
    _add_common(command, "source")
    command.set_defaults(run=lambda options: _running(options, _archive))


def _add_replay(own: Commands) -> None:
    command = own.add("replay", "write an archive back into topics", description=REPLAY, examples=REPLAY_EXAMPLES)
    command.add_argument("directory", metavar="DIRECTORY", type=Path, help="the archive")
    command.add_argument(
        "--topic", action="append", default=[], metavar="NAME", help="only this topic; can be repeated (default: all)"
    )
    command.add_argument("--into", metavar="NAME", help="write all records into this topic (default: each into its own)")
    command.add_argument(
        "--since", type=_time, metavar="TIME", help="only records of this time or later, such as '2026-11-22 10:00' (UTC)"
    )
    command.add_argument("--until", type=_time, metavar="TIME", help="only records before this time")
    command.add_argument("--by-key", action="store_true", help="choose partitions by keys (default: the original partitions)")
    command.add_argument("--rows-per-part", type=count, default=1_000_000, metavar="N", help="rows of one batch (default 1000000)")
    _add_state(command)
    _add_common(command, "sink")
    command.set_defaults(run=lambda options: _running(options, _replay))


def _add_mirror(own: Commands) -> None:
    command = own.add("mirror", "copy topics into another cluster", description=MIRROR, examples=MIRROR_EXAMPLES)
    command.add_argument("topics", metavar="TOPIC[,…]", type=_names, help="the topics to mirror")
    command.add_argument("--to", required=True, metavar="HOST:PORT[,…]", help="the bootstrap servers of the target cluster")
    command.add_argument("--to-config", metavar="FILE", help="as --command-config, for the target cluster")
    command.add_argument("--prefix", default="", metavar="TEXT", help="the prefix of topic names in the target cluster")
    command.add_argument(
        "--group", action="append", default=[], metavar="NAME", help="copy the offsets of this group; can be repeated"
    )
    command.add_argument("--all-groups", action="store_true", help="copy the offsets of all groups")
    _add_streaming(command, 0.0)
    _add_state(command)
    _add_common(command, "source")
    command.set_defaults(run=lambda options: _running(options, _mirror))


def _add_sql(own: Commands) -> None:
    command = own.add("sql", "run a streaming query over topics as tables", description=SQL, examples=SQL_EXAMPLES)
    command.add_argument("files", metavar="FILE", type=Path, nargs="+", help="scripts, run as one")
    _add_streaming(command, 0.0)
    _add_state(command)
    _add_common(command, "source")
    command.set_defaults(run=lambda options: _running(options, _sql))


def _add_tables(own: Commands) -> None:
    command = own.add("tables", "list the columns of topics as tables", description=TABLES, examples=TABLES_EXAMPLES)
    command.add_argument("topics", metavar="TOPIC", nargs="*", help="only these (default: all)")
    command.add_argument("--sql", action="store_true", help="print statements that create them")
    formats = ("json", "csv", "avro", "protobuf", "arrow")
    command.add_argument("--value-format", choices=formats, help="the format of values (default: JSON, if they are JSON)")
    command.add_argument("--value-schema", metavar="SCHEMA", help="the schema of avro or protobuf, or its file")
    command.add_argument("--schema-registry", metavar="URL|DIR", help="a schema registry, whose schemas define the columns")
    command.add_argument("--delimiter", type=_delimiter, default=",", metavar="C", help="the delimiter of csv (default a comma)")
    add_options(command)
    command.set_defaults(run=_tables)


def _add_streaming(command: argparse.ArgumentParser, every_s: float) -> None:
    command.add_argument("--once", action="store_true", help="stop at the current end")
    help_text = f"the interval of batches (default {every_s:g})"
    command.add_argument("--every", type=decimal(0, MOST_SECONDS, "seconds"), default=every_s, metavar="SECONDS", help=help_text)


def _add_state(command: argparse.ArgumentParser) -> None:
    command.add_argument("--state", type=Path, metavar="DIR", help="the directory of the progress (default: one of its own)")


def _add_common(command: argparse.ArgumentParser, side: str) -> None:
    add_options(command)
    help_text = f"an option of the {side}, such as kafka.client.id=night; can be repeated"
    command.add_argument("--option", action="append", default=[], metavar="NAME=VALUE", help=help_text)
    command.add_argument("--master", default="local[*]", metavar="URL", help="Spark's master (default local[*])")
    command.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark; can be repeated")


def _names(text: str) -> list[str]:
    found = [name.strip() for name in text.split(",") if name.strip()]
    if not found:
        raise argparse.ArgumentTypeError("name topics, separated by commas")
    return found


def _time(text: str) -> str:
    """Check a time, and return it unchanged. Without the check, an error would come from Spark half a minute later."""
    try:
        datetime.fromisoformat(text.strip())
    except ValueError:
        if _OTHER_TIME.fullmatch(text.strip()):
            return text
        raise argparse.ArgumentTypeError(f"{text!r} is not a time, such as '2026-11-22 10:00' (UTC)") from None
    return text


def _delimiter(text: str) -> str:
    if len(text) != 1 or text in '"\r\n' or not text.isascii():
        raise argparse.ArgumentTypeError(f"{text!r} is not one ASCII character other than a quote or a line's end")
    return text


def _pairs(words: list[str], option: str) -> dict[str, str]:
    """Return NAME=VALUE words as a mapping. Raises `ValueError` with a sentence."""
    for word in words:
        if "=" not in word:
            raise ValueError(f"{word!r} has no value: write {option} NAME=VALUE.")
    return dict(word.split("=", 1) for word in words)


def _archive(options: argparse.Namespace, more: dict[str, str]) -> Pipeline:
    from ottla.pipelines.archive import ArchivePipeline

    return ArchivePipeline(
        options.topics,
        options.bootstrap_server,
        options.directory,
        form=options.format,
        by=options.by,
        once=options.once,
        every_s=options.every,
        table=options.table,
        options=more,
    )


def _replay(options: argparse.Namespace, more: dict[str, str]) -> Pipeline:
    from ottla.pipelines.replay import ReplayPipeline

    return ReplayPipeline(
        options.directory,
        options.bootstrap_server,
        topics=options.topic,
        into=options.into,
        since=options.since,
        until=options.until,
        by_key=options.by_key,
        rows_per_part=options.rows_per_part,
        state_directory=options.state,
        options=more,
    )


def _mirror(options: argparse.Namespace, more: dict[str, str]) -> Pipeline:
    from ottla.pipelines.mirror import MirrorPipeline

    return MirrorPipeline(
        options.topics,
        options.bootstrap_server,
        options.to,
        prefix=options.prefix,
        groups=None if options.all_groups else options.group,
        once=options.once,
        every_s=options.every,
        state_directory=options.state,
        options=more,
        target_options={f"kafka.{name}": text for name, text in read_config(options.to_config).items()},
    )


def _sql(options: argparse.Namespace, more: dict[str, str]) -> Pipeline:
    from ottla.pipelines.sql import SqlPipeline

    def show(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
        shown = [{name: plain(row[name]) for name in columns} for row in rows]
        lines = as_lines(shown) if options.json else table(columns, ([*map(text, row.values())] for row in shown))
        print("\n".join(lines), flush=True)

    try:
        script = ";\n".join(file.read_text(encoding="utf-8-sig") for file in options.files)
    except (OSError, UnicodeDecodeError) as error:
        where, why = (error.filename, error.strerror) if isinstance(error, OSError) else ("the script", "it is not UTF-8")
        raise ValueError(f"Cannot read {where}: {why}; name a readable file of SQL.") from error
    return SqlPipeline(
        script,
        options.bootstrap_server,
        show,
        name=str(options.files[-1].resolve()),
        once=options.once,
        every_s=options.every,
        state_directory=options.state,
        options=more,
    )


def plain(value: object) -> str | int | float | None:
    """Convert a row's value for output: bytes to text, and values without a JSON form to their string."""
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode(errors="backslashreplace")
    return value if value is None or isinstance(value, str | int | float) else str(value)


def text(value: str | int | float | None) -> str | None:
    """Return a plain value as a table cell."""
    return None if value is None else str(value)


def _tables(options: argparse.Namespace) -> int:
    from dataclasses import asdict

    from ottla.client.settings.clients import ConsumerSettings

    try:
        from ottla.pipelines.tables import ValuesOfTables, tables
        from ottla.spark.errors import OptionError
    except ImportError:
        return fail("Tables need PySpark: pip install 'ottla[spark]'.")
    values = ValuesOfTables(options.value_format, options.value_schema, options.schema_registry, options.delimiter)
    try:
        client = settings(options, ConsumerSettings)
        found = tables(client.pop("bootstrap_servers"), options.topics, client, values=values)
    except OptionError as error:
        return fail(str(error))
    headers = ("TOPIC", "PARTITIONS", "OFFSETS", "COLUMNS OF ITS VALUES")
    rows = [(each.name, each.partitions, each.offsets, each.columns) for each in found]
    lines = as_lines(map(asdict, found)) if options.json else table(headers, rows)
    print("\n".join([each.as_sql() for each in found] if options.sql else lines))
    return 0


def _running(options: argparse.Namespace, make: Callable[[argparse.Namespace, dict[str, str]], Pipeline]) -> int:
    try:
        client = client_texts(options)
        options.bootstrap_server = client.pop(SERVERS)
        more = {f"kafka.{name}": text for name, text in client.items()} | _pairs(options.option, "--option")
        pipeline, of_spark = make(options, more), _pairs(options.conf, "--conf")
    except ValueError as error:
        return fail(str(error), MISUSED)
    from ottla.cli.pipeline_run import run

    return run(pipeline, options.master, of_spark, as_json=options.json)
