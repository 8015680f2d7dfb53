"""A reader that walks a message field by field, as the protocol's grammar defines it, and records the position of each field.

The reader shares no code with the codec, and is slower. It finds the fault in malformed bytes, and the values for a frame's tree.
Tests compare the codec with it.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from ottla.wire.codec.primitives import LONGEST_STRING
from ottla.wire.codec.sizes import NUMBERS, head_code, least_size
from ottla.wire.faults import Malformed
from ottla.wire.schema import Field, Message, Struct


class Leaf(NamedTuple):
    """One value and the range of its bytes, which includes the length or count before the value."""

    path: str
    start: int
    end: int
    value: Any


class Seen(NamedTuple):
    """The values of a message, or of its part before a fault. `end` is the position where reading stopped.

    `arrays` are all arrays that have items, by path: (the position of the count, the count).
    """

    leaves: list[Leaf]
    arrays: dict[str, tuple[int, int]]
    end: int
    fault: Malformed | None


def read_seen(
    cls: type[Message], version: int, buf: bytes | bytearray | memoryview, position: int = 0, *, whole: bool = True
) -> Seen:
    """Read every value before the first fault. With `whole`, bytes after the message are a fault."""
    walk = _Walk(cls, version, buf, position)
    try:
        if whole:
            walk.run()
        else:
            walk.struct(cls, "")
    except Malformed as fault:
        return Seen(walk.found, walk.arrays, walk.position, fault)
    return Seen(walk.found, walk.arrays, walk.position, None)


def leaves(cls: type[Message], version: int, buf: bytes | bytearray | memoryview, position: int = 0) -> list[Leaf]:
    """Return every value of a message with its position, in the order of the bytes. Raises `Malformed`."""
    return _Walk(cls, version, buf, position).run()


def end_of(cls: type[Message], version: int, buf: bytes | bytearray | memoryview, position: int = 0) -> int:
    """Return the position after a message, which other bytes can follow. Raises `Malformed`."""
    walk = _Walk(cls, version, buf, position)
    walk.struct(cls, "")
    return walk.position


class _Walk:
    def __init__(self, cls: type[Message], version: int, buf: bytes | bytearray | memoryview, position: int) -> None:
        self.cls = cls
        self.version = version
        self.flexible = version in cls.WIRE.flexible
        self.view = memoryview(buf)
        self.position = position
        self.found: list[Leaf] = []
        self.arrays: dict[str, tuple[int, int]] = {}

    def run(self) -> list[Leaf]:
        self.struct(self.cls, "")
        if self.position != len(self.view):
            raise self.fault("", f"{len(self.view) - self.position} bytes are left over")
        return self.found

    def fault(self, path: str, reason: str) -> Malformed:
        return Malformed(self.cls.__name__, self.version, path, self.position, reason)

    # ------------------------------------------------------------- primitives

    def read(self, path: str, size: int, what: str) -> memoryview:
        left = len(self.view) - self.position
        if size > left:
            raise self.fault(path, f"{what} of {size} bytes runs past the end: {left} are left")
        self.position += size
        return self.view[self.position - size : self.position]

    def read_fixed(self, path: str, code: str) -> Any:
        size = struct.calcsize(">" + code)
        return struct.unpack(">" + code, self.read(path, size, NUMBERS[code]))[0]

    def varint(self, path: str) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte: int = self.read(path, 1, "varint")[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise self.fault(path, "a varint is longer than 5 bytes")

    def length(self, path: str, code: str, nullable: bool) -> int | None:
        """Return a length or count, or None for null."""
        start = self.position
        size = self.varint(path) - 1 if code == "B" else self.read_fixed(path, code)
        if size >= 0:
            return int(size)
        if nullable:
            return None
        self.position = start
        raise self.fault(path, "is null, which it must not be in this version")

    # ----------------------------------------------------------------- fields

    def struct(self, cls: type[Struct], path: str) -> None:
        here = [f for f in cls.WIRE.fields if self.version in f.present]
        tagged = {f.tag: f for f in here if f.tag is not None and self.flexible}
        for f in here:
            if f.tag is None or not self.flexible:
                self.field(f, f"{path}.{f.name}" if path else f.name)
        if self.flexible:
            self.tags(tagged, path)

    def field(self, f: Field, path: str) -> None:
        start = self.position
        if f.fixed:
            value = self.read_fixed(path, f.kind)
            self.found.append(Leaf(path, start, self.position, value))
        elif f.array:
            self.array(f, path)
        elif f.kind == "struct":
            self.one_struct(f, path)
        else:
            text = self.content(path, f.kind, head_code(f, self.flexible), self.version in f.nullable)
            self.found.append(Leaf(path, start, self.position, text))

    def one_struct(self, f: Field, path: str) -> None:
        if self.version in f.nullable:
            start = self.position
            tagged = f.tag is not None and self.flexible
            if (self.varint(path) == 0) if tagged else (self.read_fixed(path, "b") < 0):
                self.found.append(Leaf(path, start, self.position, None))
                return
        self.struct(f.struct, path)

    def content(self, path: str, kind: str, code: str, nullable: bool) -> str | bytes | None:
        start = self.position
        size = self.length(path, code, nullable)
        if size is None:
            return None
        if kind in ("bytes", "records"):
            return self.read(path, size, kind).tobytes()
        if size > LONGEST_STRING:
            self.position = start
            raise self.fault(path, f"a string of {size} bytes is longer than {LONGEST_STRING}")
        try:
            return str(self.read(path, size, "string"), "utf-8")
        except UnicodeDecodeError as e:
            self.position += e.start - size
            raise self.fault(path, "is not UTF-8") from e

    def array(self, f: Field, path: str) -> None:
        start = self.position
        count = self.length(path, head_code(f, self.flexible), self.version in f.nullable)
        if not count:
            self.found.append(Leaf(path, start, self.position, None if count is None else []))
            return
        least = self.least(f)
        left = len(self.view) - self.position
        if count * least > left:
            self.position = start
            raise self.fault(path, f"{count} items of {least} bytes or more cannot be in the {left} that are left")
        self.arrays[path] = start, count
        for i in range(count):
            self.item(f, f"{path}[{i}]")

    def least(self, f: Field) -> int:
        if f.kind == "struct":
            return least_size(f.struct, self.version, self.flexible)
        return struct.calcsize(">" + (self.string_code if f.kind == "str" else f.kind))

    @property
    def string_code(self) -> str:
        return "B" if self.flexible else "h"

    def item(self, f: Field, path: str) -> None:
        start = self.position
        if f.kind == "struct":
            self.struct(f.struct, path)
            return
        value = self.content(path, "str", self.string_code, False) if f.kind == "str" else self.read_fixed(path, f.kind)
        self.found.append(Leaf(path, start, self.position, value))

    # ------------------------------------------------------------------- tags

    def tags(self, tagged: dict[int, Field], path: str) -> None:
        where = f"{path}.tags" if path else "tags"
        for _ in range(self.varint(where)):
            start = self.position
            tag = self.varint(where)
            size = self.varint(where)
            left = len(self.view) - self.position
            if size > left:
                raise self.fault(where, f"tag {tag} of {size} bytes runs past the end: {left} are left")
            stop = self.position + size
            self.tag(tagged.get(tag), tag, path, start, stop)
            if self.position != stop:
                raise self.fault(where, f"tag {tag} should end at byte {stop}")

    def tag(self, f: Field | None, tag: int, path: str, start: int, stop: int) -> None:
        prefix = f"{path}." if path else ""
        if f is not None:
            self.field(f, prefix + f.name)
            return
        self.found.append(Leaf(f"{prefix}unknown_tags[{tag}]", start, stop, self.view[self.position : stop].tobytes()))
        self.position = stop
