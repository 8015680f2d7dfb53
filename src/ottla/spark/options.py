"""The options of the source and the sink, checked once; tasks get plain frozen values. Pure.

The options have the names and meanings of Spark's Kafka connector; a few are Ottla's own, such as `columns`. Upper and lower case
of names are equal, because Spark does not preserve them.
"""

from __future__ import annotations

import difflib
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ottla.client.settings.clients import ConsumerSettings, ProducerSettings
from ottla.client.types import TopicPartition
from ottla.records.compression.codecs import DEFAULT_LIMIT_BYTES
from ottla.spark import texts
from ottla.spark.errors import OptionError
from ottla.spark.formats import choice
from ottla.spark.formats.choice import BYTES, Formats
from ottla.spark.kafka_options import SECURED, consumer_settings, is_kafka_option, producer_settings
from ottla.spark.read_plan import EARLIEST, LATEST, AtGroup, AtOffsets, Bound, Everywhere

logger = logging.getLogger("ottla.spark")

SOURCE, SINK = "source", "sink"
DEFAULT_COLUMNS = texts.COLUMNS[:-1]


@dataclass(frozen=True, slots=True)
class TopicSelection:
    """The partitions to read. Exactly one of the three attributes is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()


def named_topics(selection: TopicSelection) -> list[str]:
    return sorted({*selection.topics, *(where.topic for where in selection.partitions)})


def selects(selection: TopicSelection, where: TopicPartition) -> bool:
    """Return whether a selection contains the partition `where`, which need not exist."""
    if selection.pattern is not None:
        return re.fullmatch(selection.pattern, where.topic) is not None
    return where.topic in selection.topics or where in selection.partitions


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of a reader. Limits are numbers of records, except `max_bytes_per_trigger`, which is the stored size in bytes."""

    selection: TopicSelection
    client: ConsumerSettings
    start: Bound
    end: Bound
    columns: tuple[str, ...] = DEFAULT_COLUMNS
    fail_on_data_loss: bool = True
    latest_where_time_is_not_reached: bool = False
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 15 * 60_000
    max_bytes_per_trigger: int | None = None
    max_offsets_per_trigger_per_partition: int | None = None
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_opened_bytes: int = DEFAULT_LIMIT_BYTES
    formats: Formats = BYTES
    dead_letters: ProducerSettings | None = None
    directories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a writer. `topic`, if given, takes precedence over the column of that name.

    With `include_timestamp`, records have the times of the column `timestamp`, otherwise the time of writing. A record of more than
    `max_request_size` bytes stops the job; None leaves the check to the brokers. A job that runs again with the same `job_id` and
    `batch_id` writes only once, as a stream writes each micro-batch. `decision_topic` stores which batches are written. Without
    `exactly_once`, rows can be written again. If `transaction_timeout_ms` is None, transactions have the longest timeout that
    brokers allow. With `two_phase_commit` (KIP-939), the timeout is removed before the decision. None means that it is removed if
    brokers allow that.
    """

    client: ProducerSettings
    topic: str | None = None
    include_headers: bool = True
    include_timestamp: bool = False
    max_request_size: int | None = None
    formats: Formats = BYTES
    exactly_once: bool = True
    job_id: str | None = None
    batch_id: int = 0
    run_id: str | None = None
    decision_topic: str = "ottla-decisions"
    transaction_timeout_ms: int | None = None
    two_phase_commit: bool | None = None


@dataclass(frozen=True, slots=True)
class Option:
    """One option: whether the source or the sink has it, and the parser of its text."""

    name: str
    parse: Callable[[str, str], Any]
    sides: tuple[str, ...] = (SOURCE,)


_ALL = (
    Option("subscribe", texts.topics),
    Option("subscribePattern", texts.pattern),
    Option("assign", texts.parse_partitions),
    Option("startingOffsets", texts.offsets),
    Option("startingOffsetsByTimestamp", texts.times),
    Option("startingTimestamp", texts.time_ms),
    Option("startingOffsetsByTimestampStrategy", texts.latest_otherwise),
    Option("endingOffsets", texts.offsets),
    Option("endingOffsetsByTimestamp", texts.times),
    Option("endingTimestamp", texts.time_ms),
    Option("maxOffsetsPerTrigger", texts.integer),
    Option("minOffsetsPerTrigger", texts.integer),
    Option("maxTriggerDelay", texts.duration_ms),
    Option("maxBytesPerTrigger", texts.size_bytes),
    Option("maxOffsetsPerTriggerPerPartition", texts.integer),
    Option("groupId", texts.text),
    Option("minPartitions", texts.integer),
    Option("maxRecordsPerPartition", texts.integer),
    Option("maxOpenedBytes", texts.integer),
    Option("ottla.directory", texts.directories),
    Option("failOnDataLoss", texts.boolean),
    Option("includeHeaders", texts.boolean, (SOURCE, SINK)),
    Option("includeTimestamp", texts.boolean, (SINK,)),
    Option("deliveryGuarantee", texts.exactly_once, (SINK,)),
    Option("jobId", texts.text, (SINK,)),
    Option("batchId", texts.batch_id, (SINK,)),
    Option("runId", texts.text, (SINK,)),
    Option("decisionTopic", texts.text, (SINK,)),
    Option("transactionTimeout", texts.duration_ms, (SINK,)),
    Option("twoPhaseCommit", texts.boolean_or_auto, (SINK,)),
    Option("groupIdPrefix", texts.text),
    Option("columns", texts.columns),
    Option("topic", texts.text, (SINK,)),
    Option("keyFormat", choice.key_format_name, (SOURCE, SINK)),
    Option("keySchema", texts.text, (SOURCE, SINK)),
    Option("valueFormat", choice.format_name, (SOURCE, SINK)),
    Option("valueSchema", texts.text, (SOURCE, SINK)),
    Option("schemaRegistry", texts.text, (SOURCE, SINK)),
    Option("delimiter", choice.delimiter, (SOURCE, SINK)),
    Option("mode", choice.mode),
    Option("deadLetterTopic", texts.text),
    # Settings of loops that only the JVM connector has. They are parsed and checked, so that a job can move to Ottla unchanged.
    Option("kafkaConsumer.pollTimeoutMs", texts.integer),
    Option("fetchOffset.numRetries", texts.integer),
    Option("fetchOffset.retryIntervalMs", texts.integer),
    # Spark also passes these options of its own to every streaming source and sink.
    Option("checkpointLocation", texts.text, (SOURCE, SINK)),
    Option("queryName", texts.text, (SOURCE, SINK)),
    Option("outputMode", texts.text, (SOURCE, SINK)),
    Option("asyncProgressTrackingEnabled", texts.no_asynchrony, (SOURCE, SINK)),
)
STREAMS_ONLY = (
    "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "maxBytesPerTrigger", "maxOffsetsPerTriggerPerPartition",
)  # fmt: skip
WITHOUT_EFFECT = ("fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "kafkaConsumer.pollTimeoutMs")
OPTIONS = {option.name.lower(): option for option in _ALL}
ATTRIBUTES = {
    "maxTriggerDelay": "max_trigger_delay_ms",
    "ottla.directory": "directories",
    "startingOffsetsByTimestampStrategy": "latest_where_time_is_not_reached",
    "transactionTimeout": "transaction_timeout_ms",
}
"""The attributes of `ReadOptions` and `WriteOptions` that do not have their option's name in Python's spelling."""
REFUSED = {
    (SOURCE, "path"): "records come from topics; name them with option subscribe, and call load() without a path.",
    (SINK, "path"): "records go to topics; name one with option topic, and call save() or start() without a path.",
}
"""Options of other sources and sinks that have no meaning here, with what to do instead."""
ALIASES = {
    "topics": "subscribe",
    "offsets": "startingOffsets",
    "auto.offset.reset": "startingOffsets",
    "servers": "kafka.bootstrap.servers",
    "brokers": "kafka.bootstrap.servers",
    "schema": "columns",
}


@dataclass(slots=True)
class _Parsed:
    values: dict[str, Any] = field(default_factory=dict)
    client: dict[str, str] = field(default_factory=dict)

    def given_options(self, *names: str) -> list[str]:
        return [name for name in names if name in self.values]


def _nearest(name: str, side: str) -> str:
    lower = name.lower()
    if is_kafka_option(lower):
        return f"kafka.{lower}"
    names = {option.name.lower(): option.name for option in _ALL if side in option.sides}
    close = difflib.get_close_matches(lower, names, n=1, cutoff=0.5)
    return ALIASES.get(lower) or (names[close[0]] if close else "")


def _unknown(name: str, side: str) -> OptionError:
    if (instead := REFUSED.get((side, name.lower()))) is not None:
        return OptionError(f"The {side} has no option {name}: {instead}")
    option = OPTIONS.get(name.lower())
    if option is not None:
        return OptionError(
            f"Option {option.name} belongs to the {option.sides[0]} of a query, not to the {side}: leave it out here."
        )
    nearest = _nearest(name, side)
    offered = ", ".join(option.name for option in _ALL if side in option.sides)
    hint = f"did you mean {nearest}?" if nearest else f"there are {offered}, and kafka.* for settings of the client."
    return OptionError(f"The {side} has no option {name}; {hint}")


def _parse(options: Mapping[str, str], side: str) -> _Parsed:
    parsed = _Parsed()
    for name, text in options.items():
        lower = name.lower()
        option = OPTIONS.get(lower)
        if lower.startswith("kafka."):
            parsed.client[lower.removeprefix("kafka.")] = str(text)
        elif option is None or side not in option.sides:
            raise _unknown(name, side)
        else:
            parsed.values[option.name] = option.parse(option.name, str(text))
    return parsed


def _selection(parsed: _Parsed) -> TopicSelection:
    given = parsed.given_options("subscribe", "subscribePattern", "assign")
    if len(given) != 1:
        found = f"{' and '.join(given)} are given" if given else "none is given"
        raise OptionError(f"Give exactly one of the options subscribe, subscribePattern and assign; {found}.")
    values = parsed.values
    return TopicSelection(values.get("subscribe", ()), values.get("subscribePattern"), values.get("assign", ()))


def _bound(parsed: _Parsed, edge: str, default: int) -> Bound:
    """Return the start or the end.

    A time for all partitions has priority over times for each partition, and times over offsets, as in Spark's connector.
    """
    for name in (f"{edge}Timestamp", f"{edge}OffsetsByTimestamp", f"{edge}Offsets"):
        if name in parsed.values:
            bound: Bound = parsed.values[name]
            return bound
    return Everywhere(default)


def _check_bounds(start: Bound, end: Bound, parsed: _Parsed, *, streaming: bool) -> None:
    ending = parsed.given_options("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
    if streaming and ending:
        raise OptionError(f"A stream has no end: leave out {ending[0]}, or read with spark.read.")
    if not streaming and start == Everywhere(LATEST):
        raise OptionError('A batch cannot start at the latest offsets: give startingOffsets as "earliest" or as JSON.')
    if end == Everywhere(EARLIEST):
        raise OptionError('A batch cannot end at the earliest offsets: give endingOffsets as "latest" or as JSON.')
    if isinstance(end, AtOffsets) and EARLIEST in end.offsets.values():
        raise OptionError("endingOffsets takes offsets or -1 (latest) for each partition, not -2 (earliest).")
    _check_group(start, parsed, streaming=streaming)
    if not streaming and isinstance(start, AtOffsets) and LATEST in start.offsets.values():
        raise OptionError("For a batch, startingOffsets takes offsets or -2 (earliest) for each partition, not -1 (latest).")


def _check_group(start: Bound, parsed: _Parsed, *, streaming: bool) -> None:
    given = "groupId" in parsed.values
    if isinstance(start, AtGroup) and not given:
        raise OptionError('startingOffsets="group" starts where a group stands: name the group with option groupId.')
    if given and not streaming and not isinstance(start, AtGroup):
        raise OptionError('A batch commits no offsets: leave out groupId, or begin at the group with startingOffsets="group".')
    idle = [] if streaming else parsed.given_options(*STREAMS_ONLY)
    if idle:
        raise OptionError(f"Option {idle[0]} limits the triggers of a stream: leave it out, and end a batch with endingOffsets.")


def _chosen_columns(values: Mapping[str, Any]) -> tuple[str, ...]:
    columns: tuple[str, ...] = values.get("columns", DEFAULT_COLUMNS)
    headers = ("headers",) if values.get("includeHeaders") else ()
    corrupt = (corrupt for column, corrupt in choice.formats_of(values).corrupt_columns().items() if column in columns)
    return tuple(dict.fromkeys((*columns, *headers, *corrupt)))


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of a source's rows, which are known before Spark chooses a batch or a stream."""

    columns: tuple[str, ...]
    formats: Formats
    topics: tuple[str, ...]


