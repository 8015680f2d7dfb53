"""The stream of records from a consumer to the output: it selects, formats and prints records, and commits their offsets."""

from __future__ import annotations

import argparse
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.cli.command.signals import Interruption
from ottla.cli.consume.positions import RecordPosition, offsets_of
from ottla.cli.consume.record_output import RecordOutput, joined
from ottla.cli.consume.renderers import RecordRun, Rendering, runs_of
from ottla.errors import KafkaError

if TYPE_CHECKING:
    from ottla.client.consumer.fetched_columns import FetchedColumns
    from ottla.client.types import TopicPartition
    from ottla.net.client.consumer.consumer import Consumer
    from ottla.records.batches.columns import Columns
    from ottla.records.batches.lines import LineFormat
    from ottla.records.batches.record import ConsumerRecord

IDLE_MS = 200
"""The longest wait for records, in ms. After it, the end, the reader of the output and signals are checked."""
WITHOUT_PARTITIONS_S = 3.0
"""The time, in s, after which a member to which its group has assigned no partitions has reached the end: others read them."""
CHECK_AFTER_S = 2.0
"""The time without records after which the brokers are asked for an offset, which raises an error if none of them answers."""

Selection = Callable[["ConsumerRecord"], bool]


class StreamEnds:
    """The offsets at which the stream ends, by option --until. A partition that has reached its end offset is paused."""

    def __init__(self, consumer: Consumer, until: RecordPosition | None, assignments: Sequence[float]) -> None:
        """Prepare to find ends. `assignments` has the time of each assignment by the group so far, in s."""
        self._consumer, self._until, self._assignments = consumer, until, assignments
        self._ends: dict[TopicPartition, int] = {}
        self._finished: set[TopicPartition] = set()
        self._unprinted: int | None = None
        """The offset of the first record that `cut` has left out last."""

    def update(self) -> None:
        """Find the end offsets of partitions that are new to this consumer. Raises `KafkaError`."""
        if self._until is not None:
            self._ends |= offsets_of(self._until, self._consumer, self._consumer.assignment() - self._ends.keys())
            for where in self._consumer.assignment() - self._finished:
                if self._consumer.position(where) >= self._ends[where]:
                    self._finish(where)

    def cut(self, found: FetchedColumns) -> list[Columns]:
        """Return the columns of fetched records, without records after the end of their partition."""
        self._unprinted = None
        if self._until is None:
            return found.columns
        if found.where not in self._ends:
            self.update()
        end = self._ends.get(found.where, found.next_offset)
        kept = []
        for columns in found.columns:
            count = bisect_left(columns.offsets, end)
            if count < len(columns) and self._unprinted is None:
                self._unprinted = columns.offsets[count]
            if count:
                kept.append(columns.slice(0, count))
        return kept

    def note(self, found: FetchedColumns) -> None:
        """Record that the records returned by `cut` were printed. Of other records of the partition, nothing is recorded."""
        if found.where in self._ends and found.next_offset >= self._ends[found.where]:
            self._finish(found.where, self._unprinted)

    def _finish(self, where: TopicPartition, unprinted: int | None = None) -> None:
        self._finished.add(where)
        with suppress(KafkaError):  # it was revoked meanwhile
            if unprinted is not None:
                self._consumer.seek(where, unprinted)
            self._consumer.pause(where)

    @property
    def reached(self) -> bool:
        """Return whether all partitions of this consumer have ended. A member without partitions waits for some for a moment."""
        if self._until is None:
            return False
        if assigned := self._consumer.assignment():
            return self._finished >= assigned
        return bool(self._assignments) and time.monotonic() - self._assignments[-1] > WITHOUT_PARTITIONS_S


