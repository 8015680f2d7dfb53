"""The run of `ottla consume --share`: records of a queue are printed, and acknowledged once their lines are written."""

from __future__ import annotations

import argparse
import time
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ottla.cli.command import connection
from ottla.cli.command.signals import Interruption
from ottla.cli.consume.record_output import RecordOutput, joined
from ottla.cli.consume.renderers import RecordRun, Rendering
from ottla.cli.record_format.output_template import NO_BATCH
from ottla.client.types import TopicPartition
from ottla.errors import KafkaError, SettingError

if TYPE_CHECKING:
    from ottla.client.share.acknowledgements import TypeName
    from ottla.net.client.share.share_consumer import ShareConsumer
    from ottla.records.batches.record import ConsumerRecord

IDLE_MS = 200
"""The longest wait for records, in ms. After it, the end, the reader of the output and signals are checked."""
WITHOUT_RECORDS_S = 3.0
"""The time without a record, in s, after which -e ends the command. A new member waits for its partitions at first."""
JOINING_S = 10.0
"""The time, in s, for which -e waits for the first partitions of a member."""


def check_share_options(options: argparse.Namespace) -> None:
    """Raise `SettingError` for options that do not fit a share group."""
    if options.group is None:
        raise SettingError("--share reads as a member of a share group: name it with -g.")
    excluded = {
        "-o": options.offset, "--until": options.until, "-F": options.follow, "-p": options.partitions, "-r": options.regex,
        "--isolation": options.isolation, "--filter": options.filter, "--grep": options.grep,
        "--print-control": options.print_control, "--group-by-key": options.group_by_key,
    }  # fmt: skip
    for option, value in excluded.items():
        if value:
            raise SettingError(f"The members of a share group read what the group delivers: leave out {option} or --share.")


def print_queue(options: argparse.Namespace, rendering: Rendering) -> int:
    """Print records as a member of a share group. Return the exit code. Raises `KafkaError`."""
    from ottla.client.errors import NotSupported

    if rendering.needs_batches:
        raise SettingError("The template prints fields of batches, of which a share group delivers parts: leave these fields out.")
    try:
        return _print(options, rendering, {"share_acquire_mode": "record_limit"} if options.number is not None else {})
    except NotSupported:
        if options.number is None:
            raise
        return _print(options, rendering, {})  # Kafka 4.1 has whole batches only; the rest of one is released


def _print(options: argparse.Namespace, rendering: Rendering, chosen: dict[str, Any]) -> int:
    from ottla.client.settings.clients import ShareConsumerSettings
    from ottla.net.client.share.share_consumer import ShareConsumer

    defaults = {"allow_auto_create_topics": False, **chosen}
    if options.number is not None:
        defaults["max_poll_records"] = max(1, min(options.number, 500))
    given = connection.settings(options, ShareConsumerSettings)
    decided = {"group_id": options.group, "share_acknowledgement_mode": "explicit"}
    with ShareConsumer(*options.topics, **{**defaults, **given, **decided}) as consumer:
        return ShareStream(consumer, options, rendering, Interruption()).run()


class ShareStream:
    """A printer of the records of a queue. A limit, a time without records, a signal or a closed output ends it."""

    def __init__(
        self, consumer: ShareConsumer[bytes, bytes], options: argparse.Namespace, rendering: Rendering, interruption: Interruption
    ) -> None:
        self._consumer, self._rendering, self._interruption = consumer, rendering, interruption
        self._output = RecordOutput(interruption.stop, is_committed=True)
        self._kind: TypeName = options.acknowledge or "accept"
        self._limit, self._exits = options.number, options.exit
        self._printed = 0
        self._error: Exception | None = None
        self._held: list[ConsumerRecord[bytes, bytes]] = []
        """The printed records to release at the end. Released at once, each would come again until its deliveries are used up."""
        self._renewed_s = 0.0

    def run(self) -> int:
        """Print records; return the exit code. Raises `KafkaError`, and `OSError` if the output cannot be written."""
        began = active = time.monotonic()
        with self._interruption:
            while self._limit is None or self._printed < self._limit:
                if self._interruption.stop.is_set() or self._error is not None:
                    break
                left = None if self._limit is None else self._limit - self._printed
                records = self._consumer.poll(IDLE_MS, None if left is None else max(1, left))
                if records and self._print(records):
                    active = time.monotonic()
                elif self._output.is_closed:
                    self._error = BrokenPipeError(32, "the reader has closed the pipe")
                elif self._exits and self._is_idle(began, active):
                    break
                self._renew()
            self._consumer.acknowledge(self._held, "release")
        if self._error is not None:
            raise self._error
        return self._interruption.exit_code

    def _is_idle(self, began: float, active: float) -> bool:
        now = time.monotonic()
        if not self._consumer.assignment() and now - began < JOINING_S:
            return False
        return now - active > WITHOUT_RECORDS_S

    def _print(self, records: list[ConsumerRecord[bytes, bytes]]) -> bool:
        """Print records and acknowledge them. Release those that are not printed. Return True."""
        lines, undecodable = self._render(records)
        written, error = 0, None
        for where, some in groupby(range(len(lines)), lambda number: records[number].where):
            numbers = list(some)
            block = joined([lines[number] for number in numbers], self._rendering.end)
            offsets = [records[number].offset for number in numbers]
            count, error = self._output.write_records(block, TopicPartition(*where), offsets)
            written += count
            if count < len(numbers):
                break
        self._printed += written
        self._output.wait_for_reader()
        unread = self._output.unread()
        read = [each for each in records[:written] if each.offset < unread.get(TopicPartition(*each.where), each.offset + 1)]
        self._acknowledge(records, read)
        self._error = error or undecodable
        return True

    def _render(self, records: list[ConsumerRecord[bytes, bytes]]) -> tuple[list[bytes], KafkaError | None]:
        """Return the lines of records before the first one that cannot be decoded, and the error about it."""
        try:
            return self._rendering.lines(RecordRun(records, NO_BATCH), self._printed + 1), None
        except KafkaError:
            lines: list[bytes] = []
        for record in records:
            try:
                lines += self._rendering.lines(RecordRun([record], NO_BATCH), self._printed + 1 + len(lines))
            except KafkaError as error:
                return lines, error
        return lines, None

    def _acknowledge(self, records: list[ConsumerRecord[bytes, bytes]], read: list[ConsumerRecord[bytes, bytes]]) -> None:
        printed = {(each.where, each.offset) for each in read}
        if self._kind == "release":
            self._held += read
            self._consumer.acknowledge(read, "renew")
        else:
            self._consumer.acknowledge(read, self._kind)
        self._consumer.acknowledge([each for each in records if (each.where, each.offset) not in printed], "release")
        self._consumer.commit()
        self._renewed_s = self._renewed_s or time.monotonic()

    def _renew(self) -> None:
        """Renew the locks of held records, three times as often as they end."""
        lock_ms = self._consumer.acquisition_lock_timeout_ms()
        if self._held and lock_ms is not None and time.monotonic() - self._renewed_s > lock_ms / 3000:
            self._consumer.acknowledge(self._held, "renew")
            self._renewed_s = time.monotonic()
