"""The run of `ottla consume`: it checks options, prepares a consumer, and prints the consumer's records."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.cli.command import arguments, connection
from ottla.cli.command.output import is_terminal
from ottla.errors import KafkaError, SettingError

if TYPE_CHECKING:
    from ottla.cli.consume.record_stream import Selection
    from ottla.cli.consume.renderers import Rendering
    from ottla.cli.consume.values import Binary, Decoder
    from ottla.net.client.consumer.consumer import Consumer

TAILED = 10
"""The records of each partition that -F begins with."""
FETCH_BYTES = 2 * 1024 * 1024
COMMIT_EVERY_MS = 1000


class Decoders(NamedTuple):
    """The decoders of keys and of values. A decoder of None leaves the bytes unchanged."""

    key: Decoder | None
    value: Decoder | None


def run(options: argparse.Namespace) -> int:
    from ottla.cli.consume.values import Binary
    from ottla.client.errors import NotSupported

    if options.share:
        from ottla.cli.consume.share_stream import check_share_options

        check_share_options(options)
    _check(options)
    decoders = _decoders(
        options, Binary.BASE64 if options.json or options.meta_only else Binary.HEX if is_terminal() else Binary.RAW
    )
    rendering, selections = _choose_rendering(options, decoders), _selections(options)
    if options.share:
        from ottla.cli.consume.share_stream import print_queue

        return print_queue(options, rendering)
    settings = _settings(options)
    try:
        return _print(options, settings, selections, rendering)
    except NotSupported:
        if options.isolation is not None:
            raise
        # Brokers before 0.11 have no transactions, and no field for the isolation of readers. Nothing was printed yet.
        return _print(options, {**settings, "isolation_level": "read_uncommitted"}, selections, rendering)


def _print(options: argparse.Namespace, settings: dict[str, Any], selections: list[Selection], rendering: Rendering) -> int:
    from ottla.cli.command.signals import Interruption
    from ottla.cli.consume.record_stream import RecordStream
    from ottla.net.client.consumer.consumer import Consumer

    assignments: list[float] = []
    with Consumer(**settings, on_assigned=lambda partitions: assignments.append(time.monotonic())) as consumer:
        _place(consumer, options)
        return RecordStream(consumer, options, selections, rendering, Interruption(), assignments).run()


def _check(options: argparse.Namespace) -> None:
    """Complete options that others imply. Raises `SettingError` for options that exclude one another."""
    from ottla.cli.consume.positions import END, FROM_END, START, RecordPosition

    for found in options.offset or ():
        if None not in (options.until, found.until):
            raise SettingError("-o FROM:UNTIL and --until both end the reading: leave one of them out.")
        options.until = options.until or found.until
    options.offset = next((found.start for found in options.offset or () if found.start is not None), None)
    if options.exit and options.until is None:
        options.until = RecordPosition(END)
    if options.group_by_key:
        if options.follow:
            raise SettingError("--group-by-key prints at the end, which -F does not have: leave one of them out.")
        options.until = options.until or RecordPosition(END)
    if options.follow and options.until is not None:
        raise SettingError("-F follows topics without an end: leave out -F, or -e and --until.")
    _check_exclusions(options)
    if options.offset is None:
        options.offset = RecordPosition(FROM_END, TAILED) if options.follow and options.group is None else RecordPosition(START)


def _check_exclusions(options: argparse.Namespace) -> None:
    from ottla.cli.consume.positions import END, START

    if options.group is not None:
        if options.partitions:
            raise SettingError("A group assigns partitions by itself: leave out -p or -g.")
        if options.offset is not None and options.offset.kind not in (START, END):
            raise SettingError(
                "With -g, -o is start or end, for partitions without a committed offset: `ottla group seek` moves others."
            )
    if options.partitions and options.regex:
        raise SettingError("-p chooses partitions of named topics: leave out -r or -p.")
    if options.format is not None and (options.json or options.meta_only):
        other = "--json" if options.json else "--meta-only"
        raise SettingError(f"{other} and -f are two formats: leave one of them out.")
    given = [(options.delimiter, "-D"), (options.key_delimiter, "-K"), (options.null or None, "-Z")]
    unused = next((option for value, option in given if value is not None and options.json), None)
    if unused is not None:
        raise SettingError(f"{unused} is for text, and --json prints objects: leave one of them out.")
    if options.key_delimiter is not None and options.format is not None:
        raise SettingError("-K is for output without a template: leave it out, and put %k into -f.")
    if sys.stdout is None:
        raise SettingError("Standard output is closed: redirect it to a file, or to /dev/null.")


def _decoders(options: argparse.Namespace, binary: Binary) -> Decoders:
    from ottla.cli.consume.values import AUTO, SchemaSource, decoder

    schemas = None
    if options.schema is not None or options.schema_registry is not None:
        schemas = SchemaSource(options.schema, options.schema_registry)
    # A file has the schema of values: keys have one only if their format says so, or a registry's frame.
    of_keys = schemas if options.schema_registry is not None or options.key_format in ("avro", "protobuf") else None
    key = decoder(options.key_format or AUTO, of_keys, binary)
    return Decoders(key, decoder(options.value_format or AUTO, schemas, binary))


def _choose_rendering(options: argparse.Namespace, decoders: Decoders) -> Rendering:
    """Return the object that formats records, as the options request. Raises `SettingError`."""
    from ottla.cli.consume.renderers import JsonRendering, TemplateRendering
    from ottla.cli.record_format.output_template import Template
    from ottla.cli.record_format.tokens import BadTemplate, literal

    if options.json or options.meta_only:
        return JsonRendering(*decoders, is_meta_only=options.meta_only)
    key = "" if options.key_delimiter is None else f"%k{literal(options.key_delimiter)}"
    end = literal("\\n" if options.delimiter is None else options.delimiter)
    text = f"{key}%v{end}" if options.format is None else options.format + ("" if options.delimiter is None else end)
    try:
        return TemplateRendering(Template(text, options.null.encode(), utc=options.utc), *decoders)
    except (BadTemplate, RecursionError) as error:
        named = f"-f {options.format!r:.200}" if options.format is not None else "-D or -K"
        raise SettingError(f"The template of {named} cannot be used: {error}.") from None


def _selections(options: argparse.Namespace) -> list[Selection]:
    """Return the conditions that a record must fulfil to be printed. Raises `SettingError`."""
    from ottla.inspection.filters import BadFilter, RecordFilter

    found: list[Selection] = []
    if options.grep is not None:
        search = options.grep.search
        found.append(lambda record: any(search(_text_of(data)) for data in (record.value, record.key)))
    if options.filter is not None:
        try:
            found.append(RecordFilter(options.filter, *_decoders_of_filter(options)).matches)
        except BadFilter as error:
            raise SettingError(f"--filter {options.filter!r:.200} cannot be used: {error}.") from None
    return found


def _text_of(data: bytes | None) -> str:
    """Return bytes as text for regular expressions, so that a dot is one character. A null is empty."""
    return (data or b"").decode("utf-8", "surrogateescape")


def _decoders_of_filter(options: argparse.Namespace) -> Decoders:
    """Return decoders for fields of keys and values. Without a format or schemas, fields are those of JSON."""
    from ottla.cli.consume.values import Binary

    found = _decoders(options, Binary.RAW)
    formats = {"avro", "protobuf", "msgpack"}
    by_frame = options.schema_registry is not None or options.schema is not None
    return Decoders(
        found.key if by_frame or options.key_format in formats else None,
        found.value if by_frame or options.value_format in formats else None,
    )


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments of the consumer: defaults, the settings of the command line, and what the options decide."""
    from ottla.cli.consume.positions import END
    from ottla.client.settings.clients import KAFKA07, ConsumerSettings

    defaults = {
        "max_partition_fetch_bytes": FETCH_BYTES,
        "auto_commit_interval_ms": COMMIT_EVERY_MS,
        "isolation_level": "read_committed",
        "allow_auto_create_topics": False,
    }
    decided: dict[str, Any] = {
        "group_id": options.group,
        "enable_auto_commit": options.group is not None and not options.group_by_key,
        "auto_offset_reset": "latest" if options.offset.kind == END else "earliest",
        "include_control_records": options.print_control,
    }
    if options.isolation is not None:
        decided["isolation_level"] = f"read_{options.isolation}"
    given = connection.settings(options, ConsumerSettings)
    named = {pair.partition("=")[0].strip() for pair in options.command_property}
    for setting, option in (
        ("group.id", "-g GROUP"),
        ("enable.auto.commit", "-g GROUP"),
        ("auto.offset.reset", "-o start or -o end"),
    ):
        if setting in named:
            raise SettingError(f"-X {setting} has an option of its own: use {option}.")
    if given.get("api_version") == KAFKA07:
        del defaults["isolation_level"]
    return {**defaults, **given, **decided}


def _checked_pattern(text: str) -> str:
    try:
        return arguments.pattern(text).pattern
    except argparse.ArgumentTypeError as error:
        raise SettingError(f"{error}.") from None


def _place(consumer: Consumer, options: argparse.Namespace) -> None:
    """Assign or subscribe the consumer to the partitions that the options name, and seek to the requested positions.

    Raises `KafkaError`.
    """
    from ottla.cli.consume.positions import END, START, offsets_of

    if options.partitions:
        consumer.assign([(topic, partition) for topic in options.topics for partition in options.partitions])
    elif options.regex:
        pattern = "|".join(f"(?:{_checked_pattern(topic)})" for topic in options.topics)
        consumer.subscribe(pattern=pattern)
        if options.group is None and not consumer.subscription():
            raise KafkaError(f"No topic matches {' or '.join(options.topics)}: `ottla topic list` shows the topics.")
    else:
        if options.group is not None:
            for topic in options.topics:
                consumer.partitions_for(topic)  # a group would wait for a topic that does not exist
        consumer.subscribe(*options.topics)
    if options.group is None and options.offset.kind not in (START, END):
        for where, offset in offsets_of(options.offset, consumer, consumer.assignment()).items():
            consumer.seek(where, offset)
