"""An immutable mapping for a million entries. A new version shares most of its memory with the previous one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

PARTS: Final = 1024
"""The number of parts of a mapping. With a million entries, a part has about a thousand."""


class Spread(Generic[K, V]):
    """An immutable mapping, divided into dictionaries by the hash of the key. New versions share unchanged dictionaries."""

    __slots__ = ("_parts", "_size")

    def __init__(self, entries: Mapping[K, V]) -> None:
        nothing: dict[K, V] = {}
        self._parts: list[dict[K, V]] = [nothing] * PARTS
        self._size = len(entries)
        for key, value in entries.items():
            part = self._parts[hash(key) % PARTS]
            if part is nothing:
                part = self._parts[hash(key) % PARTS] = {}
            part[key] = value

    def with_changes(self, news: Mapping[K, V], gone: Iterable[K] = ()) -> Spread[K, V]:
        """Return a new mapping without the keys in `gone`, and with the entries of `news` added or replaced."""
        after: Spread[K, V] = Spread.__new__(Spread)
        after._parts, after._size = [*self._parts], self._size
        touched: defaultdict[int, list[K]] = defaultdict(list)
        for key in chain(gone, news):
            touched[hash(key) % PARTS].append(key)
        for at, keys in touched.items():
            part = {**self._parts[at]}
            for key in keys:
                part.pop(key, None)
                if key in news:
                    part[key] = news[key]
            after._parts[at] = part
            after._size += len(part) - len(self._parts[at])
        return after

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        return chain.from_iterable(self._parts)

    def values(self) -> Iterator[V]:
        return chain.from_iterable(part.values() for part in self._parts)

    def get(self, key: K) -> V | None:
        """Return the value of a key; None if the key is missing."""
        return self._parts[hash(key) % PARTS].get(key)

    def among(self, keys: AbstractSet[K]) -> list[V]:
        """Return the values of those `keys` that exist. Iterate over `keys` or over the mapping, whichever is smaller."""
        parts = self._parts
        if len(keys) < self._size:
            return [part[key] for key in keys if key in (part := parts[hash(key) % PARTS])]
        return [value for part in parts for key, value in part.items() if key in keys]
