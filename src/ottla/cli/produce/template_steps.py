"""The steps of an input template. Each reads its part of the input at a position, and returns the position behind it. Pure."""

from __future__ import annotations

import base64
import binascii
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, Protocol

from ottla.cli.produce.records import LONGEST_RECORD, BadInput, InputRecord

SHOWN = 20
"""The number of bytes of the input that a message shows."""
MOST_HEADERS = 100_000

Order = Literal["big", "little"]


class Incomplete(Exception):
    """The input ends within a record; more of it can come."""


@dataclass(slots=True)
class ReadFields:
    """The fields of one record that were parsed so far. `sizes` has the sizes of fields that come later in the input."""

    value: bytes | None = None
    key: bytes | None = None
    topic: bytes | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)
    count: int = 0
    sizes: dict[str, int] = field(default_factory=dict)

    def record(self) -> InputRecord:
        topic = None if self.topic is None else _text(self.topic, "the topic")
        return InputRecord(self.value, self.key, tuple(self.headers), self.partition, self.timestamp_ms, topic)


class InputStep(Protocol):
    """One part of an input template, such as a literal text or a field."""

    def read(self, data: bytes, at: int, found: ReadFields, is_end: bool) -> int:
        """Parse the bytes of `data` at position `at`, store the field in `found`, and return the position after the field.

        Raises `Incomplete` if more input is needed and `is_end` is False, and `BadInput`.
        """


class TextFormat(Protocol):
    """An encoding of text. `needs_end` says that only the text that follows in the template, or a size, ends it."""

    needs_end: bool

    def encoded_size(self, size: int) -> int: ...
    def decoded(self, raw: bytes) -> bytes: ...
    def end(self, data: bytes, at: int, is_end: bool) -> int: ...


NumberFormat = Callable[[bytes, int, bool], tuple[int, int]]
"""Reads a number: from data, position and whether the input has ended, to the number and the position behind it."""


@dataclass(frozen=True, slots=True)
class LiteralStep:
    """A literal text of the template, which the input must contain. The last literal can be missing at the end of the input."""

    text: bytes
    is_last: bool = False

    def read(self, data: bytes, at: int, found: ReadFields, is_end: bool) -> int:
        if is_end and self.is_last and at == len(data):
            return at
        if data.startswith(self.text, at):
            return at + len(self.text)
        if not is_end and len(data) - at < len(self.text) and self.text.startswith(data[at:]):
            raise Incomplete
        raise BadInput(f"{shown(self.text)} is expected, and there is {_shown_at(data, at)}.")


@dataclass(frozen=True, slots=True)
class SizeStep:
    """The size in bytes of a field that comes later in the input."""

    name: str
    format: NumberFormat

    def read(self, data: bytes, at: int, found: ReadFields, is_end: bool) -> int:
        size, at = self.format(data, at, is_end)
        if not -1 <= size <= LONGEST_RECORD:
            raise BadInput(f"the size of the {self.name} is {size}: at most {LONGEST_RECORD} bytes are possible, -1 is null.")
        found.sizes[self.name] = size
        return at


@dataclass(frozen=True, slots=True)
class NumberStep:
    """A number for a field of the record, or a number that is ignored."""

    name: str
    format: NumberFormat

    def read(self, data: bytes, at: int, found: ReadFields, is_end: bool) -> int:
        number, at = self.format(data, at, is_end)
        if self.name == "timestamp_ms" and number < 0:
            return at  # -1 is no timestamp
        if self.name:
            setattr(found, self.name, number)
        return at


@dataclass(frozen=True)
class DelimitedStep(ABC):
    """A step that reads up to the text that follows in the template, `end`, or up to the end of the input without one."""

    name: str
    end: bytes | None = field(default=None, kw_only=True)

    @property
    def needs_end(self) -> bool:
        return True

    def find_end(self, data: bytes, at: int, is_end: bool, *, within: int = 0) -> int:
        """Return the position of the text that ends this field. The field itself has that text `within` times."""
        if self.end is not None:
            end = data.find(self.end, at)
            for _ in range(within):
                end = data.find(self.end, end + len(self.end)) if end >= 0 else end
            if end >= 0:
                return end
        if not is_end:
            raise Incomplete
        return len(data)

    @abstractmethod
    def read(self, data: bytes, at: int, found: ReadFields, is_end: bool) -> int:
        """Read the field at `at` into `found`, and return the position after it. Raises `Incomplete`."""


