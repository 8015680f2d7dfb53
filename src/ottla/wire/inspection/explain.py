"""The diagnosis of bytes that a reader rejected, and of values that a writer rejected.

The functions are slow, but they are called only after a failure, so they cost valid input no time.
"""

from __future__ import annotations

import struct
from typing import Any

from ottla.wire.codec.primitives import LONGEST_STRING, flat
from ottla.wire.faults import Malformed, Unencodable
from ottla.wire.inspection.walk import leaves
from ottla.wire.schema import END, Field, Message, Struct


def explain_malformed(cls: type[Message], version: int, buf: bytes | bytearray | memoryview, position: int) -> Malformed:
    """Return the exception for bytes that could not be read, with the position and reason of the fault."""
    try:
        leaves(cls, version, flat(buf), position)
    except Malformed as e:
        return e
    return Malformed(cls.__name__, version, "", position, "cannot be read")


def unencodable(msg: Message, version: int, cause: Exception) -> Unencodable:
    """Return the exception for a message that could not be written. Its reason is `cause` if no better reason is found."""
    found = _struct(msg, version, version in msg.WIRE.flexible, "") or ("", f"cannot be written: {cause}")
    return Unencodable(type(msg).__name__, version, *found)


_Found = tuple[str, str] | None
"""The path and the reason of a fault, or None if there is no fault."""


def _struct(o: Struct, version: int, flexible: bool, path: str) -> _Found:
    for f in o.WIRE.fields:
        where = f"{path}.{f.name}" if path else f.name
        value = getattr(o, f.name)
        if version in f.present:
            found = _value(f, value, version, flexible, where)
        else:
            found = (
                None
                if f.ignorable or value == f.new_default()
                else (where, f"is set, but travels only in {_short_repr(f.present)}")
            )
        if found:
            return found
    known = {f.tag for f in o.WIRE.fields if f.tag is not None and version in f.present}
    if flexible and not known.isdisjoint(tag for tag, _ in o.unknown_tags):
        return f"{path}.unknown_tags" if path else "unknown_tags", "holds a tag that the schema knows"
    return None


def _short_repr(present: range) -> str:
    low, high = present.start, present.stop - 1
    if low == high:
        return f"version {low}"
    return f"version {low} and later" if present.stop == END else f"versions {low} to {high}"


def _value(f: Field, value: Any, version: int, flexible: bool, path: str) -> _Found:
    if value is None:
        unsent = f.kind == "struct" and f.tag is not None and not f.array
        return None if unsent or version in f.nullable else (path, "is None, which it must not be in this version")
    if not f.array:
        return _single(f, value, version, flexible, path)
    if not isinstance(value, list | tuple):
        return path, f"must be a list, not {type(value).__name__}"
    for i, item in enumerate(value):
        found = _single(f, item, version, flexible, f"{path}[{i}]")
        if found:
            return found
    return None


def _single(f: Field, value: Any, version: int, flexible: bool, path: str) -> _Found:
    if f.kind == "struct":
        if not isinstance(value, f.struct):
            return path, f"must be a {f.struct.__qualname__}, not {type(value).__name__}"
        return _struct(value, version, flexible, path)
    if f.kind in ("str", "plain"):
        return _check_string(value, path)
    if f.kind in ("bytes", "records"):
        ok = isinstance(value, bytes | bytearray | memoryview)
        return None if ok else (path, f"must be bytes, not {type(value).__name__} (encode_parts takes other records)")
    return _number(f, value, path)


def _check_string(value: Any, path: str) -> _Found:
    if not isinstance(value, str):
        return path, f"must be a str, not {type(value).__name__}"
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return path, "cannot be written as UTF-8"
    return (path, f"has {size} bytes, more than a string may have: {LONGEST_STRING}") if size > LONGEST_STRING else None


def _number(f: Field, value: Any, path: str) -> _Found:
    if f.kind == "16s":
        ok = isinstance(value, bytes) and len(value) == 16
        return None if ok else (path, "must be 16 bytes")
    try:
        struct.pack(">" + f.kind, value)
    except struct.error as e:
        if isinstance(value, int) and f.kind in _INTEGERS:
            bits = 8 * struct.calcsize(">" + f.kind)
            least, most = (0, (1 << bits) - 1) if f.kind.isupper() else (-1 << bits - 1, (1 << bits - 1) - 1)
            return path, f"must be from {least} to {most}, not {value}"
        return path, f"cannot be {value!r}: {e}"
    return None


_INTEGERS = "bBhHiIqQ"
