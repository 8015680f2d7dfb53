"""Readers and writers of large messages in blocks, so that no caller must have all items of a message in memory at once.

A path names the nested arrays that contain most of a message's items, such as ("topics", "partitions"). A block is a list of items
of the first array. An item with too many nested items is divided: several blocks contain a copy of the item, each with some of the
nested items. Each array of the path, except the first, must be the last field of its struct.

The module uses plans and bytes, and contains no rules for particular messages.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from copy import copy
from functools import cache
from struct import Struct as Layout
from struct import unpack_from
from typing import Any, Final

from ottla.wire.codec import messages
from ottla.wire.codec.messages import DECODING, Buffer, M, Part, join_between, part_codecs
from ottla.wire.codec.plans import Step, StructPlan, plan_of
from ottla.wire.codec.primitives import LONGEST_STRING, Stop, TooMany, unsigned_varint, varint
from ottla.wire.faults import Malformed
from ottla.wire.schema import Message

Path = tuple[str, ...]

MOST_THINGS: Final = 1_000_000
"""The most items that a message may have, at all levels. No client sends as many; the limit bounds the memory for one request."""
MOST_WITHIN: Final = 100_000
"""The most items that one call may read: in the arrays in one indivisible item, or in all arrays after the path's first."""
_WITHIN_EACH: Final = 20
_JOINED_BYTES: Final = 32 * 1024
_COUNTS: Final = {2: Layout(">h"), 4: Layout(">i")}


class Level:
    """One array on a path: the struct that contains it, its index among the struct's fields, and the level below."""

    def __init__(self, plan: StructPlan, path: Path) -> None:
        self.index = next(i for i, step in enumerate(plan.steps) if step.name == path[0])
        self.step: Step = plan.steps[self.index]
        self.fields = len(plan.steps)
        self.reader, self.writer = part_codecs(plan)
        self.below = Level(self.step.struct, path[1:]) if len(path) > 1 else None
        self.item_reader: Any = None
        self.item_writer: Any = None
        if self.step.inner is not None:
            below = self.below
            self.item_reader, self.item_writer = (below.reader, below.writer) if below else part_codecs(self.step.struct)

    def count(self, buf: Buffer, at: int) -> tuple[int, int]:
        """Return the number of items of the array that begins at `at` (-1 for null), and the position after this count."""
        if self.step.width == 1:
            count, at = varint(buf, at)
            count -= 1
        else:
            (count,) = _COUNTS[self.step.width].unpack_from(buf, at)
            at += self.step.width
        if count < 0 and not self.step.nullable:
            raise Stop
        if count * max(1, self.step.size) > len(buf) - at:
            raise Stop
        return max(count, -1), at

    def encode_count(self, count: int) -> bytes:
        return unsigned_varint(count + 1) if self.step.width == 1 else _COUNTS[self.step.width].pack(count)

    def some(self, buf: Buffer, at: int, count: int) -> tuple[list[Any], int]:
        """Read at least one and at most `count` of the next items. Return them and the position after them."""
        if self.item_reader is None:
            return (_texts if self.step.kind == "texts" else _numbers)(self.step, buf, at, count)
        found: tuple[list[Any], int]
        try:
            found = self.item_reader.items(buf, at, count, _WITHIN_EACH * count)
        except TooMany:
            found = self.item_reader.items(buf, at, 1, MOST_WITHIN)
        return found


def level_of(cls: type[Message], version: int, path: Path) -> Level | None:
    """Return the level of a path's first array; None if the version does not have this array."""
    return _level_of(cls, version, path, messages.COMPILED)


@cache
def _level_of(cls: type[Message], version: int, path: Path, compiled: bool) -> Level | None:
    del compiled  # only a part of the cache key, because compiled and plain codecs have different readers and writers
    plan = plan_of(cls, version)
    return Level(plan, path) if any(step.name == path[0] for step in plan.steps) else None


def _numbers(step: Step, buf: Buffer, at: int, count: int) -> tuple[list[Any], int]:
    return list(unpack_from(f">{count}{_CODES[step.size]}", buf, at)), at + count * step.size


_CODES: Final = {1: "b", 2: "h", 4: "i", 8: "q"}


def _texts(step: Step, buf: Buffer, at: int, count: int) -> tuple[list[Any], int]:
    texts = []
    for _ in range(count):
        if step.size == 1:
            size, at = varint(buf, at)
            size -= 1
        else:
            (size,) = _COUNTS[2].unpack_from(buf, at)
            at += 2
        if not 0 <= size <= LONGEST_STRING or at + size > len(buf):
            raise Stop
        texts.append(str(buf[at : at + size], "utf-8"))
        at += size
    return texts, at


