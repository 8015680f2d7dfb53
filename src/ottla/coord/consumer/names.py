"""The topic names to which members of groups subscribe, stored only once for equal subscriptions.

Names without a subscriber are freed by the garbage collector, and no longer count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from sys import getsizeof
from typing import Final
from weakref import ref

from ottla.ports import Pauses

AT_ONCE: Final = 2_000
"""The number of names that are sorted between two pauses."""


TEXT_BYTES: Final = 56
"""The memory in bytes of a string without its characters."""


class TopicNames(frozenset[str]):
    """A set of topic names, and the same names as the sorted tuple `ordered`. `weight` is their memory in bytes."""

    __slots__ = ("ordered", "weight")

    ordered: tuple[str, ...]
    weight: int

    def __new__(cls, names: Iterable[str]) -> TopicNames:
        unique = dict.fromkeys(names)
        return cls._create(unique, sorted(unique))

    @classmethod
    def slowly(cls, names: Sequence[str]) -> Pauses[TopicNames]:
        """Create the set for a very long subscription, with pauses in which other work runs."""
        unique: set[str] = set()
        ordered: list[str] = []
        for at in range(0, len(names), AT_ONCE):
            part = set(names[at : at + AT_ONCE]) - unique
            unique |= part
            ordered += sorted(part)
            yield None
        ordered.sort()  # Python's sort merges the runs that are already sorted
        yield None
        return cls._create(unique, ordered)

    @classmethod
    def _create(cls, unique: dict[str, None] | set[str], ordered: list[str]) -> TopicNames:
        made = super().__new__(cls, unique)  # from a set, because its size is known in advance
        made.ordered = tuple(ordered)
        made.weight = getsizeof(made) + getsizeof(made.ordered) + TEXT_BYTES * len(ordered) + getsizeof("".join(ordered))
        return made


class SharedNames:
    """All sets of topic names that have subscribers. `weight` is their memory in bytes."""

    __slots__ = ("__weakref__", "_known", "weight")

    def __init__(self) -> None:
        self.weight = 0
        self._known: dict[ref[TopicNames], tuple[ref[TopicNames], int]] = {}

    def share(self, names: Iterable[str]) -> TopicNames:
        """Return the shared object that equals the set of `names`, and create it if there is none."""
        made = names if isinstance(names, TopicNames) else TopicNames(names)
        known = self._known.get(ref(made))
        found = None if known is None else known[0]()
        return self._taken_in(made) if found is None else found

    def _taken_in(self, made: TopicNames) -> TopicNames:
        own = ref(self)  # a weak reference, so that names do not keep this table alive

        def gone(dead: ref[TopicNames]) -> None:
            table = own()
            if table is not None:
                table.weight -= table._known.pop(dead)[1]

        held = ref(made, gone)
        self._known[held] = held, made.weight
        self.weight += made.weight
        return made


def in_order(names: frozenset[str]) -> list[str]:
    return list(names.ordered) if isinstance(names, TopicNames) else sorted(names)


def weight_of(names: frozenset[str]) -> int:
    """Return the estimated memory of a set of names, in bytes."""
    return names.weight if isinstance(names, TopicNames) else getsizeof(names) + sum(map(getsizeof, names))
