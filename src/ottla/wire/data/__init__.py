"""Values that are stored in the log or nested in other messages: one module for each group of related values.

The key of a stored record begins with its type, the value with its version; both are two bytes. Members of a classic group also put
a version of two bytes before their subscriptions and assignments. `encode_key` and `encode_value` add the two bytes; `decode_key`
and `decode_value` read them.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Final, TypeVar

from ottla.wire.codec.messages import Buffer, decode, encode
from ottla.wire.faults import Malformed
from ottla.wire.inspection.walk import end_of
from ottla.wire.schema import Message

M = TypeVar("M", bound=Message)
_INT16: Final = Struct(">h")


def encode_key(key: Message) -> bytes:
    """Return the bytes of a record's key: its type, then its fields. Raises `Unencodable`."""
    return _INT16.pack(key.WIRE.key) + encode(key, 0)


def encode_value(value: Message, version: int) -> bytes:
    """Return the bytes of a record's value or a nested value: its version, then its fields. Raises `Unencodable`."""
    return _INT16.pack(version) + encode(value, version)


def peek(buf: Buffer) -> int:
    """Return the first two bytes: the type of a key, the version of a value. Raises `Malformed`."""
    try:
        return int(_INT16.unpack_from(buf)[0])
    except StructError as e:
        raise Malformed("record", 0, "", 0, "ends before the two bytes of its type or version") from e


def decode_key(cls: type[M], buf: Buffer) -> M:
    """Decode a record's key whose type was read with `peek`. Raises `Malformed`."""
    return decode(cls, 0, buf, 2)


def decode_value(cls: type[M], buf: Buffer) -> tuple[int, M]:
    """Decode a stored or nested value; return its version and the value. Raises `Malformed`, also for an unknown version."""
    version = peek(buf)
    if version not in cls.WIRE.valid:
        raise Malformed(cls.__name__, version, "", 0, "unknown version")
    return version, decode(cls, version, buf, 2)


def decode_from_member(cls: type[M], buf: Buffer) -> tuple[int, M]:
    """Decode a value that a member of a group wrote, perhaps with a newer client; return its version and the value.

    As in Kafka's clients, an unknown newer version is read as the newest known version, and further bytes are ignored. Raises
    `Malformed`.
    """
    version = min(peek(buf), cls.WIRE.valid.stop - 1)
    if version < 0:
        raise Malformed(cls.__name__, version, "", 0, "unknown version")
    end = end_of(cls, version, buf, 2)
    return version, decode(cls, version, memoryview(buf)[:end], 2)
