"""Every message class, and hypothesis values of it for a version: extremes included (empty, null, largest, non-ASCII)."""

from __future__ import annotations

import math
import random
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, cast

from hypothesis import strategies as st

import ottla.wire.data
from ottla.wire import headers
from ottla.wire.apis import API
from ottla.wire.schema import Field, Message, Struct

_RANGES = {
    "b": (-128, 127),
    "h": (-(1 << 15), (1 << 15) - 1),
    "i": (-(1 << 31), (1 << 31) - 1),
    "q": (-(1 << 63), (1 << 63) - 1),
    "H": (0, (1 << 16) - 1),
    "I": (0, (1 << 32) - 1),
}


def _stored() -> list[type[Message]]:
    modules = [headers, *(import_module(f"ottla.wire.data.{found.name}") for found in iter_modules(ottla.wire.data.__path__))]
    return [
        thing
        for module in modules
        for thing in vars(module).values()
        if isinstance(thing, type) and issubclass(thing, Message) and thing.__module__ == module.__name__
    ]


TRAVELLING: list[type[Message]] = [cls for api in API.values() for cls in (api.request, api.response)]
STORED: list[type[Message]] = _stored()
EVERY: list[type[Message]] = TRAVELLING + STORED


def structs_of(cls: type[Message]) -> list[type[Struct]]:
    """A message's class and those of its structs."""
    nested = [part for part in vars(cls).values() if isinstance(part, type) and issubclass(part, Struct)]
    return [cls, *nested]


@cache
def numbers(kind: str) -> st.SearchStrategy[Any]:
    if kind == "?":
        return st.booleans()
    if kind == "d":
        return st.floats(allow_nan=False).filter(math.isfinite)
    if kind == "16s":
        return st.binary(min_size=16, max_size=16)
    low, high = _RANGES[kind]
    return st.sampled_from([0, -1 if low else 1, low, high]) | st.integers(low, high)


_TEXT = st.sampled_from(["", "flights", "é", "飛行機", "\U0001f6eb", "x" * 126, "x" * 127, "x" * 128, "ü" * 200]) | st.text(
    max_size=12
)
_BYTES = st.sampled_from([b"", b"\0", bytes(126), bytes(127), bytes(300)]) | st.binary(max_size=20)


def scalar(f: Field) -> st.SearchStrategy[Any]:
    if f.kind in ("str", "plain"):
        return _TEXT
    if f.kind in ("bytes", "records"):
        return _BYTES
    return numbers(f.kind)


class Values:
    """Strategies for one message in one version; peers that take fewer values override `scalar`."""

    def __init__(self, version: int, *, unknown_tags: bool = False) -> None:
        self.version = version
        self.unknown_tags = unknown_tags

    def scalar(self, f: Field) -> st.SearchStrategy[Any]:
        return scalar(f)

    def of(self, cls: type[Message]) -> st.SearchStrategy[Any]:
        return self.struct(cls, self.version in cls.WIRE.flexible)

    def struct(self, cls: type[Struct], flexible: bool) -> st.SearchStrategy[Any]:
        fields = {f.name: self.field(f, flexible) for f in cls.WIRE.fields if self.version in f.present}
        if flexible and self.unknown_tags:
            tags = st.dictionaries(st.sampled_from([90, 127, 128, 70_000]), st.binary(max_size=5), max_size=2)
            fields["unknown_tags"] = tags.map(lambda found: tuple(sorted(found.items())))
        return st.builds(cls, **fields)

    def field(self, f: Field, flexible: bool) -> st.SearchStrategy[Any]:
        one = self.struct(f.struct, flexible) if f.kind == "struct" else self.scalar(f)
        if f.array:
            many = st.lists(one, max_size=2)
            one = (
                many
                if f.kind in ("struct", "str", "16s")
                else many | st.sampled_from([0, 127, 300]).map(lambda n: [f.kind == "q"] * n)
            )
        unsent = f.tag is not None and f.kind == "struct" and not f.array
        return st.none() | one if self.version in f.nullable or unsent else one


def sample(cls: type[Message], version: int, rng: random.Random) -> Message:
    """A message in which every field and list has something, quickly: for tests that want many."""
    return cast("Message", _sample_struct(cls, version, rng))


def _sample_struct(cls: type[Struct], version: int, rng: random.Random) -> Struct:
    made = cls()
    for f in cls.WIRE.fields:
        if version in f.present and not (version in f.nullable and rng.random() < 0.2):
            items = [_sample_value(f, version, rng) for _ in range(rng.randint(1, 2) if f.array else 1)]
            setattr(made, f.name, items if f.array else items[0])
    return made


def _sample_value(f: Field, version: int, rng: random.Random) -> Any:
    if f.kind == "struct":
        return _sample_struct(f.struct, version, rng)
    if f.kind in ("str", "plain"):
        return rng.choice(("", "t", "flüge", "x" * 130))
    if f.kind in ("bytes", "records", "16s"):
        return rng.randbytes(16 if f.kind == "16s" else rng.choice((0, 3, 130)))
    return rng.random() < 0.5 if f.kind == "?" else rng.choice((0, 1, 100))