class RecordStream:
    """A printer of a consumer's records. A limit, the ends of partitions, a signal or a closed output ends it."""

    def __init__(
        self,
        consumer: Consumer,
        options: argparse.Namespace,
        selections: list[Selection],
        rendering: Rendering,
        interruption: Interruption,
        assignments: Sequence[float],
    ) -> None:
        self._consumer, self._rendering, self._selections = consumer, rendering, selections
        self._interruption = interruption
        self._output = RecordOutput(interruption.stop, is_committed=options.group is not None)
        self._ends = StreamEnds(consumer, options.until, assignments)
        self._group, self._limit = options.group, options.number
        self._by_batch = rendering.needs_batches or options.print_control
        self._last: dict[tuple[str, bytes | None], bytes] | None = {} if options.group_by_key else None
        self._printed = 0
        self._is_over = self._limit == 0
        self._error: Exception | None = None

    def run(self) -> int:
        """Print records; return the exit code. Raises `KafkaError`, and `OSError` if the output cannot be written."""
        with self._interruption:
            self._interruption.attempt(self._ends.update)
            checked = time.monotonic()
            while not (self._is_over or self._ends.reached or self._interruption.stop.is_set()):
                found = self._next()
                if found is not None:
                    self._print(found)
                    checked = time.monotonic()
                elif time.monotonic() - checked > CHECK_AFTER_S:
                    self._interruption.attempt(self._check_brokers)
                    checked = time.monotonic()
            return self._end()

    def _next(self) -> FetchedColumns | None:
        """Return records, or None if none arrive for a moment."""
        # A signal must not end this wait: records that have arrived would count as printed.
        found = next(self._consumer.columns(IDLE_MS), None)
        if found is None:
            if self._output.is_closed:
                self._is_over, self._error = True, BrokenPipeError(32, "the reader has closed the pipe")
            self._interruption.attempt(self._ends.update)
        return found

    def _check_brokers(self) -> None:
        """Raise `KafkaError` if no broker answers."""
        topics = sorted(self._consumer.subscription())
        some = self._consumer.assignment() or (self._consumer.partitions_for(topics[0]) if topics else ())
        if some:
            self._consumer.end_offsets([min(some)])

    def _print(self, found: FetchedColumns) -> None:
        lines = self._line_format(found.where)
        for columns in self._ends.cut(found):
            if lines is not None:
                self._print_columns(found.where, columns, lines)
                if self._is_over:
                    return
                continue
            for run in runs_of(found, columns, by_batch=self._by_batch):
                self._print_run(found.where, run)
                if self._is_over:
                    return
        self._ends.note(found)

    def _line_format(self, where: TopicPartition) -> LineFormat | None:
        """Return the format of lines that need no object for a record, or None."""
        is_plain = not (self._selections or self._by_batch or self._last is not None)
        return self._rendering.line_format(where) if is_plain else None

    def _print_columns(self, where: TopicPartition, columns: Columns, lines: LineFormat) -> None:
        if self._limit is not None:
            columns = columns.slice(0, self._limit - self._printed)
        printed = 0
        for block in lines.blocks(columns):
            count, self._error = self._output.write_records(block, where, columns.offsets[printed:])
            printed += count
            if count < block.line_count:
                break
        self._printed += printed
        if printed < len(columns):
            self._stop_at(where, columns.offsets[printed])
        elif self._printed == self._limit and printed:
            self._stop_at(where, columns.offsets[-1] + 1)

    def _print_run(self, where: TopicPartition, run: RecordRun) -> None:
        records = run.records
        for selected in self._selections:
            records = [record for record in records if selected(record)]
        if self._limit is not None:
            records = records[: self._limit - self._printed]
        lines, undecodable = self._render(RecordRun(records, run.batch))
        if self._last is not None:
            count, error = self._keep_last(records, lines), None
        else:
            offsets = [record.offset for record in records]
            count, error = self._output.write_records(joined(lines, self._rendering.end), where, offsets)
        self._error = error or undecodable
        self._printed += count
        if count < len(records):
            self._stop_at(where, records[count].offset)
        elif self._printed == self._limit and records:
            self._stop_at(where, records[-1].offset + 1)

    def _render(self, run: RecordRun) -> tuple[list[bytes], KafkaError | None]:
        """Return the lines of records before the first one that cannot be decoded, and the error about it."""
        try:
            return self._rendering.lines(run, self._printed + 1), None
        except (KafkaError, RecursionError):
            lines: list[bytes] = []
        for record in run.records:
            try:
                lines += self._rendering.lines(RecordRun([record], run.batch), self._printed + 1 + len(lines))
            except KafkaError as error:
                return lines, error
            except RecursionError:
                place = f"{record.topic}-{record.partition} at offset {record.offset}"
                return lines, KafkaError(f"The record of {place} is nested too deeply: --value-format text prints it as it is.")
        return lines, None

    def _keep_last(self, records: list[ConsumerRecord], lines: list[bytes]) -> int:
        """Keep the last line of each key, in the order of the last records. A null value removes the key. Return how many lines."""
        assert self._last is not None, "it is called with --group-by-key"
        for record, line in zip(records, lines, strict=False):
            self._last.pop((record.topic, record.key), None)
            if record.value is not None:
                self._last[record.topic, record.key] = line
        return len(lines)

    def _stop_at(self, where: TopicPartition, offset: int) -> None:
        """End the stream. The records of a partition from `offset` on do not count as printed."""
        self._is_over = True
        with suppress(KafkaError):  # the partition was revoked meanwhile
            self._consumer.seek(where, offset)

    def _seek_unread(self) -> bool:
        """Seek to the first records that the reader of a closed pipe has not read. Return whether there are some."""
        unread = self._output.unread()
        for where, offset in unread.items():
            if where in self._consumer.assignment() and offset < self._consumer.position(where):
                self._consumer.seek(where, offset)
        return bool(unread)

    def _end(self) -> int:
        is_printed = self._last is None
        if self._last is not None and self._error is None and not self._interruption.stop.is_set():
            count, self._error = self._output.write(joined(list(self._last.values()), self._rendering.end))
            is_printed = count == len(self._last)
        if self._group is not None and is_printed and self._consumer.assignment():
            self._seek_unread()
            self._consumer.commit()
            if self._seek_unread():  # Ctrl-C ends the reader of the pipe too, perhaps a moment later
                self._consumer.commit()
        if self._error is not None:
            raise self._error
        return self._interruption.exit_code
