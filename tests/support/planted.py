"""Mistakes that are planted into what a simulation runs, to see whether it finds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.sim.seeds import Violation


class Mistake(NamedTuple):
    """What is wrong instead of what, and the name of what is not true then. `seed`: one of the first that show it."""

    name: str
    owner: object
    attribute: str
    wrong: Any
    seed: int = 0


def found(name: str, live: Callable[[int], object], seeds: range) -> set[str]:
    """The names of the violations in some seeds, until the one that is looked for is among them."""
    names: set[str] = set()
    for seed in seeds:
        try:
            live(seed)
        except Violation as violation:
            names.add(str(violation).split(": ")[2])
        if name in names:
            break
    return names