def source_shape(options: Mapping[str, str]) -> Shape:
    """Return the columns of a source, from its options only. Raises `OptionError`."""
    parsed = _parse(options, SOURCE)
    selection = _selection(parsed)
    topics = selection.topics or tuple(dict.fromkeys(where.topic for where in selection.partitions))
    return Shape(_chosen_columns(parsed.values), choice.formats_of(parsed.values), topics)


def _dead_letters(parsed: _Parsed) -> ProducerSettings | None:
    """Return the settings of a producer of dead letters, which writes to the source's brokers."""
    if "deadLetterTopic" not in parsed.values:
        return None
    shared = SECURED | {"bootstrap.servers", "client.id", "request.timeout.ms"}
    return producer_settings({name: text for name, text in parsed.client.items() if name in shared})


def read_options(options: Mapping[str, str], *, streaming: bool) -> ReadOptions:
    """Parse the options of a source. Raises `OptionError`, whose sentence names a valid option or value."""
    parsed = _parse(options, SOURCE)
    if idle := parsed.given_options(*WITHOUT_EFFECT):
        logger.warning("these options have no effect on the source and are ignored: %s", ", ".join(idle))
    return _read_options(parsed, streaming=streaming)


def _read_options(parsed: _Parsed, *, streaming: bool) -> ReadOptions:
    start = _bound(parsed, "starting", LATEST if streaming else EARLIEST)
    end = _bound(parsed, "ending", LATEST)
    _check_bounds(start, end, parsed, streaming=streaming)
    values = parsed.values
    least, most = values.get("minOffsetsPerTrigger"), values.get("maxOffsetsPerTrigger")
    if least is not None and most is not None and least > most:
        raise OptionError(f"minOffsetsPerTrigger ({least}) must not be above maxOffsetsPerTrigger ({most}).")
    return ReadOptions(
        selection=_selection(parsed),
        client=replace(
            consumer_settings(parsed.client, group_id_prefix=values.get("groupIdPrefix")), group_id=values.get("groupId")
        ),
        start=start,
        end=end,
        formats=choice.formats_of(values),
        dead_letters=_dead_letters(parsed),
        **_attributes(ReadOptions, values) | {"columns": _chosen_columns(values)},
    )


