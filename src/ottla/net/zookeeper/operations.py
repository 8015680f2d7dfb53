"""A commit as the operations of one transaction of ZooKeeper. Knows what is there from who looked; talks to nobody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ottla.ports import NEW, Change, Condition

ANY = -1


class Operated(NamedTuple):
    """One step of a transaction, for the sake of `of`."""

    kind: str
    """create, set, delete or check."""

    path: str
    of: Change | Condition
    value: bytes = b""
    version: int = ANY

    @property
    def size(self) -> int:
        """About the bytes that it takes on its way."""
        return len(self.path) + len(self.value) + 64


class There(NamedTuple):
    """What was found where a commit does not say it by itself."""

    paths: frozenset[str]
    """Of the entries that may be there or not, those that are."""

    below: Mapping[str, Sequence[str]]
    """What is below each entry that is to be removed, the deepest first."""


def operations(changes: Sequence[Change | Condition], there: There) -> Iterator[Operated]:
    """In the order of the changes; what is below an entry goes before it."""
    for one in changes:
        if isinstance(one, Condition):
            yield from _checks(one)
        elif one.value is None:
            yield from (Operated("delete", path, one) for path in there.below.get(one.path, ()))
            yield Operated("delete", one.path, one, version=ANY if one.version is None else one.version)
        elif one.version == NEW or one.sequential or (one.version is None and one.path not in there.paths):
            yield Operated("create", one.path, one, one.value)
        else:
            yield Operated("set", one.path, one, one.value, ANY if one.version is None else one.version)


def _checks(condition: Condition) -> Iterator[Operated]:
    """ZooKeeper has no check that an entry is not there: but only then can one be made, which goes again with the next step."""
    if condition.version == NEW:
        yield Operated("create", condition.path, condition)
        yield Operated("delete", condition.path, condition)
    else:
        yield Operated("check", condition.path, condition, version=condition.version)


def parents(changes: Sequence[Change | Condition]) -> list[str]:
    """All entries above those that may be made, from the top down."""
    made = (one for one in changes if ((one.version == NEW) if isinstance(one, Condition) else (one.value is not None)))
    return sorted({path for one in made for path in above(one.path)}, key=lambda path: path.count("/"))


def above(path: str) -> list[str]:
    """The paths above this one, from the top down."""
    names = path.split("/")[1:-1]
    return ["/".join(["", *names[: depth + 1]]) for depth in range(len(names))]
