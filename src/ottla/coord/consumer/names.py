"""The names of topics that members of groups subscribe to, kept once however many subscribe to the same ones.

Knows no group. What nobody subscribes to any more is gone by itself, and counts no more.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from sys import getsizeof
from typing import Final
from weakref import ref

AT_ONCE: Final = 2_000
"""Names that are put in order between two pauses."""


TEXT_BYTES: Final = 56
"""What a string takes beside its characters."""


class TopicNames(frozenset[str]):
    """Names of topics, also as they are `ordered`. `weight` is what they take in memory, in bytes."""

    __slots__ = ("ordered", "weight")

    ordered: tuple[str, ...]
    weight: int

    def __new__(cls, names: Iterable[str]) -> TopicNames:
        unique = dict.fromkeys(names)
        return cls._made(unique, sorted(unique))

    @classmethod
    def slowly(cls, names: Sequence[str]) -> Generator[None, object, TopicNames]:
        """The same for very many names, with pauses in which others have their turn."""
        unique: set[str] = set()
        ordered: list[str] = []
        for at in range(0, len(names), AT_ONCE):
            part = set(names[at : at + AT_ONCE]) - unique
            unique |= part
            ordered += sorted(part)
            yield None
        ordered.sort()  # which finds runs that are in order already, and merges them
        yield None
        return cls._made(unique, ordered)

    @classmethod
    def _made(cls, unique: dict[str, None] | set[str], ordered: list[str]) -> TopicNames:
        made = super().__new__(cls, unique)  # whose size is known before
        made.ordered = tuple(ordered)
        made.weight = getsizeof(made) + getsizeof(made.ordered) + TEXT_BYTES * len(ordered) + getsizeof("".join(ordered))
        return made


class SharedNames:
    """All the names that somebody subscribes to now. `weight` is what they take in memory, in bytes."""

    __slots__ = ("__weakref__", "_known", "weight")

    def __init__(self) -> None:
        self.weight = 0
        self._known: dict[ref[TopicNames], tuple[ref[TopicNames], int]] = {}

    def shared(self, names: Iterable[str]) -> TopicNames:
        """These names, as the one value that all who subscribe to them have."""
        made = names if isinstance(names, TopicNames) else TopicNames(names)
        known = self._known.get(ref(made))
        found = None if known is None else known[0]()
        return self._taken_in(made) if found is None else found

    def _taken_in(self, made: TopicNames) -> TopicNames:
        own = ref(self)  # whoever holds names must not hold this

        def gone(dead: ref[TopicNames]) -> None:
            table = own()
            if table is not None:
                table.weight -= table._known.pop(dead)[1]

        held = ref(made, gone)
        self._known[held] = held, made.weight
        self.weight += made.weight
        return made


def in_order(names: frozenset[str]) -> list[str]:
    """The names in their order."""
    return list(names.ordered) if isinstance(names, TopicNames) else sorted(names)


def weight_of(names: frozenset[str]) -> int:
    """What names take in memory, in bytes."""
    return names.weight if isinstance(names, TopicNames) else getsizeof(names) + sum(map(getsizeof, names))
