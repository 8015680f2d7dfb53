"""Which checkpoint belongs to which query of a script: by the query's target and text, wherever in the script it stands. Pure.

A query that is edited in its place keeps its checkpoint, which Spark allows or refuses. Any other new text begins anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

SHOWN = "select"
"""The target of rows that are shown."""


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """A query and the name of its checkpoint. `current`: the last script that ran had it."""

    target: str
    digest: str
    name: str
    current: bool = True


def digest_of(text: str) -> str:
    """Return the same for texts that differ in blanks alone."""
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:16]


class QueryNames:
    """The names of all queries that a state has ever had."""

    def __init__(self, stored: Mapping[str, Any]) -> None:
        self._known = [NamedQuery(*each) for each in stored.get("queries", [])]

    def as_json(self) -> dict[str, list[list[Any]]]:
        return {"queries": [[each.target, each.digest, each.name, each.current] for each in self._known]}

    def assign(self, queries: Sequence[tuple[str, str]]) -> list[str]:
        """Return the name of each query of a script, which are given as target and text, and remember them."""
        wanted = [(target, digest_of(text)) for target, text in queries]
        left = list(self._known)
        found = [_taken(left, target, digest) for target, digest in wanted]
        for target in {target for target, _ in wanted}:
            edited = [place for place, (each, _) in enumerate(wanted) if each == target and found[place] is None]
            before = [each for each in left if each.target == target and each.current]
            if len(edited) == len(before) == 1:
                left.remove(before[0])
                found[edited[0]] = before[0]
        names: list[str] = []
        taken = {each.name for each in self._known}
        for known, (target, digest) in zip(found, wanted, strict=True):
            names.append(known.name if known is not None else _new_name(target, digest, taken))
            taken.add(names[-1])
        queries_now = [NamedQuery(*each, name) for each, name in zip(wanted, names, strict=True)]
        self._known = [*queries_now, *(replace(each, current=False) for each in left)]
        return names

    def rename(self, name: str, other: str) -> None:
        """Give a query the name of a checkpoint that is there already."""
        self._known = [replace(each, name=other) if each.name == name else each for each in self._known]


def _taken(left: list[NamedQuery], target: str, digest: str) -> NamedQuery | None:
    """Take the query out of those that are left."""
    for each in left:
        if (each.target, each.digest) == (target, digest):
            left.remove(each)
            return each
    return None


def _new_name(target: str, digest: str, taken: Iterable[str]) -> str:
    tries = (target, f"{target}-{digest[:8]}", *(f"{target}-{digest[:8]}-{number}" for number in range(2, 1000)))
    return next(each for each in tries if each not in taken)
