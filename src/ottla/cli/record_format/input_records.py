"""The records that `ottla produce` parses from its input, the splitting of input into lines, and escapes of separators. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol, TypeVar

from ottla.cli.record_format.forms import BadInput

LONGEST_RECORD = 64 * 1024 * 1024
"""The bytes of input that one record may take before it is certain that its delimiter or a size is wrong."""

Headers = tuple[tuple[str, bytes | None], ...]


class InputRecord(NamedTuple):
    """A record to send. Fields that the input does not have are None."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None
    topic: str | None = None


Piece = TypeVar("Piece", covariant=True)


class Splitter(Protocol[Piece]):
    """A parser that divides the input into pieces, one for each record. It gets the input in chunks of any size.

    An incomplete piece is kept until the next chunk. Reading the pieces raises `BadInput`.
    """

    def split(self, data: bytes) -> Iterable[Piece]:
        """Return the pieces that are complete with this chunk."""

    def finish(self) -> Iterable[Piece]:
        """Return the incomplete piece at the end of the input, if any, and get ready for another input."""


class LineSplitter:
    """A splitter of the input into lines that end with a delimiter. The last line needs no delimiter.

    With an empty delimiter, all input is one line.
    """

    def __init__(self, delimiter: bytes) -> None:
        self._delimiter = delimiter
        self._parts: list[bytes] = []
        self._length = 0

    def split(self, data: bytes) -> list[bytes]:
        delimiter = self._delimiter
        if len(delimiter) > 1 and self._parts:  # the delimiter can be divided between two chunks
            data = b"".join((*self._parts, data))
            self._parts.clear()
        lines = data.split(delimiter) if delimiter else [data]
        if len(lines) > 1:
            lines[0] = b"".join((*self._parts, lines[0]))
            self._parts, self._length = [], 0
        self._parts.append(lines.pop())
        self._length = sum(map(len, self._parts)) if len(delimiter) > 1 else self._length + len(self._parts[-1])
        if self._length > LONGEST_RECORD:
            raise BadInput(f"it is longer than {LONGEST_RECORD} bytes: set the delimiter with -D.")
        return lines

    def finish(self) -> list[bytes]:
        last = b"".join(self._parts)
        self._parts, self._length = [], 0
        return [last] if last else []


def keyed_line(separator: bytes) -> Callable[[bytes], InputRecord]:
    """Return a function that divides a line at its first separator into key and value. It raises `BadInput` without one."""

    def record(line: bytes) -> InputRecord:
        key, found, value = line.partition(separator)
        if not found:
            raise BadInput(f"it has no key separator {separator.decode(errors='backslashreplace')!r}: add one, or leave -K out.")
        return InputRecord(value, key)

    return record


def completed(
    *, key: bytes | None, headers: Headers, partition: int | None, null: bytes | None, encode: Callable[[bytes], bytes] | None
) -> Callable[[InputRecord], InputRecord]:
    """Return a function that adds to records the fields that their input lacks, and encodes values. The function raises `BadInput`.

    A key or a value that equals `null` becomes a null. Other values are encoded by `encode`.
    """

    def complete(record: InputRecord) -> InputRecord:
        own = key if record.key is None else record.key
        value = None if record.value == null else record.value
        return record._replace(
            value=value if value is None or encode is None else encode(value),
            key=None if own == null else own,
            headers=record.headers + headers,
            partition=partition if record.partition is None else record.partition,
        )

    return complete
