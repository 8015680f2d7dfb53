"""`ottla bench produce` and `consume`: their arguments. `produce_load` and `consume_load` run the loads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cli.bench import consume_load, produce_load
from ottla.cli.command.arguments import decimal, whole
from ottla.cli.command.connection import add_options
from ottla.cli.command.parser import Commands, Example, completes

if TYPE_CHECKING:
    from ottla.cli.command.parser import Parser

amount = whole(1, 2**31 - 1)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PRODUCE = """Write records of random letters to a topic, and print their rate and the percentiles of their latency: the time from
sending a record until the broker acknowledges it. A line a second goes to standard error. The records stay in the topic, unless
--create has created it: then it is deleted at the end. Exit code 1: a record was not written."""
CONSUME = """Read a topic from its start, and print the rate, and how long each fetch was waited for. Records are decoded, but no
objects are made of them. Nothing is changed: there is no group. Exit code 1: fewer records came than -n."""
PRODUCE_EXAMPLES = (
    Example("bench produce flights -n 1000000 --size 100", "As fast as the broker takes them."),
    Example("bench produce flights -n 60000 --rate 1000 -z lz4", "The latency at a steady load, for a minute."),
    Example("bench produce load --create --partitions 6 --acks 1", "A topic for this run alone."),
)
CONSUME_EXAMPLES = (
    Example("bench consume flights", "All records that are there now."),
    Example("bench consume flights -n 1000000", "A million records, also ones still to come."),
    Example("bench consume flights -X fetch.min.bytes=1000000 --json", "With another setting, as JSON."),
)


def build(parser: Parser) -> None:
    commands = parser.group()
    _add_produce(commands)
    _add_consume(commands)


def _add_produce(commands: Commands) -> None:
    summary = "write records, with the percentiles of their latency"
    parser = commands.add("produce", summary, produce_load.produce, description=PRODUCE, examples=PRODUCE_EXAMPLES)
    completes(parser.add_argument("topic", metavar="TOPIC", help="the topic to write"), "topics")
    parser.add_argument("-n", "--count", metavar="N", type=amount, default=100_000, help="the number of records (default: 100000)")
    parser.add_argument("--size", metavar="BYTES", type=amount, default=100, help="the size of each record (default: 100)")
    parser.add_argument(
        "--rate",
        metavar="N",
        type=decimal(0.001, 1e9, "records a second"),
        help="send N records a second (default: as fast as possible)",
    )
    help_text = "the replicas that must have a record: all (in sync, the default), 1 (the leader), 0 (none)"
    parser.add_argument("--acks", choices=("all", "-1", "1", "0"), metavar="ACKS", help=help_text)
    parser.add_argument("-z", "--compression", choices=CODECS, metavar="CODEC", help=f"one of {', '.join(CODECS)}")
    parser.add_argument(
        "--linger-ms", metavar="MS", type=whole(0, 2**31 - 1), help="the time for which a batch waits for more records"
    )
    parser.add_argument("--batch-size", metavar="BYTES", type=amount, help="the size at which a batch is sent at once")
    parser.add_argument("--create", action="store_true", help="create the topic if it does not exist, and delete it at the end")
    parser.add_argument("--partitions", metavar="N", type=amount, help="the partitions of a topic that --create creates")
    add_options(parser)


def _add_consume(commands: Commands) -> None:
    summary = "read records, with their rate and the time of fetches"
    parser = commands.add("consume", summary, consume_load.consume, description=CONSUME, examples=CONSUME_EXAMPLES)
    completes(parser.add_argument("topic", metavar="TOPIC", help="the topic to read"), "topics")
    parser.add_argument("-n", "--count", metavar="N", type=amount, help="read N records (default: those that are there now)")
    help_text = "end after this time without a record (default: 10)"
    parser.add_argument("--timeout", metavar="SECONDS", type=decimal(0.001, 1e9, "seconds"), default=10.0, help=help_text)
    add_options(parser)
