"""`encode` and `decode`, which find the reader or writer of a version, and explain the fault of input that it rejects."""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias, TypeVar, cast

from ottla.wire.codec.plans import StructPlan, plan_of
from ottla.wire.codec.primitives import Stop, TooMany
from ottla.wire.faults import Malformed, Unencodable
from ottla.wire.schema import Message

try:
    from ottla.wire.codec.kernel import CompiledPlan
    from ottla.wire.codec.kernel_read import Reader
    from ottla.wire.codec.kernel_write import Writer
except ImportError:  # the kernels are not compiled
    COMPILED = False
else:
    COMPILED = True

M = TypeVar("M", bound=Message)
Buffer: TypeAlias = bytes | bytearray | memoryview
Part: TypeAlias = Any
"""Bytes, or the value of a records field (any object with `len()`)."""

MOST_ITEMS = 1 << 31
EXPLAINED_BYTES = 64 * 1024
"""The size in bytes up to which the fault of a malformed message is located, which takes a hundred times as long as reading."""

DECODING = (IndexError, struct.error, UnicodeDecodeError, Stop)
_ENCODING = (Stop, struct.error, TypeError, AttributeError, ValueError, OverflowError)


def decode(cls: type[M], version: int, buf: Buffer, position: int = 0) -> M:
    """Read a message that begins at `position` and ends at the end of `buf`.

    Records fields are memoryviews of `buf`; all other values are copied. Raises `Malformed` for bytes that do not follow the
    schema, and `ValueError` for an unknown version.
    """
    try:
        return cls.WIRE.readers[version](buf, position)  # type: ignore[no-any-return]  # readers are kept untyped
    except KeyError:
        new_codec(cls, version)  # only for the first message of this class and version
        return decode(cls, version, buf, position)
    except DECODING:
        raise _explain(cls, version, buf, position) from None


def decode_first(cls: type[M], version: int, buf: Buffer, position: int = 0, most: int = MOST_ITEMS) -> M:
    """Read a message like `decode`, but ignore bytes after its last field, and accept at most `most` items in all arrays."""
    try:
        reader = _first_reader(cls, version, COMPILED)
        made, at = reader.begin(buf, position, 0)
        reader.finish(made, buf, at, 0, most)
    except TooMany:
        raise Malformed(
            cls.__name__, version, "", position, f"has more than {most} items in its arrays: send fewer at a time"
        ) from None
    except DECODING:
        raise _explain(cls, version, buf, position) from None
    return cast("M", made)


@cache
def _first_reader(cls: type[Message], version: int, compiled: bool) -> Any:
    del compiled  # only a part of the cache key, because compiled and plain codecs have different readers
    return part_codecs(plan_of(cls, version))[0]


def part_codecs(plan: StructPlan) -> tuple[Any, Any]:
    """Return the reader and the writer for parts of a plan's structs."""
    if COMPILED:
        compiled = CompiledPlan(plan)
        return Reader(compiled), Writer(compiled)
    from ottla.wire.codec.plain_blocks import PlainReader, PlainWriter

    return PlainReader(plan), PlainWriter(plan)


def encode(msg: Message, version: int) -> bytes:
    """Return the bytes of a message. Raises `Unencodable` if a value does not fit the version."""
    parts: list[Part] = []
    write_parts(msg, version, parts, [])
    try:
        return b"".join(parts)
    except TypeError as e:
        raise _unencodable(msg, version, e) from e


def encode_parts(msg: Message, version: int) -> list[Part]:
    """Return the bytes of a message in pieces. Each records value is a separate piece, and so are the bytes between two of them."""
    parts: list[Part] = []
    cuts: list[int] = []
    write_parts(msg, version, parts, cuts)
    try:
        return join_between(parts, cuts)
    except TypeError as e:
        raise _unencodable(msg, version, e) from e


def write_parts(msg: Message, version: int, parts: list[Part], cuts: list[int]) -> None:
    """Append the pieces of a message to `parts`, and the indices of records values in `parts` to `cuts`. Raises `Unencodable`."""
    write = msg.WIRE.writers.get(version) or new_codec(type(msg), version)
    try:
        write(msg, parts, cuts)
    except _ENCODING as e:
        raise _unencodable(msg, version, e) from e


def join_between(parts: list[Part], cuts: list[int]) -> list[Part]:
    """Join all neighbouring parts, except those with an index in `cuts`."""
    out: list[Part] = []
    start = 0
    for cut in cuts:
        out += (b"".join(parts[start:cut]), parts[cut])
        start = cut + 1
    if start < len(parts):
        out.append(b"".join(parts[start:]))
    return out


def _explain(cls: type[Message], version: int, buf: Buffer, position: int) -> Malformed:
    if len(buf) - position > EXPLAINED_BYTES:
        return Malformed(cls.__name__, version, "", position, "cannot be read")
    from ottla.wire.inspection.explain import explain_malformed

    return explain_malformed(cls, version, buf, position)


def _unencodable(msg: Message, version: int, cause: Exception) -> Unencodable:
    from ottla.wire.inspection.explain import unencodable

    return unencodable(msg, version, cause)


def _check_version(cls: type[Message], version: int) -> None:
    if version not in cls.WIRE.valid:
        valid = cls.WIRE.valid
        raise ValueError(f"{cls.__name__} has no version {version}: use one of {valid.start} to {valid.stop - 1}") from None


def new_codec(cls: type[Message], version: int) -> Callable[..., None]:
    """Make the reader and the writer of a version, and return the writer. Raises `ValueError` for an unknown version."""
    _check_version(cls, version)
    plan = plan_of(cls, version)
    if COMPILED:
        compiled = CompiledPlan(plan)
        cls.WIRE.readers[version], cls.WIRE.writers[version] = Reader(compiled).read, Writer(compiled).write
    else:
        from ottla.wire.codec import plain

        cls.WIRE.readers[version], cls.WIRE.writers[version] = plain.reader(plan), plain.writer(plan)
    return cls.WIRE.writers[version]
