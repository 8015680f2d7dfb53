"""`ottla consume`: its arguments. The modules beside it run the command with a consumer."""

from __future__ import annotations

import argparse
from difflib import get_close_matches
from typing import TYPE_CHECKING

from ottla.cli.command.arguments import MOST_OFFSET, given, pattern, whole
from ottla.cli.command.connection import add_options
from ottla.cli.command.parser import Example, completes
from ottla.cli.consume import consumption
from ottla.cli.consume.positions import position, position_range
from ottla.cli.record_format.forms import PackedText
from ottla.cli.record_format.tokens import BadTemplate

if TYPE_CHECKING:
    from ottla.cli.command.parser import Parser

DESCRIPTION = """Print records of topics from their start, and then new ones until Ctrl-C; -e, --until and -n end earlier. In a
pipe, values are printed byte by byte; on a terminal, binary ones are shown in hex, or decoded if they are of MessagePack."""
FORMATS = ("auto", "text", "json", "hex", "base64", "avro", "protobuf", "msgpack")
FORMAT = """a template of kcat's and rpk's tokens, such as '%t %p %o %d %k %v\\n': topic, partition, offset, time in ms, key, value;
%h headers, %K %V sizes, %v{hex}, %d{strftime[%F %T]}; nothing is added"""
FILTER = """print records for which an expression is true, of key, value, headers, topic, partition, offset and timestamp, such as
'value.price > 5 and "de" in value.countries' or 'timestamp > "2h"'"""


def build(parser: Parser) -> None:
    parser.description = DESCRIPTION
    parser.set_defaults(run=consumption.run)
    parser.examples = (
        Example("consume flights", "All records, then new ones as they are written."),
        Example("consume flights -F", "The last 10 records of each partition, then new ones."),
        Example(
            "consume flights -e -o @2h -f '%d{strftime[%T]} %k %v\\n'", "The last two hours, each record with its time and key."
        ),
        Example("consume flights -e --json --filter 'value.delay > 15'", "JSON objects of the delayed flights up to now."),
        Example("consume flights -g audit -n 100", "100 records as a member of a group, whose offsets are committed."),
        Example("consume jobs --share -g workers -n 10", "10 records of a queue, which are accepted once they are printed."),
        Example("consume jobs --share -g workers -e --acknowledge release --json", "The next records of a queue, left to others."),
    )
    completes(parser.add_argument("topics", metavar="TOPIC", nargs="+", help="topics, or with -r regular expressions"), "topics")
    _add_places(parser)
    _add_forms(parser)
    _add_conditions(parser)
    _add_queue(parser)
    add_options(parser)


def _add_places(parser: Parser) -> None:
    found = parser.add_argument_group("where to read")
    group = found.add_argument("-g", "--group", metavar="GROUP", help="read as a member of a group, and commit what was printed")
    completes(group, "groups")
    help_text = """begin at start (the default), end, +10 or -10 records from them, an offset, or a time: @2h, @2026-11-23T10:00;
FROM:UNTIL is both, such as @2h:end"""
    start = found.add_argument("-o", "--offset", metavar="POSITION", type=position_range, action="append", help=help_text)
    help_text = "stop before a position in each partition, as of -o"
    until = found.add_argument("--until", metavar="POSITION", type=position, help=help_text)
    for each in (start, until):
        completes(each, "record positions")
    found.add_argument("-e", "--exit", action="store_true", help="stop at the present end")
    found.add_argument("-n", "--number", metavar="N", type=whole(0, MOST_OFFSET), help="stop after this number of records in all")
    found.add_argument("-F", "--follow", action="store_true", help="begin with the last 10 records of each partition")
    help_text = "only these partitions, such as 0,3; can be repeated"
    partitions = found.add_argument(
        "-p", "--partition", dest="partitions", metavar="N", type=_partitions, action="extend", help=help_text
    )
    completes(partitions, "partitions")
    found.add_argument("-r", "--regex", action="store_true", help="read the topics whose whole names match, new ones too")
    help_text = "committed hides records of open and aborted transactions (the default), uncommitted shows them"
    found.add_argument("--isolation", choices=("committed", "uncommitted"), help=help_text)


def _add_forms(parser: Parser) -> None:
    found = parser.add_argument_group("how to print")
    found.add_argument("-f", "--format", metavar="TEMPLATE", help=FORMAT.replace("%", "%%"))
    found.add_argument("-D", "--delimiter", metavar="TEXT", help="print this after each record (default \\n)")
    found.add_argument("-K", "--key-delimiter", metavar="TEXT", help="print the key and this before each value")
    found.add_argument("-Z", "--null", metavar="TEXT", default="", help="print this for null keys and values (default: nothing)")
    help_text = f"the format of values: {', '.join(FORMATS)}, or unpack[LETTERS] of kcat's -s, such as unpack[>I]"
    values = found.add_argument("--value-format", metavar="FORMAT", type=_format, help=help_text)
    keys = found.add_argument("--key-format", metavar="FORMAT", type=_format, help="the format of keys")
    completes(values, "formats")
    completes(keys, "formats")
    help_text = "print JSON with the size of each value instead of the value"
    found.add_argument("--meta-only", action="store_true", help=help_text)
    help_text = "a schema of Avro (.avsc), or descriptors of Protobuf (.desc, #MESSAGE)"
    found.add_argument("--schema", metavar="FILE", type=given, help=help_text)
    help_text = "the URL of a schema registry, or a directory of schemas, for values that begin with a schema's id"
    found.add_argument("--schema-registry", metavar="URL", help=help_text)
    found.add_argument("--utc", action="store_true", help="print times of %%d{…} in UTC (default: local)")


def _add_conditions(parser: Parser) -> None:
    found = parser.add_argument_group("which records")
    found.add_argument("--filter", metavar="EXPRESSION", help=FILTER)
    found.add_argument(
        "--grep", metavar="REGEX", type=pattern, help="print records in whose key or value a regular expression is found"
    )
    help_text = "also print markers of transactions, as values COMMIT and ABORT"
    found.add_argument("--print-control", action="store_true", help=help_text)
    found.add_argument("--group-by-key", action="store_true", help="print the last record of each key, at the end")


def _add_queue(parser: Parser) -> None:
    found = parser.add_argument_group("queues")
    help_text = """read as a member of the share group of -g, which begins at the end of topics unless its setting
share.auto.offset.reset is earliest; -e stops once nothing arrives for 3 s"""
    found.add_argument("--share", action="store_true", help=help_text)
    help_text = "what becomes of printed records of a share group: accept (the default), release or reject"
    found.add_argument("--acknowledge", choices=("accept", "release", "reject"), help=help_text)


def _format(text: str) -> str:
    if text in FORMATS:
        return text
    if text.startswith("unpack[") and text.endswith("]"):
        try:
            PackedText(text[len("unpack[") : -1])
        except BadTemplate as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        return text
    near = get_close_matches(text, FORMATS, n=1)
    advice = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(FORMATS)}, unpack[LETTERS]"
    raise argparse.ArgumentTypeError(f"{text!r} is no format: {advice}")


def _partitions(text: str) -> list[int]:
    return [whole(0)(part) for part in text.split(",")]
