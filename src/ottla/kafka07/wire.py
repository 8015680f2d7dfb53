"""The messages of Kafka 0.7, which has no versions, client ids or correlation ids; responses come in the order of requests.

A request is its type (int16) and a body, a response an error code and a body. Callers handle the int32 size before both. Messages
are plain classes with their fields in the order of the wire. Message sets are opened in `kafka07.records`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from struct import Struct
from struct import error as StructError
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from ottla.wire.faults import NO_VERSION, Malformed, Unencodable
from ottla.wire.inspection.walk import Leaf

i16: TypeAlias = int
i32: TypeAlias = int
i64: TypeAlias = int
Messages: TypeAlias = bytes | memoryview
"""The bytes of a message set, which follow its size (int32) on the wire. A decoded one is a view of the input."""
Rest: TypeAlias = bytes | memoryview
"""The bytes of a message set without a size on the wire: it extends to the end of the frame."""
Buffer: TypeAlias = bytes | bytearray | memoryview
R = TypeVar("R")

UNKNOWN, NONE, OFFSET_OUT_OF_RANGE, INVALID_MESSAGE, WRONG_PARTITION, INVALID_FETCH_SIZE = range(-1, 5)
ERRORS: Final = {
    UNKNOWN: "Something failed on the broker, or the topic's name is not allowed.",
    NONE: "There is no error.",
    OFFSET_OUT_OF_RANGE: "The offset is before the first or after the last byte of the log.",
    INVALID_MESSAGE: "A message has a wrong checksum. Clients raise it; no broker of 0.7 sends it.",
    WRONG_PARTITION: "The partition is not between 0 and the number of the topic's partitions.",
    INVALID_FETCH_SIZE: "Not one message fits into what was asked for. Clients raise it; no broker of 0.7 sends it.",
}
"""Code -> its meaning. The codes are 0.7's own: later releases have others."""


@dataclass(frozen=True, slots=True)
class ProduceRequest07:
    """A request to append messages to a partition. With partition -1 the broker chooses one.

    There is no response: a fault closes the connection.
    """

    topic: str
    partition: i32
    messages: Messages


@dataclass(frozen=True, slots=True)
class FetchRequest07:
    """A request to read at most `max_bytes` from `offset`, a position in bytes.

    The broker answers at once, even if it has no messages.
    """

    topic: str
    partition: i32
    offset: i64
    max_bytes: i32


@dataclass(frozen=True, slots=True)
class MultiFetchRequest07:
    """Several fetches in one request, answered by one response."""

    fetches: list[FetchRequest07]


@dataclass(frozen=True, slots=True)
class MultiProduceRequest07:
    """Several produce requests in one, executed in order up to the first that fails."""

    produces: list[ProduceRequest07]


@dataclass(frozen=True, slots=True)
class OffsetsRequest07:
    """A request for the base offsets of segments last written at `time` or earlier: at most `max_offsets`, the newest first.

    `time` is in milliseconds since 1970, -1 for the end of the log, or -2 for its beginning.
    """

    topic: str
    partition: i32
    time: i64
    max_offsets: i32


@dataclass(frozen=True, slots=True)
class FetchResponse07:
    """Bytes of the log. The last message can be cut anywhere, even within its size."""

    error_code: i16
    messages: Rest


@dataclass(frozen=True, slots=True)
class MultiFetchResponse07:
    """A whole fetch response, with its size, for each fetch in the order of the request; the error code is always 0."""

    error_code: i16
    responses: list[FetchResponse07]


@dataclass(frozen=True, slots=True)
class OffsetsResponse07:
    """Offsets, the newest first. For an unknown topic they are [0] if the time is -1 or -2, and empty for a timestamp."""

    error_code: i16
    offsets: list[i64]


Request: TypeAlias = ProduceRequest07 | FetchRequest07 | MultiFetchRequest07 | MultiProduceRequest07 | OffsetsRequest07
Response: TypeAlias = FetchResponse07 | MultiFetchResponse07 | OffsetsResponse07

REQUESTS: Final[tuple[type[Request], ...]] = (
    ProduceRequest07,
    FetchRequest07,
    MultiFetchRequest07,
    MultiProduceRequest07,
    OffsetsRequest07,
)
"""The request classes. The index of a class is its type, the first field of a request."""
RESPONSES: Final[dict[type[Request], type[Response]]] = {
    FetchRequest07: FetchResponse07,
    MultiFetchRequest07: MultiFetchResponse07,
    OffsetsRequest07: OffsetsResponse07,
}
"""Request class -> response class; the produce requests have no response."""

_NUMBERS: Final = {"i16": Struct(">h"), "i32": Struct(">i"), "i64": Struct(">q")}
_SIZE, _TYPE, _COUNT, _LENGTH = Struct(">i"), Struct(">h"), Struct(">h"), Struct(">h")
_LEAST_BYTES: Final = {FetchRequest07: 18, ProduceRequest07: 10, FetchResponse07: 6}
"""The fewest bytes of an item in a list, including its size. They bound the number of items that a frame can contain."""


