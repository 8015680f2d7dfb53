"""Holds a decoded message against the walk of the grammar: every value in its place, and nothing beyond."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ottla.wire.inspection.walk import Leaf
from ottla.wire.schema import Message, Struct

_STEP_END = re.compile(r"(?=[.\[])")
_UNKNOWN = re.compile(r"(unknown_tags)\[(\d+)\]$")


def assert_as_walked(msg: Message, version: int, walked: list[Leaf]) -> None:
    """Every leaf of the walk is in the message as it is there; whatever else the message has is at its default.

    Of a known tag that was sent twice the walk has both, the message the latter, so that nothing can be said.
    """
    pairs = list(_expected(walked))
    expected = dict(pairs)
    above = {path[: step.start()] for path in expected for step in _STEP_END.finditer(path, 0, len(path) - 1)}
    if len(expected) < len(pairs) or not above.isdisjoint(expected):
        return
    sent = above | expected.keys()
    found = dict(_values(msg, "", sent))
    assert {path: repr(value) for path, value in found.items()} == {path: repr(value) for path, value in expected.items()}, version


def _expected(walked: list[Leaf]) -> Iterator[tuple[str, Any]]:
    tags: dict[str, list[tuple[int, bytes]]] = {}
    for leaf in walked:
        unknown = _UNKNOWN.search(leaf.path)
        if unknown:
            tags.setdefault(leaf.path[: unknown.end(1)], []).append((int(unknown[2]), leaf.value))
        else:
            yield leaf.path, leaf.value
    yield from ((path, tuple(found)) for path, found in tags.items())


def _values(o: Any, path: str, sent: set[str]) -> Iterator[tuple[str, Any]]:
    """What an object holds, by path, but for the fields at their defaults that were not sent."""
    if isinstance(o, Struct):
        for name in (*(f.name for f in o.WIRE.fields), "unknown_tags"):
            yield from _field(o, name, f"{path}.{name}" if path else name, sent)
    elif isinstance(o, list) and o:
        for i, item in enumerate(o):
            yield from _values(item, f"{path}[{i}]", sent)
    else:
        yield path, o.tobytes() if isinstance(o, memoryview) else o


def _field(o: Struct, name: str, path: str, sent: set[str]) -> Iterator[tuple[str, Any]]:
    value = getattr(o, name)
    default = next((f.new_default() for f in o.WIRE.fields if f.name == name), ())
    if path in sent or type(value) is not type(default) or value != default:
        yield from _values(value, path, sent)
