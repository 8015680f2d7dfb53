"""The checkpoints of a script's queries. A checkpoint belongs to a query's target and text, not to its position in the script.

Pure.

A query that is edited in place keeps its checkpoint, which Spark accepts or refuses. Any other new text gets a new checkpoint.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

SHOWN = "select"
"""The target of queries whose rows are shown."""


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """A query and the name of its checkpoint. `current` means that the query was in the last script that ran."""

    target: str
    digest: str
    name: str
    current: bool = True


def digest_of(text: str) -> str:
    """Return a digest of a text that ignores differences in white space."""
    return hashlib.sha256(" ".join(text.split()).encode()).hexdigest()[:16]


class QueryNames:
    """The names of all queries that this pipeline's scripts have ever had."""

    def __init__(self, stored: Mapping[str, Any]) -> None:
        self._known = [NamedQuery(*each) for each in stored.get("queries", [])]

    def as_json(self) -> dict[str, list[list[Any]]]:
        return {"queries": [[each.target, each.digest, each.name, each.current] for each in self._known]}

    def assign(self, queries: Sequence[tuple[str, str]]) -> list[str]:
        """Return the checkpoint name of each query (target, text) of a script. Store the names of new queries."""
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
        """Replace a query's name by the name of a checkpoint that exists."""
        self._known = [replace(each, name=other) if each.name == name else each for each in self._known]


def _taken(left: list[NamedQuery], target: str, digest: str) -> NamedQuery | None:
    """Remove the query with this target and digest from `left`. Return it, or None if there is none."""
    for each in left:
        if (each.target, each.digest) == (target, digest):
            left.remove(each)
            return each
    return None


def _new_name(target: str, digest: str, taken: Iterable[str]) -> str:
    tries = (target, f"{target}-{digest[:8]}", *(f"{target}-{digest[:8]}-{number}" for number in range(2, 1000)))
    return next(each for each in tries if each not in taken)
