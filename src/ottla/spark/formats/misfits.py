"""The treatment of malformed records: an error, or a dead letter for each, and a log line with their number.

A dead letter has the record's key and value unchanged. Its headers say where the record comes from, and what is wrong. Their names
are those of Kafka Connect.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

import pyarrow as pa

from ottla.spark.errors import MalformedRecord
from ottla.spark.formats.choice import FAIL, Formats

logger = logging.getLogger("ottla.spark")

HELD_BYTES = 1024 * 1024
HEADER = "__connect.errors."
Put = Callable[[pa.RecordBatch], object]
"""Writes rows with key, value and headers, and waits until brokers have acknowledged them."""
LETTER = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Misfits:
    """The malformed records of one task. `put` writes dead letters; None means that there are none."""

    def __init__(self, formats: Formats, where: str, put: Put | None) -> None:
        self._formats = formats
        self._where = where
        self._put = put
        self._first = ""
        self._count = 0
        self._held: list[pa.RecordBatch] = []
        self._seen = 0

    def meet(self, opened: pa.RecordBatch, wrong: Mapping[int, str]) -> None:
        """Collect the malformed rows of `opened`. `wrong` has the reasons by row. Raises `MalformedRecord` in mode FAILFAST."""
        self._seen += opened.num_rows
        if not wrong:
            return
        first = min(wrong)
        told = f"{self._where} at offset {opened.column('offset')[first].as_py()}: {wrong[first]}"
        if self._formats.mode == FAIL:
            ways = "set mode to PERMISSIVE or DROPMALFORMED, or name a deadLetterTopic"
            raise MalformedRecord(f"{told}. Correct the schema, or {ways}.")
        self._first = self._first or told
        self._count += len(wrong)
        if self._put is not None:
            self._held.append(self._letters(opened, wrong))
            if sum(each.nbytes for each in self._held) >= HELD_BYTES:
                self._write()

    def _letters(self, opened: pa.RecordBatch, wrong: Mapping[int, str]) -> pa.RecordBatch:
        rows = opened.take(pa.array(sorted(wrong)))
        topic, _, partition = self._where.rpartition("-")
        offsets = rows.column("offset").to_pylist()
        headers = [
            _headers(topic=topic, partition=partition, offset=offset, exception_message=wrong[row])
            for row, offset in zip(sorted(wrong), offsets, strict=True)
        ]
        columns = {"key": rows.column("key"), "value": rows.column("value"), "headers": pa.array(headers, LETTER)}
        return pa.RecordBatch.from_pydict(columns)

    def _write(self) -> None:
        held, self._held = self._held, []
        if held and self._put is not None:
            self._put(pa.Table.from_batches(held).combine_chunks().to_batches()[0])

    def finish(self) -> None:
        """Write the remaining dead letters, and log the number of malformed records."""
        self._write()
        if self._count:
            fate = f"went to {self._formats.dead_letter_topic}" if self._put else f"were met in mode {self._formats.mode}"
            logger.warning(
                "%d of %d records of %s do not fit and %s; the first is %s", self._count, self._seen, self._where, fate, self._first
            )


def _headers(**told: object) -> list[dict[str, object]]:
    return [
        {"key": HEADER + name.replace("_", "."), "value": str(value).encode(errors="backslashreplace")}
        for name, value in told.items()
    ]
