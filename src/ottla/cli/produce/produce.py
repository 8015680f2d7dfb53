"""`ottla produce`: its arguments. `run` runs the command; `record_format` has the tokens of -f and the fields of JSON."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ottla.cli.command.arguments import argument, count, decimal, given, name, whole
from ottla.cli.command.connection import add_options
from ottla.cli.command.parser import Example, completes
from ottla.cli.record_format.input_steps import InputStep
from ottla.cli.record_format.input_template import input_template
from ottla.cli.record_format.tokens import BadTemplate, unescape

if TYPE_CHECKING:
    from ottla.cli.command.parser import Parser

DESCRIPTION = r"""Write records: each line of FILE or of standard input is the value of one, sent as soon as it is complete. -K, -f
and --json-lines read keys, headers, partitions and timestamps, too. The tokens of -f: %v value, %k key, %t topic, %p partition, %d
timestamp in ms, %h headers (a=1,b=2), %H their number and %h{%k=%v } each; %V, %K and %T are sizes before a value, key or topic, in
digits or as %V{big32}; %v{hex}, %v{base64}, %v{json}. docs/command.md has all. Exit code 1: lines were not delivered, and are
listed."""
EXAMPLES = (
    Example("produce flights flights.txt", "A record for each line of a file."),
    Example("produce flights -K : -H source=desk", "Keys before a colon, from standard input, with a header."),
    Example("produce flights-2 records.json --json-lines", "Records as `ottla consume flights --json` printed them."),
    Example(r"produce flights data -f '%k %v\n' --transactional", "Keys and values by a template: all of them, or none."),
)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def build(parser: Parser) -> None:
    parser.description, parser.examples = DESCRIPTION, EXAMPLES
    parser.set_defaults(run=_run)
    completes(parser.add_argument("topic", metavar="TOPIC", help="the topic to write"), "topics")
    parser.add_argument("file", metavar="FILE", nargs="?", type=given, help="the input (default, and -: standard input)")
    _add_input(parser)
    _add_records(parser)
    _add_sending(parser)
    add_options(parser)


def _run(options: argparse.Namespace) -> int:
    from ottla.cli.produce.run import produce

    return produce(options)


def _add_input(parser: Parser) -> None:
    group = parser.add_argument_group("input")
    help_text = r"the end of a record: \n by default, \0 as of find -print0; '' makes the whole input one record"
    group.add_argument("-D", "--delimiter", metavar="TEXT", type=argument(unescape), help=help_text)
    form = group.add_mutually_exclusive_group()
    help_text = r"the text between key and value, such as : or \t"
    form.add_argument("-K", "--key-separator", metavar="TEXT", type=_key_separator, help=help_text)
    form.add_argument("-f", "--format", metavar="TEMPLATE", type=_template, help=r"a template of rpk or kcat, such as '%%k %%v\n'")
    form.add_argument("--json-lines", action="store_true", help="each line is an object with key, value, headers, …")
    null = group.add_mutually_exclusive_group()
    null.add_argument("-Z", "--tombstones", dest="null", action="store_const", const=b"", help="an empty key or value is null")
    null.add_argument("--null", metavar="TEXT", type=argument(unescape), help="a key or value that is this text is null")
    group.add_argument("-n", "--count", metavar="N", type=count, help="end after N records")
    group.add_argument("--repeat", action="store_true", help="begin again at the end of FILE, until -n or Ctrl-C")


def _add_records(parser: Parser) -> None:
    group = parser.add_argument_group("records")
    group.add_argument("-k", "--key", help="the key of each record whose input has none")
    help_text = "a header of each record; can be repeated"
    group.add_argument("-H", "--header", action="append", default=[], metavar="NAME=VALUE", type=_header, help=help_text)
    help_text = "the partition of each record whose input has none (default: by the key, or spread)"
    completes(group.add_argument("-p", "--partition", metavar="N", type=whole(0), help=help_text), "partitions")
    help_text = "encode values, which are JSON: FILE.avsc (Avro), FILE.json (JSON Schema) or FILE.desc#Message (Protobuf)"
    group.add_argument("--schema", metavar="FILE", type=given, help=help_text)
    help_text = "encode values by the newest schema of TOPIC-value in this registry, with its id"
    group.add_argument("--schema-registry", metavar="URL", help=help_text)


def _add_sending(parser: Parser) -> None:
    group = parser.add_argument_group("sending")
    group.add_argument("-z", "--compression", choices=CODECS, metavar="CODEC", help=f"one of {', '.join(CODECS)}")
    help_text = "the replicas that must have a record: all (in sync, the default); 1 (the leader) and 0 (none), with which brokers "
    help_text += "that fail can lose or double records"
    group.add_argument("--acks", choices=("all", "-1", "1", "0"), metavar="ACKS", help=help_text)
    group.add_argument("--transactional", action="store_true", help="write all records in one transaction, or none")
    help_text = "the same, with an id, which ends older producers of this id"
    group.add_argument("--transactional-id", metavar="ID", type=name, help=help_text)
    group.add_argument("--rate", metavar="N", type=decimal(0.001, 1e9, "records a second"), help="send at most N records a second")
    group.add_argument("--create", action="store_true", help="create the topic, with the broker's defaults, if it does not exist")
    group.add_argument("-v", "--verbose", action="store_true", help="print where each record went: topic-partition@offset")


def _key_separator(text: str) -> bytes:
    if not text:
        raise argparse.ArgumentTypeError("the separator is empty: give a text that stands between key and value")
    return argument(unescape)(text)


def _template(text: str) -> list[InputStep]:
    try:
        return input_template(text)
    except BadTemplate as error:
        raise argparse.ArgumentTypeError(f"template {text!r}: {error}") from None


def _header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not like source=desk")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError(f"the name of the header {text!r} is not UTF-8") from None
    return name, value.encode("utf-8", "surrogateescape") if equals else None