class BlockReader:
    """A reader of one message in `buf`, which must not change.

    `open` must be called first. `message` then has all fields, but the first array of the path is empty, or None if it is null.
    Blocks can be read repeatedly. Bytes after the last field are ignored.
    """

    def __init__(self, cls: type[Message], version: int, level: Level, buf: Buffer, position: int, size: int) -> None:
        self.count = 0
        self.message: Any = None
        self._cls = cls
        self._version = version
        self._level = level
        self._buf = buf if isinstance(buf, bytes) else memoryview(buf)
        self._position = position
        self._size = size
        self._kept: list[list[Any]] = []

    @property
    def name(self) -> str:
        """Return the name of the path's first array."""
        return self._level.step.name

    def open(self, most: int = MOST_THINGS) -> Generator[list[Any], None, None]:
        """Read all blocks once and yield each, which proves that the whole message can be read. Raises `Malformed`."""
        level = self._level
        try:
            self.message, at = level.reader.begin(self._buf, self._position, level.index)
            self._count, at = level.count(self._buf, at)
            self._at = at
            blocks = self._blocks(level, at, self._count)
            kept: list[list[Any]] | None = []
            while (block := next(blocks, None)) is not None:
                self.count += _things(level, block)
                if self.count > most:
                    raise self._fault(f"has more than {most} items in its arrays: send fewer at a time")
                kept = None if kept is None or kept else [block]
                yield block
            self._kept = kept or []
            setattr(self.message, self.name, None if self._count < 0 else [])
            level.reader.finish(self.message, self._buf, self._end, level.index + 1, MOST_WITHIN)
        except DECODING as fault:
            many = f"one item of it has more than {MOST_WITHIN} items of its own: send fewer at a time"
            raise self._fault(many if isinstance(fault, TooMany) else "cannot be read") from None

    @property
    def is_one_block(self) -> bool:
        """Return whether the message has at most one block."""
        return bool(self._kept) or self._count <= 0

    def blocks(self) -> Iterator[list[Any]]:
        """Return an iterator over the blocks. Call `open` before."""
        return iter(self._kept) if self._kept else self._blocks(self._level, self._at, self._count)

    def part(self, block: list[Any]) -> Any:
        """Return a copy of the message whose first array has only the items of this block."""
        return _with_items(self.message, self.name, block) if self._count >= 0 else copy(self.message)

    def _blocks(self, level: Level, at: int, count: int) -> Generator[list[Any], None, None]:
        at = yield from self._walk(level, at, count)
        self._end = at

    def _walk(self, level: Level, at: int, count: int) -> Generator[list[Any], None, int]:
        while count > 0:
            if level.below is None:
                items, at = level.some(self._buf, at, min(count, self._size))
            else:
                try:
                    items, at = level.below.reader.items(self._buf, at, min(count, self._size), self._size)
                except TooMany:
                    at = yield from self._walk_one(level.below, at)
                    count -= 1
                    continue
            count -= len(items)
            yield items
        return at

    def _walk_one(self, level: Level, at: int) -> Generator[list[Any], None, int]:
        """Yield the blocks of one item that has too many nested items for one block."""
        head, at = level.reader.begin(self._buf, at, level.index)
        count, at = level.count(self._buf, at)
        setattr(head, level.step.name, [])
        walk = self._walk(level, at, count)
        while True:
            try:
                items = next(walk)
            except StopIteration as end:
                at = end.value
                break
            one = copy(head)
            setattr(one, level.step.name, items)
            yield [one]
        end_at: int = level.reader.finish(head, self._buf, at, level.index + 1, MOST_WITHIN)
        return end_at

    def _fault(self, reason: str) -> Malformed:
        return Malformed(self._cls.__name__, self._version, "", self._position, reason)


def _things(level: Level, block: Sequence[Any]) -> int:
    """Return the number of items in a block, at all levels."""
    below = level.below
    if below is None:
        return len(block)
    name = below.step.name
    return len(block) + sum(_things(below, getattr(one, name) or ()) for one in block)


def pieces(message: M, path: Path, size: int) -> Iterator[M]:
    """Divide a message into messages with `size` items, or slightly more, each. Yield a small message unchanged."""
    some: list[Any] = []
    held = 0
    for item in getattr(message, path[0]):
        for one, count in _cut(item, path[1:], size):
            some.append(one)
            held += count
            if held >= size:
                yield _with_items(message, path[0], some)
                some, held = [], 0
    if some or not getattr(message, path[0]):
        yield _with_items(message, path[0], some)


def _cut(item: Any, below: Path, size: int) -> Iterator[tuple[Any, int]]:
    """Divide an item if it has more than `size` nested items. Yield each part with the number of its items."""
    inner: list[Any] = getattr(item, below[0]) if below else []
    if len(inner) <= size:
        yield item, 1 + len(inner)
        return
    assert len(below) == 1, "no message that is sent has more than two levels"
    for first in range(0, len(inner), size):
        yield _with_items(item, below[0], inner[first : first + size]), size


def _with_items(whole: Any, name: str, items: list[Any]) -> Any:
    part = copy(whole)
    setattr(part, name, items)
    return part