@dataclass(frozen=True)
class TextStep(DelimitedStep):
    """A key, a value or a topic in the input."""

    format: TextFormat
    is_sized: bool = False

    @property
    def needs_end(self) -> bool:
        return self.format.needs_end and not self.is_sized

    def read(self, data: bytes, at: int, found: ReadFields, is_end: bool) -> int:
        if self.is_sized:
            size = found.sizes[self.name]
            if size < 0:
                setattr(found, self.name, None)
                return at
            end = at + self.format.encoded_size(size)
            if end > len(data):
                if not is_end:
                    raise Incomplete
                raise BadInput(f"the {self.name} has {size} bytes, and the input ends before.")
        else:
            end = self.find_end(data, at, is_end) if self.format.needs_end else self.format.end(data, at, is_end)
        setattr(found, self.name, self.format.decoded(data[at:end]))
        return end


@dataclass(frozen=True)
class TimeStep(DelimitedStep):
    """A timestamp as text, by a format of `strptime`. Without a zone it is in UTC."""

    name: str = field(default="timestamp_ms", init=False)
    format: str

    def read(self, data: bytes, at: int, found: ReadFields, is_end: bool) -> int:
        end = self.find_end(data, at, is_end, within=self.format.count((self.end or b"\0").decode(errors="replace")))
        text = data[at:end].decode(errors="replace")
        try:
            time = datetime.strptime(text, self.format.replace("%F", "%Y-%m-%d").replace("%T", "%H:%M:%S"))  # noqa: DTZ007  # a zone is added below
        except ValueError:
            raise BadInput(f"the timestamp {text[:SHOWN]!r} does not have the form {self.format}.") from None
        zoned = time if time.tzinfo else time.replace(tzinfo=UTC)
        found.timestamp_ms = round(zoned.timestamp() * 1000)
        return end


@dataclass(frozen=True, slots=True)
class HeadersStep:
    """Headers, each by the steps of its own template, as many as `%H` said."""

    steps: Sequence[InputStep]

    def read(self, data: bytes, at: int, found: ReadFields, is_end: bool) -> int:
        if not 0 <= found.count <= MOST_HEADERS:
            raise BadInput(f"the number of headers is {found.count}: 0 to {MOST_HEADERS} are possible.")
        for _ in range(found.count):
            header = ReadFields()
            for step in self.steps:
                at = step.read(data, at, header, is_end)
            found.headers.append((_text(header.key or b"", "the name of a header"), header.value))
        return at


@dataclass(frozen=True)
class KcatHeadersStep(DelimitedStep):
    """Headers as kcat prints them: `name=value,name=value`."""

    name: str = field(default="headers", init=False)

    def read(self, data: bytes, at: int, found: ReadFields, is_end: bool) -> int:
        end = self.find_end(data, at, is_end)
        for header in data[at:end].split(b",") if end > at else ():
            name, equals, value = header.partition(b"=")
            found.headers.append((_text(name, "the name of a header"), value if equals else None))
        return end


class TemplateSplitter:
    """A splitter of the input by an input template."""

    def __init__(self, steps: Sequence[InputStep]) -> None:
        self._steps = steps
        self._rest = b""

    def split(self, data: bytes) -> Iterator[InputRecord]:
        return self._records(self._rest + data, is_end=False)

    def finish(self) -> Iterator[InputRecord]:
        return self._records(self._rest, is_end=True)

    def _records(self, data: bytes, *, is_end: bool) -> Iterator[InputRecord]:
        at = 0
        try:
            while at < len(data):
                found, end = ReadFields(), at
                for step in self._steps:
                    end = step.read(data, end, found, is_end)
                if end == at:
                    raise BadInput("the template matches nothing: it needs a text, or a size above 0.")
                at = end
                yield found.record()
        except Incomplete:
            if len(data) - at > LONGEST_RECORD:
                raise BadInput(f"it is longer than {LONGEST_RECORD} bytes: check the texts and sizes of -f.") from None
        self._rest = data[at:]


class _PlainText:
    """The text format in which bytes are taken unchanged."""

    needs_end = True

    def encoded_size(self, size: int) -> int:
        return size

    def decoded(self, raw: bytes) -> bytes:
        return raw

    def end(self, data: bytes, at: int, is_end: bool) -> int:
        return len(data)


class _HexText(_PlainText):
    """The text format with two hexadecimal digits for each byte."""

    def encoded_size(self, size: int) -> int:
        return 2 * size

    def decoded(self, raw: bytes) -> bytes:
        try:
            return binascii.unhexlify(raw)
        except ValueError:
            raise BadInput(f"{shown(raw)} is not hexadecimal.") from None