def decode_request(frame: Buffer) -> Request:
    """Return the request in a frame, which begins with its type. Bytes after the last field are ignored. Raises `Malformed`."""
    reader = _Reader(frame, "a request")
    return reader.struct(reader.kind(), "")


def kind_of(frame: Buffer) -> type[Request]:
    """Return the class of the request in a frame. Raises `Malformed` for an unknown type."""
    return _Reader(frame, "a request").kind()


def named_in(frame: Buffer) -> Iterator[FetchRequest07] | Iterator[ProduceRequest07]:
    """Yield the requests in a `MultiFetchRequest07` or `MultiProduceRequest07`, each decoded on demand. Raises `Malformed`."""
    reader = _Reader(frame, "a request")
    ((name, kind),) = layout(reader.kind())
    return reader.each(kind[5:-1], name)


def decode_response(of: type[R], frame: Buffer) -> R:
    """Return the response of class `of` that fills a frame. Raises `Malformed`."""
    reader = _Reader(frame, title(of))
    response = reader.struct(of, "")
    reader.finish()
    return response


class Seen07(NamedTuple):
    """The values of a frame before its first fault, the class of the message or None, and the fault or None."""

    message: type[Request] | type[Response] | None
    leaves: list[Leaf]
    fault: Malformed | None


def seen_request(frame: Buffer) -> Seen07:
    """Read a request value by value, up to its end or its first fault."""
    reader = _Reader(frame, "a request")
    reader.leaves = []
    message: type[Request] | None = None
    try:
        message = reader.kind()
        reader.struct(message, "")
    except Malformed as fault:
        return Seen07(message, reader.leaves, fault)
    return Seen07(message, reader.leaves, None)


def seen_response(of: type[Response], frame: Buffer) -> Seen07:
    """Read a response of class `of` value by value, up to its end or its first fault."""
    reader = _Reader(frame, title(of))
    reader.leaves = []
    try:
        reader.struct(of, "")
        reader.finish()
    except Malformed as fault:
        return Seen07(of, reader.leaves, fault)
    return Seen07(of, reader.leaves, None)


def encode_request(request: Request) -> bytes:
    """Return a frame without its size. Raises `Unencodable` for a value that does not fit."""
    return _join(request, [_TYPE.pack(REQUESTS.index(type(request)))])


def encode_response(response: Response) -> bytes:
    """Return a frame without its size. Raises `Unencodable` for a value that does not fit."""
    return _join(response, [])


def title(cls: type[Any]) -> str:
    """Return the name of a message without the suffix 07, such as "FetchRequest"."""
    return cls.__name__.removesuffix("07")


def layout(cls: type[Any]) -> tuple[tuple[str, str], ...]:
    """Return (name, declared type) of each field of a message, in the order of the wire."""
    found = _LAYOUTS.get(cls)
    if found is None:
        found = _LAYOUTS[cls] = tuple((f.name, str(f.type)) for f in fields(cls))
    return found


_LAYOUTS: Final[dict[type[Any], tuple[tuple[str, str], ...]]] = {}


# ---------------------------------------------------------------------- reading