def _attributes(kind: type[ReadOptions | WriteOptions], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given options whose values are attributes of `kind`, by attribute."""
    own = {each.name for each in fields(kind)}
    named = ((ATTRIBUTES.get(name) or re.sub("([A-Z])", r"_\1", name).lower(), value) for name, value in values.items())
    return {name: value for name, value in named if name in own}


def check_either_way(options: Mapping[str, str]) -> None:
    """Raise `OptionError` for options that neither a batch nor a stream accepts. Called before Spark chooses one of them.

    Options without an effect are not logged here, because the reader logs them.
    """
    parsed = _parse(options, SOURCE)
    try:
        _read_options(parsed, streaming=True)
    except OptionError:
        _read_options(parsed, streaming=False)


def write_options(options: Mapping[str, str]) -> WriteOptions:
    """Parse the options of a sink. Raises `OptionError`, whose sentence names a valid option or value."""
    parsed = _parse(options, SINK)
    client = producer_settings(parsed.client)
    formats = choice.formats_of(parsed.values)
    if formats.needs_topic() and "topic" not in parsed.values:
        raise OptionError("Option schemaRegistry finds schemas by the topic's name: give option topic.")
    return WriteOptions(
        client=client,
        max_request_size=client.max_request_size if "max.request.size" in parsed.client else None,
        formats=formats,
        exactly_once=_is_exactly_once(parsed),
        **_attributes(WriteOptions, parsed.values),
    )


def _is_exactly_once(parsed: _Parsed) -> bool:
    """Return whether a job writes exactly once. It does by default, unless client settings exclude it. Raises `OptionError`."""
    wanted = parsed.values.get("deliveryGuarantee")
    against = [
        f"kafka.{name}" for name in ("acks", "enable.idempotence") if parsed.client.get(name) not in (None, "all", "-1", "true")
    ]
    if wanted and against:
        raise OptionError(f"deliveryGuarantee exactly-once needs acks=all and idempotence: leave out {' and '.join(against)}.")
    if wanted is None and against:
        logger.warning("acks or idempotence are given, so rows are written at least once, not exactly once")
    of_it = ("jobId", "batchId", "decisionTopic", "transactionTimeout", "twoPhaseCommit")
    if not wanted and wanted is not None and (idle := parsed.given_options(*of_it)):
        raise OptionError(f"{idle[0]} is for deliveryGuarantee exactly-once: leave out one of them.")
    if "jobId" not in parsed.values and (counted := parsed.given_options("batchId", "runId")):
        raise OptionError(f"{counted[0]} is for a job that names itself: give jobId as well.")
    return bool(wanted) if wanted is not None else not against
