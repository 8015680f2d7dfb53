"""Readers and writers for blocks in plain Python, used if the kernels are not compiled.

They read like the kernels, but without the kernels' limits: an array is always read completely.
"""

from __future__ import annotations

from typing import Any

from ottla.wire.codec.plain import Buffer, Read, Write, struct_reader, struct_writer
from ottla.wire.codec.plans import StructPlan
from ottla.wire.codec.primitives import Stop, flat


class PlainReader:
    """A reader of structs with one plan. It can read a struct at once, or first some fields and later the others."""

    def __init__(self, plan: StructPlan) -> None:
        self._plan = plan
        self._read = struct_reader(plan)
        self._up_to: dict[int, Read] = {}
        self._from: dict[int, Read] = {}

    def begin(self, buf: Buffer, position: int, stop: int) -> tuple[Any, int]:
        """Read only the first `stop` fields of a struct; return it and the position after those fields."""
        if stop not in self._up_to:
            self._up_to[stop] = struct_reader(self._plan._replace(steps=self._plan.steps[:stop], flexible=False))
        return self._up_to[stop](_whole(buf), position)

    def finish(self, made: Any, buf: Buffer, position: int, start: int, most: int) -> int:
        """Read the fields from index `start` on, then the tags; return the position after them."""
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
        """Return the next `count` structs, and the position after them."""
        del most
        items, at, data = [], position, _whole(buf)
        for _ in range(count):
            item, at = self._read(data, at)
            items.append(item)
        if at > len(buf):
            raise Stop
        return items, at


class PlainWriter:
    """A writer of structs with one plan. It can write a whole struct, or only some of its fields."""

    def __init__(self, plan: StructPlan) -> None:
        self._plan = plan
        self._write = struct_writer(plan)
        self._of: dict[tuple[int, int], Write] = {}

    def some(self, made: Any, parts: list[Any], cuts: list[int], start: int, stop: int) -> None:
        """Write the fields from index `start` up to `stop`. After the struct's last field also write the tags."""
        if (start, stop) not in self._of:
            flexible = self._plan.flexible and stop == len(self._plan.steps)
            self._of[start, stop] = struct_writer(self._plan._replace(steps=self._plan.steps[start:stop], flexible=flexible))
        self._of[start, stop](made, parts.append, parts, cuts)

    def items(self, some: list[Any], parts: list[Any], cuts: list[int]) -> None:
        """Write consecutive structs, without their count."""
        for item in some:
            self._write(item, parts.append, parts, cuts)


def _whole(buf: Buffer) -> Buffer:
    return buf if isinstance(buf, bytes) else memoryview(flat(buf))
