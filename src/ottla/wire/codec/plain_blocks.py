"""What blocks need of readers and writers, in plain Python: where the kernels are not compiled.

It reads as the kernels do, but for their limits: an array is read whole, however long it is.
"""

from __future__ import annotations

from typing import Any

from ottla.wire.codec.plain import Buffer, Read, Write, struct_reader, struct_writer
from ottla.wire.codec.plans import StructPlan
from ottla.wire.codec.primitives import Stop, flat


class PlainReader:
    """Makes structs of one plan, whole or up to a field."""

    def __init__(self, plan: StructPlan) -> None:
        self._plan = plan
        self._read = struct_reader(plan)
        self._up_to: dict[int, Read] = {}
        self._from: dict[int, Read] = {}

    def begin(self, buf: Buffer, position: int, stop: int) -> tuple[Any, int]:
        """A struct of which only the first `stop` fields are read, and the position after those."""
        if stop not in self._up_to:
            self._up_to[stop] = struct_reader(self._plan._replace(steps=self._plan.steps[:stop], flexible=False))
        return self._up_to[stop](_whole(buf), position)

    def finish(self, made: Any, buf: Buffer, position: int, start: int, most: int) -> int:
        """Read the fields from number `start` on, then the tags; the position after them."""
        del most
        if start not in self._from:
            self._from[start] = struct_reader(self._plan._replace(steps=self._plan.steps[start:]))
        rest, at = self._from[start](_whole(buf), position)
        for name in (*(step.name for step in (*self._plan.steps[start:], *self._plan.tags)), "unknown_tags"):
            setattr(made, name, getattr(rest, name))
        if at > len(buf):
            raise Stop
        return at

    def items(self, buf: Buffer, position: int, count: int, most: int) -> tuple[list[Any], int]:
        """The next `count` structs, and the position after them."""
        del most
        items, at, data = [], position, _whole(buf)
        for _ in range(count):
            item, at = self._read(data, at)
            items.append(item)
        if at > len(buf):
            raise Stop
        return items, at


class PlainWriter:
    """Writes structs of one plan, whole or some of their fields."""

    def __init__(self, plan: StructPlan) -> None:
        self._plan = plan
        self._write = struct_writer(plan)
        self._of: dict[tuple[int, int], Write] = {}

    def some(self, made: Any, parts: list[Any], cuts: list[int], start: int, stop: int) -> None:
        """Of the fields those from number `start` up to `stop`; with the last of them also the tags."""
        if (start, stop) not in self._of:
            flexible = self._plan.flexible and stop == len(self._plan.steps)
            self._of[start, stop] = struct_writer(self._plan._replace(steps=self._plan.steps[start:stop], flexible=flexible))
        self._of[start, stop](made, parts.append, parts, cuts)

    def items(self, some: list[Any], parts: list[Any], cuts: list[int]) -> None:
        """Structs one after the other; their count is not written."""
        for item in some:
            self._write(item, parts.append, parts, cuts)


def _whole(buf: Buffer) -> Buffer:
    return buf if isinstance(buf, bytes) else memoryview(flat(buf))
