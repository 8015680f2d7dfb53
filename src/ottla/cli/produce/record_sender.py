"""The sending of records in the order of the input, with a limited number in flight, and the reports about them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.cli.command.exits import name_settings, silence
from ottla.cli.command.output import as_lines, size
from ottla.cli.command.progress_line import ProgressLine
from ottla.cli.produce.line_failures import LineFailures
from ottla.cli.record_format.input_records import InputRecord
from ottla.errors import KafkaError, SettingError

if TYPE_CHECKING:
    from ottla.client.types import RecordMetadata
    from ottla.net.client.producer.delivery import Delivery
    from ottla.net.client.producer.producer import Producer
    from ottla.records.batches.rows import Rows

MOST_WAITING = 200_000
"""The number of unacknowledged records at which `send` waits for the oldest."""
ONE = range(1)


class Stopped(Exception):
    """Raised if sending must end because the broker refuses all records, or does not answer. The error is the cause."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(str(error))
        self.error = error


class RecordSender:
    """A sender of records to one topic. It stores which lines of the input were not delivered."""

    def __init__(self, producer: Producer, topic: str, *, is_verbose: bool, as_json: bool, shows_progress: bool) -> None:
        self.failures = LineFailures()
        self.delivered = self.bytes = self._queued = 0
        self.output_error: OSError | None = None
        """The error that has ended the printing of option -v."""
        self._producer = producer
        self._topic = topic
        self._is_verbose, self._as_json = is_verbose, as_json
        self._waiting: deque[tuple[int, Delivery, Sequence[int]]] = deque()
        """The number of a line, and for each batch the delivery of its first line, and the numbers of its lines after that one."""
        self._began = time.monotonic()
        self._progress_line = ProgressLine(is_wanted=shows_progress)

    def send(self, number: int, record: InputRecord) -> None:
        """Queue the record of line `number`. Raises `Stopped` if no record can be sent."""
        try:
            delivery = self._producer.send(
                record.topic or self._topic,
                record.value,
                key=record.key,
                partition=record.partition,
                headers=record.headers or None,
                timestamp_ms=record.timestamp_ms,
            )
        except KafkaError as error:
            self._note(number, error)
            return
        self.bytes += len(record.value or b"") + len(record.key or b"")
        self._queued += 1
        self._waiting.append((number, delivery, ONE))
        if len(self._waiting) > MOST_WAITING:
            self._settle()

    def send_rows(self, number: int, rows: Rows, stop: int, common: InputRecord) -> None:
        """Queue the rows up to `stop`, which come from line `number` and the lines after it. Raises `Stopped`.

        `common` has the partition and the headers that all rows share. The rows themselves contain the headers.
        """
        at = 0
        while at < stop:
            try:
                sent = self._producer.send_rows(self._topic, rows, at, stop, partition=common.partition)
            except KafkaError as error:
                self._note(number + at, error)
                at += 1
                continue
            before = at
            for delivery, numbers in sent:
                self._waiting.append((number, delivery, numbers))
                at += len(numbers)
            self.bytes += rows.data_bytes(before, at)
            self._queued += at - before
            if at < stop:  # a row that is too large
                self.send(number + at, common._replace(key=rows.key(at), value=rows.value(at)))
                at += 1

    def collect(self) -> bool:
        """Report the records that were delivered or have failed. Return whether others are in flight. Raises `Stopped`."""
        while self._waiting and self._waiting[0][1].done():
            self._settle()
        self._progress_line.show_if_due(self._progress)
        return bool(self._waiting)

    def finish(self) -> None:
        """Wait until all records are delivered or have failed, and report them. Raises `Stopped`."""
        while self._waiting:
            self._settle()
            self._progress_line.show_if_due(self._progress)

    def abandon(self) -> None:
        """Report the records that were still in flight when the producer was closed."""
        while self._waiting:
            try:
                self._settle()
            except Stopped:
                continue

    def end_progress(self) -> None:
        """Remove the line of progress."""
        self._progress_line.clear()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def _settle(self) -> None:
        """Wait until the oldest queued records are delivered or have failed, and report them."""
        number, delivery, rows = self._waiting.popleft()
        try:
            written = delivery.result()
        except KafkaError as error:
            reason = name_settings(str(error))
            for row in rows:
                self.failures.add(number + row, reason)
            self._check(error)
            return
        self.delivered += len(rows)
        if self._is_verbose:
            for index, row in enumerate(rows):
                self._print(number + row, written._replace(offset=written.offset + index if written.offset >= 0 else -1))

    def _print(self, number: int, written: RecordMetadata) -> None:
        """Print the partition and offset of a record. If standard output fails, continue without these lines."""
        line = f"{written.topic}-{written.partition}@{written.offset}"
        if self._as_json:
            row = {"line": number, "topic": written.topic, "partition": written.partition, "offset": written.offset}
            (line,) = as_lines([row])
        try:
            print(line, flush=not self._waiting)
        except OSError as error:
            self.output_error, self._is_verbose = error, False
            silence()

    def _note(self, number: int, error: KafkaError) -> None:
        """Record that a record was not delivered. Raises `Stopped` if the error also concerns all other records."""
        self.failures.add(number, name_settings(str(error)))
        self._check(error)

    def _check(self, error: KafkaError) -> None:
        if not _is_of_one_record(error):
            raise Stopped(error) from error

    def _progress(self) -> str:
        rate = self._queued / max(self.seconds, 0.001)
        return f"{self._queued:,} records, {size(self.bytes)}, {rate:,.0f} a second"


def _is_of_one_record(error: KafkaError) -> bool:
    from ottla.wire.errors import INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE

    return isinstance(error, SettingError) or error.code in (
        MESSAGE_TOO_LARGE,
        RECORD_LIST_TOO_LARGE,
        INVALID_RECORD,
        INVALID_TIMESTAMP,
    )
