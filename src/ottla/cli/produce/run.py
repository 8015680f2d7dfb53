"""The run of `ottla produce`: it checks the topic, sends records as they arrive, and reports those that were not delivered."""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ottla.cli.command import connection
from ottla.cli.command.exits import MISUSED, fail, unwritten
from ottla.cli.command.output import as_lines, size
from ottla.cli.command.signals import Interruption
from ottla.cli.produce.line_failures import plural
from ottla.cli.produce.record_sender import RecordSender, Stopped
from ottla.cli.produce.row_splitter import RowSplitter
from ottla.cli.produce.source import InputSource
from ottla.cli.record_format.forms import BadInput
from ottla.cli.record_format.input_records import InputRecord, LineSplitter, Splitter, completed, keyed_line
from ottla.cli.record_format.input_steps import TemplateSplitter
from ottla.cli.record_format.json_records import json_record
from ottla.errors import KafkaError, SettingError

if TYPE_CHECKING:
    from ottla.net.client.admin.admin import Admin
    from ottla.net.client.producer.producer import Producer

LARGEST_BATCH = 1_000_000
"""The size of batches, in bytes, for topics that accept them: a little below the default of `max.message.bytes`."""
TRANSACTION_TIMEOUT_MS = 900_000
"""The most that brokers allow by default: the input of a transaction can take as long."""
PROMPT = "Type a record a line; Ctrl-D at the beginning of a line ends.\n"

Interpret = Callable[[Any], InputRecord | None]


def produce(options: argparse.Namespace) -> int:
    """Write the records of the input. Return 1 if some were not delivered, and 130 after Ctrl-C."""
    if (mistake := _contradiction(options)) is not None:
        return fail(mistake, MISUSED)
    try:
        with Interruption() as interruption, InputSource(options.file, interruption, repeat=options.repeat) as source:
            if options.repeat and not source.can_repeat:
                return fail(f"--repeat: {source.name} is empty or has no beginning to return to; name a file.", MISUSED)
            return _on_cluster(options, source, interruption)
    except OSError as error:
        if error.filename is None:
            raise
        return fail(f"Cannot read {error.filename}: {error.strerror}; name a readable file.")


def _contradiction(options: argparse.Namespace) -> str | None:
    if options.format is not None and options.delimiter is not None:
        return "-D does not go with -f, whose template ends each record: leave one of them out."
    if options.schema is not None and options.schema_registry is not None:
        return "--schema and --schema-registry both give the schema: leave one of them out."
    if options.acks in ("0", "1") and (options.transactional or options.transactional_id):
        return f"a transaction needs --acks all, not {options.acks}: leave one of them out."
    if options.acks == "0" and options.verbose:
        return "-v needs offsets, which brokers do not return with --acks 0: leave one of them out."
    return None


def _on_cluster(options: argparse.Namespace, source: InputSource, interruption: Interruption) -> int:
    from ottla.cli.produce.schemas import encoder
    from ottla.client.connection.versions import INIT_PRODUCER_ID
    from ottla.client.settings.clients import AdminSettings, ProducerSettings, parse
    from ottla.net.client.admin.admin import Admin
    from ottla.net.client.producer.producer import Producer

    encode = encoder(options)
    with Admin(**connection.settings(options, AdminSettings, AdminSettings, ProducerSettings)) as admin:
        is_recent = admin.supports_api(INIT_PRODUCER_ID)
        given = connection.settings(options, ProducerSettings, AdminSettings, ProducerSettings)
        settings = {
            **connection.WRITING,
            **({} if is_recent else {"enable_idempotence": False}),
            **given,
            **_own(options),
        }
        if settings.get("transactional_id"):
            if not is_recent:
                raise KafkaError("Transactions need Kafka 0.11 or newer, and these brokers are older: leave --transactional out.")
            settings.setdefault("transaction_timeout_ms", TRANSACTION_TIMEOUT_MS)
        parse(ProducerSettings, settings)  # raises SettingError before a topic is created
        _check_topic(admin, options, is_recent=is_recent)
        if is_recent:
            settings = {**_batch_size(admin, options.topic), **settings}
    if source.is_terminal and sys.stderr.isatty():
        print(PROMPT, end="", file=sys.stderr, flush=True)
    producer = Producer(**settings)
    return ProduceRun(options, source, interruption, producer, encode, is_transactional="transactional_id" in settings).execute()


def _own(options: argparse.Namespace) -> dict[str, Any]:
    """Return the producer settings that the options of this command set."""
    name = options.transactional_id or (f"ottla-produce-{secrets.token_hex(16)}" if options.transactional else None)
    own = {"compression_type": options.compression, "acks": options.acks, "transactional_id": name}
    return {setting: value for setting, value in own.items() if value is not None}