class _Base64Text(_PlainText):
    """The text format base64, with or without padding."""

    def __init__(self, *, is_padded: bool) -> None:
        self._is_padded = is_padded

    def encoded_size(self, size: int) -> int:
        return -(-size // 3) * 4 if self._is_padded else -(-size * 4 // 3)

    def decoded(self, raw: bytes) -> bytes:
        try:
            return base64.b64decode(raw if self._is_padded else raw + b"=" * (-len(raw) % 4), validate=True)
        except ValueError:
            raise BadInput(f"{shown(raw)} is not base64.") from None


class _JsonText(_PlainText):
    """The text format JSON: one JSON value, which shows its own end."""

    needs_end = False

    def decoded(self, raw: bytes) -> bytes:
        try:
            json.loads(raw)
        except (ValueError, RecursionError):
            raise BadInput(f"{shown(raw)} is not JSON.") from None
        return raw

    def end(self, data: bytes, at: int, is_end: bool) -> int:
        depth = 0
        for part in _JSON_PARTS.finditer(data, at):
            if part.end() == len(data) and not is_end and not (depth == 1 and part[0] in b"}]"):
                raise Incomplete
            if part[0] == b'"':  # the string's end is still to come
                break
            depth += {b"{": 1, b"[": 1, b"}": -1, b"]": -1}.get(part[0], 0)
            if depth <= 0:
                return part.end()
        if not is_end:
            raise Incomplete
        return len(data)


_JSON_PARTS = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]|[^\s"{}\[\],:]+|"', re.DOTALL)
"""Strings, brackets, numbers or words, and the beginning of a string that is not complete."""


class _MatchedText(_PlainText):
    """The text format of everything that a regular expression matches."""

    needs_end = False

    def __init__(self, pattern: re.Pattern[bytes]) -> None:
        self._pattern = pattern

    def end(self, data: bytes, at: int, is_end: bool) -> int:
        found = self._pattern.match(data, at)
        if not is_end and (found is None or found.end() == len(data)):
            raise Incomplete
        if found is None:
            raise BadInput(f"{self._pattern.pattern.decode(errors='replace')!r} does not match {_shown_at(data, at)}.")
        return found.end()


ENCODINGS: dict[str, TextFormat] = {
    "": _PlainText(),
    "hex": _HexText(),
    "base64": _Base64Text(is_padded=True),
    "base64raw": _Base64Text(is_padded=False),
    "json": _JsonText(),
}
"""The formats of text by their names in braces."""


def matching(pattern: re.Pattern[bytes]) -> TextFormat:
    """Return the format of text that a regular expression matches."""
    return _MatchedText(pattern)


def constant(number: int) -> NumberFormat:
    """Return the format of a number that is not in the input."""
    return lambda data, at, is_end: (number, at)


def number_format(name: str) -> NumberFormat:
    """Return the format of a number by its name in braces. Raises `KeyError`."""
    if name in ("ascii", "number"):
        return _decimal
    if name == "byte":
        name = "big8"
    found = re.fullmatch(r"(big|little)(8|16|32|64)|hex(4|8|16|32|64)", name)
    if found is None:
        raise KeyError(name)
    if found[3]:
        return _hex_digits(int(found[3]) // 4)
    return _binary("big" if found[1] == "big" else "little", int(found[2]) // 8)


_DIGITS = re.compile(rb"-?\d+")


def _decimal(data: bytes, at: int, is_end: bool) -> tuple[int, int]:
    found = _DIGITS.match(data, at, at + SHOWN)
    if not is_end and (len(data) == at or data[at : at + 2] == b"-" or (found and found.end() == len(data))):
        raise Incomplete
    if found is None:
        raise BadInput(f"a number is expected, and there is {_shown_at(data, at)}.")
    return int(found[0]), found.end()


def _hex_digits(count: int) -> NumberFormat:
    def read(data: bytes, at: int, is_end: bool) -> tuple[int, int]:
        raw = _exactly(data, at, count, is_end)
        try:
            return int(raw, 16), at + count
        except ValueError:
            raise BadInput(f"{shown(raw)} is not a hexadecimal number of {count} digits.") from None

    return read


def _binary(order: Order, count: int) -> NumberFormat:
    def read(data: bytes, at: int, is_end: bool) -> tuple[int, int]:
        # Sizes of 4 or 8 bytes are signed, as kcat prints them: -1 is null. Smaller ones have no room for a sign.
        return int.from_bytes(_exactly(data, at, count, is_end), order, signed=count >= 4), at + count

    return read


def _exactly(data: bytes, at: int, count: int, is_end: bool) -> bytes:
    raw = data[at : at + count]
    if len(raw) < count:
        if not is_end:
            raise Incomplete
        raise BadInput(f"a number of {count} bytes is expected, and the input ends after {len(raw)}.")
    return raw


def _text(raw: bytes, name: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise BadInput(f"{name} is not UTF-8: {shown(raw)}.") from None


def shown(raw: bytes) -> str:
    """Return the beginning of some bytes for a message."""
    return repr(raw[:SHOWN].decode(errors="backslashreplace")) + ("…" if len(raw) > SHOWN else "")


def _shown_at(data: bytes, at: int) -> str:
    return shown(data[at : at + SHOWN + 1]) if at < len(data) else "nothing more"