class _Reader:
    """A position in a frame. Its exceptions name the message, the field and the position."""

    def __init__(self, frame: Buffer, message: str) -> None:
        view = memoryview(frame)
        self.view = view if view.format == "B" and view.contiguous else memoryview(view.tobytes())
        self.message = message
        self.pos = 0
        self.end = len(self.view)
        self.leaves: list[Leaf] | None = None

    def fault(self, path: str, position: int, reason: str) -> Malformed:
        return Malformed(f"{self.message} of Kafka 0.7", NO_VERSION, path, position, reason)

    def kind(self) -> type[Request]:
        """Read the type at the beginning of a request, and return the request's class. Raises `Malformed`."""
        kind: int = self.field("i16", "type")
        if not 0 <= kind < len(REQUESTS):
            raise self.fault("type", 0, f"there is no request of type {kind}: 0 to {len(REQUESTS) - 1} are known")
        self.message = title(REQUESTS[kind])
        return REQUESTS[kind]

    def finish(self) -> None:
        if self.pos != self.end:
            raise self.fault("", self.pos, f"{self.end - self.pos} bytes are left over")

    def struct(self, cls: type[R], path: str) -> R:
        return cls(*(self.field(kind, f"{path}.{name}" if path else name) for name, kind in layout(cls)))

    def field(self, kind: str, path: str) -> Any:
        if kind.startswith("list["):
            return self.many(kind[5:-1], path)
        start, value = self.pos, self.leaf(kind, path)
        if self.leaves is not None:
            self.leaves.append(Leaf(path, start, self.pos, value))
        return value

    def leaf(self, kind: str, path: str) -> Any:
        if kind in _NUMBERS:
            return self.number(path, _NUMBERS[kind])
        if kind == "str":
            return self.text(path)
        size = self.number(path, _SIZE) if kind == "Messages" else self.end - self.pos
        return self.read(path, size)

    def number(self, path: str, kind: Struct) -> int:
        number: int = kind.unpack(self.read(path, kind.size))[0]
        return number

    def read(self, path: str, size: int) -> memoryview:
        if size < 0 or size > self.end - self.pos:
            raise self.fault(path, self.pos, f"{size} bytes cannot be in the {self.end - self.pos} that are left")
        self.pos += size
        return self.view[self.pos - size : self.pos]

    def text(self, path: str) -> str:
        size = self.number(path, _LENGTH)
        start = self.pos
        try:
            return str(self.read(path, size), "utf-8")
        except UnicodeDecodeError as error:
            raise self.fault(path, start + error.start, "is not UTF-8") from None

    def many(self, item: str, path: str) -> list[Any]:
        if item in _NUMBERS:
            count = self.count(path, _SIZE, _NUMBERS[item].size)
            return [self.field(item, f"{path}[{index}]") for index in range(count)]
        cls = _NAMED[item]
        return self.to_the_end(path) if cls is FetchResponse07 else list(self.each(item, path))

    def each(self, item: str, path: str) -> Iterator[Any]:
        """Iterate over the structs of a list. Their count precedes them."""
        cls = _NAMED[item]
        for index in range(self.count(path, _COUNT, _LEAST_BYTES[cls])):
            yield self.struct(cls, f"{path}[{index}]")

    def count(self, path: str, kind: Struct, least_bytes: int) -> int:
        """Return the number of items that follow, each of `least_bytes` or more. Raises `Malformed` if they cannot fit."""
        start = self.pos
        count = self.number(path, kind)
        if not 0 <= count * least_bytes <= self.end - self.pos:
            left = self.end - self.pos
            raise self.fault(path, start, f"{count} items of {least_bytes} bytes or more cannot be in the {left} that are left")
        return count

    def to_the_end(self, path: str) -> list[FetchResponse07]:
        """Read fetch responses, each with its size, up to the end of the frame."""
        found: list[FetchResponse07] = []
        whole = self.end
        while self.pos < whole:
            here = f"{path}[{len(found)}]"
            start, size = self.pos, self.number(here, _SIZE)
            if not _TYPE.size <= size <= whole - self.pos:
                raise self.fault(here, start, f"a response of {size} bytes cannot be in the {whole - self.pos} that are left")
            self.end = self.pos + size
            found.append(self.struct(FetchResponse07, here))
            self.end = whole
        return found


# ---------------------------------------------------------------------- writing


def _join(message: Request | Response, parts: list[bytes | memoryview]) -> bytes:
    _write(message, parts, title(type(message)))
    return b"".join(parts)


def _write(message: Any, parts: list[bytes | memoryview], name: str) -> None:
    for field, kind in layout(type(message)):
        try:
            _WRITE[kind](getattr(message, field), parts)
        except (StructError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, Unencodable):
                raise
            raise Unencodable(f"{name} of Kafka 0.7", NO_VERSION, field, str(error)) from error


def _write_number(kind: Struct) -> Callable[[Any, list[bytes | memoryview]], None]:
    return lambda value, parts: parts.append(kind.pack(value))


def _write_text(value: str, parts: list[bytes | memoryview]) -> None:
    data = value.encode()
    parts += (_LENGTH.pack(len(data)), data)


def _write_sized(value: Buffer, parts: list[bytes | memoryview]) -> None:
    parts += (_SIZE.pack(len(value)), memoryview(value))


def _write_structs(values: list[Any], parts: list[bytes | memoryview]) -> None:
    parts.append(_COUNT.pack(len(values)))
    for value in values:
        _write(value, parts, title(type(value)))


def _write_responses(values: list[FetchResponse07], parts: list[bytes | memoryview]) -> None:
    for value in values:
        parts.append(_SIZE.pack(_TYPE.size + len(value.messages)))
        _write(value, parts, title(type(value)))


def _write_offsets(values: list[int], parts: list[bytes | memoryview]) -> None:
    parts.append(_SIZE.pack(len(values)))
    parts += [_NUMBERS["i64"].pack(value) for value in values]


_NAMED: Final[dict[str, type[Any]]] = {cls.__name__: cls for cls in (FetchRequest07, ProduceRequest07, FetchResponse07)}
_WRITE: Final[dict[str, Callable[[Any, list[bytes | memoryview]], None]]] = {
    **{name: _write_number(kind) for name, kind in _NUMBERS.items()},
    "str": _write_text,
    "Messages": _write_sized,
    "Rest": lambda value, parts: parts.append(memoryview(value)),
    "list[FetchRequest07]": _write_structs,
    "list[ProduceRequest07]": _write_structs,
    "list[FetchResponse07]": _write_responses,
    "list[i64]": _write_offsets,
}