def _check_topic(admin: Admin, options: argparse.Namespace, *, is_recent: bool) -> None:
    """Create the topic if --create is given. Raises `KafkaError` for a missing topic, `SettingError` for a missing partition.

    The check is needed because brokers can create a topic when a producer sends to it: a misspelt name would become a topic.
    Brokers before Kafka 0.11 create even a topic that is described, so all their topics are listed instead.
    """
    from ottla.client.errors import BrokerError, NotSupported, UnknownTopic
    from ottla.wire.errors import TOPIC_ALREADY_EXISTS, UNKNOWN_TOPIC_OR_PARTITION

    try:
        if not is_recent and options.topic not in admin.list_topics(internal=True):
            raise UnknownTopic(UNKNOWN_TOPIC_OR_PARTITION)
        known = admin.describe_topics(options.topic)
    except UnknownTopic:
        if not options.create:
            raise KafkaError(
                f"There is no topic {options.topic}: create it with `ottla topic create {options.topic}`, or add --create."
            ) from None
        if options.partition:
            count = options.partition + 1
            raise KafkaError(
                f"There is no topic {options.topic}, and --create may give it fewer than {count} partitions: create it with "
                f"`ottla topic create {options.topic} -p {count}`."
            ) from None
        try:
            admin.create_topic(options.topic)
        except NotSupported:  # Kafka 0.10.0, where the producer's request for metadata creates a topic
            return
        except BrokerError as error:
            if error.code != TOPIC_ALREADY_EXISTS:
                raise
        return
    partitions = sorted(known[options.topic].partitions)
    if options.partition is not None and options.partition not in partitions:
        raise SettingError(
            f"Topic {options.topic} has no partition {options.partition}: it has {len(partitions)}, from {partitions[0]} on."
        )


def _batch_size(admin: Admin, topic: str) -> dict[str, Any]:
    """Return a large `batch_size` setting that the topic accepts; none if its settings cannot be read."""
    try:
        limit = admin.describe_topic_configs(topic)["max.message.bytes"].value
    except (KafkaError, KeyError):
        return {}
    return {"batch_size": min(int(limit), LARGEST_BATCH)} if limit else {}