class BlockWriter:
    """A writer that joins messages, each with some of the items, to one message. All other fields come from the first message.

    The last item of a message and the first item of the next become a single item if they differ only in their nested arrays.
    """

    def __init__(self, version: int, path: Path) -> None:
        self._version = version
        self._path = path
        self._first: Message | None = None
        self._items: _Items

    @property
    def size(self) -> int:
        """Return the number of bytes written, without the fields around the first array."""
        return 0 if self._first is None else self._items.size

    def add(self, message: Message) -> None:
        """Write the items of a message. Raises the exceptions of a writer."""
        if self._first is None:
            level = level_of(type(message), self._version, self._path)
            assert level is not None, "responses have the arrays of their version"
            self._first, self._items = message, _Items(level)
        self._items.add(getattr(message, self._path[0]) or [])

    def drop_open(self) -> None:
        """Remove the written part of the last item, because the next message replaces this item."""
        self._items.drop_open()

    def end_item(self) -> None:
        """End the last item of the innermost array. The next item is not joined with it, even if their fields are equal."""
        if self._first is not None:
            self._items.end_innermost()

    def array(self) -> list[Part]:
        """Return only the encoded array. Call this after the last `add`."""
        return self._items.close()

    def parts(self) -> list[Part]:
        """Return the whole encoded message. Call this after the last `add`."""
        assert self._first is not None, "an empty message has its own writer"
        return with_array(self._first, self._version, self._path, self._items.close())


def with_array(message: Message, version: int, path: Path, array: Sequence[Part]) -> list[Part]:
    """Return an encoded message, with the already encoded `array` as the first array of the path."""
    level = level_of(type(message), version, path)
    assert level is not None, "responses have the arrays of their version"
    return [
        *_write_parts(level.writer.some, message, 0, level.index),
        *array,
        *_write_parts(level.writer.some, message, level.index + 1, level.fields),
    ]


class _Items:
    """The encoded items of one array. The last item is open: the next message can add nested items to it."""

    def __init__(self, level: Level) -> None:
        self.level = level
        self.size = 0
        self._parts: list[Part] = []
        self._count = 0
        self._open: tuple[Any, list[Part], _Items] | None = None

    def add(self, items: list[Any]) -> None:
        below = self.level.below
        if below is None:
            self._count += len(items)
            self._put(_write_parts(self.level.item_writer.items, items))
            return
        if not items:
            return
        if not self._continues(items[0], below):
            self._begin(items[0], below)
        if len(items) > 1:
            self._close()
            between = items[1:-1]
            self._count += len(between)
            self._put(_write_parts(self.level.item_writer.items, between))
            self._begin(items[-1], below)

    def drop_open(self) -> None:
        assert self._open is not None, "an item with arrays of its own is open until the next one"
        self.size -= self._open[2].size
        self._count -= 1
        self._open = None

    def end_innermost(self) -> None:
        """End the open item of the innermost array that has an open item."""
        if self._open is not None and self._open[2].has_open:
            self._open[2].end_innermost()
        else:
            self._close()

    @property
    def has_open(self) -> bool:
        return self._open is not None

    def close(self) -> list[Part]:
        """Return the encoded count and all encoded items."""
        self._close()
        return [self.level.encode_count(self._count), *self._parts]

    def _begin(self, item: Any, below: Level) -> None:
        self._close()
        inner = _Items(below)
        inner.add(getattr(item, below.step.name) or [])
        self._open = item, _write_parts(below.writer.some, item, 0, below.index), inner
        self._count += 1
        self.size += inner.size

    def _continues(self, item: Any, below: Level) -> bool:
        """Join an item with the open item if they differ only in their nested arrays. Return whether they were joined."""
        if self._open is None or _write_parts(below.writer.some, item, 0, below.index) != self._open[1]:
            return False
        inner = self._open[2]
        before = inner.size
        inner.add(getattr(item, below.step.name) or [])
        self.size += inner.size - before
        return True

    def _close(self) -> None:
        if self._open is None:
            return
        (item, head, inner), self._open = self._open, None
        below = inner.level
        size = self.size
        self._put([*head, *inner.close(), *_write_parts(below.writer.some, item, below.index + 1, below.fields)])
        self.size = size

    def _put(self, parts: list[Part]) -> None:
        for part in parts:
            self.size += len(part)
            last = self._parts[-1] if self._parts else None
            if type(last) is bytes and type(part) is bytes and len(last) < _JOINED_BYTES:
                self._parts[-1] = last + part
            else:
                self._parts.append(part)


def _write_parts(write: Any, *what: Any) -> list[Part]:
    parts: list[Part] = []
    cuts: list[int] = []
    if len(what) == 3:
        write(what[0], parts, cuts, what[1], what[2])
    else:
        write(what[0], parts, cuts)
    return join_between(parts, cuts)
