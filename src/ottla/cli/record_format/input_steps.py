"""The steps of an input template. Each parses its part of the input at a position, and returns the position after it. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from ottla.cli.record_format.forms import SHOWN, BadInput, Incomplete, NumberReader, TextForm, shown, shown_at
from ottla.cli.record_format.input_records import LONGEST_RECORD, InputRecord

MOST_HEADERS = 100_000


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
        raise BadInput(f"{shown(self.text)} is expected, and there is {shown_at(data, at)}.")


@dataclass(frozen=True, slots=True)
class SizeStep:
    """The size in bytes of a field that comes later in the input."""

    name: str
    format: NumberReader

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
    format: NumberReader

    def read(self, data: bytes, at: int, found: ReadFields, is_end: bool) -> int:
        number, at = self.format(data, at, is_end)
        if self.name == "timestamp_ms" and number < 0:
            return at  # -1 is no timestamp
        if self.name:
            setattr(found, self.name, number)
        return at


@dataclass(frozen=True)
class DelimitedStep(ABC):
    """A step that reads up to `end`, the text that follows in the template. If `end` is empty, it reads to the end of the input."""

    name: str
    end: bytes | None = field(default=None, kw_only=True)

    @property
    def needs_end(self) -> bool:
        return True

    def find_end(self, data: bytes, at: int, is_end: bool, *, within: int = 0) -> int:
        """Return the position of the text that ends this field. The field itself contains that text `within` times."""
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

    form: TextForm
    is_sized: bool = False

    @property
    def needs_end(self) -> bool:
        return self.form.needs_end and not self.is_sized

    def read(self, data: bytes, at: int, found: ReadFields, is_end: bool) -> int:
        if self.is_sized:
            size = found.sizes[self.name]
            if size < 0:
                setattr(found, self.name, None)
                return at
            end = at + self.form.encoded_size(size)
            if end > len(data):
                if not is_end:
                    raise Incomplete
                raise BadInput(f"the {self.name} has {size} bytes, and the input ends before.")
        else:
            end = self.find_end(data, at, is_end) if self.form.needs_end else self.form.end(data, at, is_end)
        setattr(found, self.name, self.form.decode(data[at:end]))
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
    """A step that reads headers: each by the steps of its own template, as many as the number that `%H` has read."""

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


def constant(number: int) -> NumberReader:
    """Return a number format that reads no input, and always returns `number`."""
    return lambda data, at, is_end: (number, at)


def _text(raw: bytes, name: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise BadInput(f"{name} is not UTF-8: {shown(raw)}.") from None