class ProduceRun:
    """One run of `ottla produce`, with an open producer that `execute` closes."""

    def __init__(
        self,
        options: argparse.Namespace,
        source: InputSource,
        interruption: Interruption,
        producer: Producer,
        encode: Callable[[bytes], bytes] | None,
        *,
        is_transactional: bool,
    ) -> None:
        self._options = options
        self._source, self._interruption = source, interruption
        self._producer = producer
        self._headers = tuple(options.header)
        self._rows = _row_splitter(options) if encode is None else None
        is_completed = encode is not None or options.header or options.key is not None or options.null is not None
        self._complete = _completion(options, encode) if is_completed or options.partition is not None else None
        self._is_transactional = is_transactional
        self._number = self._sent = 0
        self._unit = "record" if options.format is not None else "line"
        self._sender = RecordSender(
            producer,
            options.topic,
            is_verbose=options.verbose,
            as_json=options.json,
            shows_progress=not source.is_terminal and not (options.verbose and sys.stdout.isatty()),
        )

    def execute(self) -> int:
        """Send all records and close the producer. Return the exit code."""
        stopped: KafkaError | None = None
        try:
            if self._is_transactional:
                self._producer.begin_transaction()
            self._send_all()
            self._sender.finish()
        except Stopped as error:
            stopped = error.error
        except KafkaError as error:
            stopped = error
        except BaseException:
            self._close(0)
            raise
        outcome = self._end_transaction(stopped) if self._is_transactional else stopped
        self._close(0 if outcome is not None else None)
        self._sender.abandon()
        self._sender.end_progress()
        return self._report(outcome)

    def _close(self, timeout_ms: int | None) -> None:
        with suppress(KafkaError):
            self._producer.close(timeout_ms)

    def _end_transaction(self, stopped: KafkaError | None) -> KafkaError | None:
        """Commit the transaction. Abort it if a record was not delivered, or the input was interrupted.

        Return the error or None.
        """
        if stopped is None and not self._sender.failures.count and not self._interruption.stop.is_set():
            try:
                self._producer.commit_transaction()
            except KafkaError as error:
                stopped = error
            else:
                return None
        try:
            self._producer.abort_transaction()
        except KafkaError as error:
            return stopped or error
        return stopped

    def _send_all(self) -> None:
        """Read and send records until the end of the input, -n, a signal, or input that cannot be read further."""
        splitter, interpret = _form(self._options)
        try:
            for data in self._source.chunks(self._sender.collect):
                if self._rows is not None:
                    is_over = self._send_rows(self._rows, data, interpret)
                else:
                    is_over = self._send(splitter.split(data) if data else splitter.finish(), interpret)
                if is_over:
                    return
                self._sender.collect()
        except BadInput as error:
            self._sender.failures.add(self._number + 1, f"{error} What follows was not read.")

    def _send_rows(self, splitter: RowSplitter, data: bytes, interpret: Interpret) -> bool:
        """Send the records among the lines of a chunk together. Return whether the run must end.

        Raises `BadInput`, and `Stopped`.
        """
        if not data:
            return self._send(splitter.finish(), interpret)
        rows, stop, _ = splitter.split(data)
        if self._options.count is not None:
            stop = min(stop, self._options.count - self._sent)
        self._sender.send_rows(self._number + 1, rows, stop, InputRecord(None, None, self._headers, self._options.partition))
        self._number += stop
        self._sent += stop
        return self._sent == self._options.count or self._send(splitter.others(), interpret)

    def _send(self, pieces: Iterable[Any], interpret: Interpret) -> bool:
        """Send the records of some pieces. Return whether the run must end. Raises `BadInput`, and `Stopped`."""
        for piece in pieces:
            if self._interruption.stop.is_set() and (self._is_transactional or self._options.rate):
                return True
            self._number += 1
            try:
                record = interpret(piece)
                if record is None:
                    continue
                if self._complete is not None:
                    record = self._complete(record)
            except BadInput as error:
                self._sender.failures.add(self._number, str(error))
                continue
            self._wait_for_turn()
            self._sender.send(self._number, record)
            self._sent += 1
            if self._sent == self._options.count:
                return True
        return False

    def _wait_for_turn(self) -> None:
        if self._options.rate:
            self._interruption.sleep(self._sent / self._options.rate - self._sender.seconds)
            self._sender.collect()

    def _report(self, stopped: KafkaError | None) -> int:
        """Print the outcome. Return the exit code."""
        options, sender = self._options, self._sender
        lost = sender.failures
        for line in as_lines(lost.rows()) if options.json else lost.sentences(self._unit):
            print(line, file=sys.stderr)
        is_aborted = self._is_transactional and (stopped is not None or lost.count or self._interruption.stop.is_set())
        written = 0 if is_aborted else sender.delivered
        if options.json and not options.verbose:
            row = {"topic": options.topic, "records": written, "bytes": sender.bytes, "seconds": round(sender.seconds, 3)}
            print(*as_lines([row]), flush=True)
        if self._interruption.stop.is_set():
            end = (
                "the transaction is aborted: nothing was written"
                if is_aborted
                else f"{plural(written, 'record')} {'was' if written == 1 else 'were'} written"
            )
            return fail(f"Interrupted: {end}.", self._interruption.exit_code)
        if is_aborted:
            why = str(stopped) if stopped is not None else f"{plural(lost.count, self._unit)} cannot be sent."
            return fail(f"Nothing was written, the transaction is aborted: {why}")
        if lost.count or stopped is not None:
            total = written + lost.count
            end = "" if stopped is None else f" Nothing was sent after {self._unit} {total}: {stopped}"
            return fail(f"Delivered {written} of {plural(total, self._unit)}; the others are listed above.{end}")
        if sender.output_error is not None and (code := unwritten(sender.output_error)):
            return code
        if not options.json and sys.stderr.isatty():
            print(f"{plural(written, 'record')} ({size(sender.bytes)}) in {sender.seconds:.1f} s", file=sys.stderr)
        return 0


def _completion(options: argparse.Namespace, encode: Callable[[bytes], bytes] | None) -> Callable[[InputRecord], InputRecord]:
    """Return the function that completes records by the options."""
    key = _common_key(options)
    return completed(key=key, headers=tuple(options.header), partition=options.partition, null=options.null, encode=encode)


def _row_splitter(options: argparse.Namespace) -> RowSplitter | None:
    """Return the splitter of the input into rows, or None if records must be read, sent or reported one by one."""
    is_keyed = options.key_separator is not None
    if options.format is not None or options.json_lines or options.delimiter == b"" or options.rate:
        return None
    if is_keyed and (options.key is not None or (options.verbose and options.partition is None)):
        return None  # a null key gets the one of all records, or offsets of several partitions are printed in the input's order
    common = InputRecord(None, _common_key(options), tuple(options.header))
    return RowSplitter(_delimiter(options), options.key_separator or b"", options.null, common)


def _common_key(options: argparse.Namespace) -> bytes | None:
    return None if options.key is None else options.key.encode("utf-8", "surrogateescape")


def _delimiter(options: argparse.Namespace) -> bytes:
    return b"\n" if options.delimiter is None else options.delimiter


def _form(options: argparse.Namespace) -> tuple[Splitter[Any], Interpret]:
    """Return the splitter that divides the input into pieces, and the function that makes a record of each piece."""
    if options.format is not None:
        return TemplateSplitter(options.format), lambda record: record
    splitter = LineSplitter(_delimiter(options))
    if options.json_lines:
        return splitter, json_record
    if options.key_separator is not None:
        return splitter, keyed_line(options.key_separator)
    return splitter, InputRecord
