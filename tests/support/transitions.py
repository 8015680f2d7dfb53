"""A machine beside the table in its module's docstring: each transition that it makes is a row, and each row is made."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from copy import deepcopy
from typing import TypeVar

from tools.machines_page import Transition, table

M = TypeVar("M")


def differences(module: str, observed: Iterable[Transition]) -> dict[str, list[str]]:
    """Return the transitions that were observed and are no rows of the table, and the rows that were not observed.

    An event that changes no state needs no row.
    """
    rows = set(table(module))
    seen = {each for each in observed if each.state != each.following or each in rows}
    found = {"the table lacks": shown(seen - rows), "the machine never makes": shown(rows - seen)}
    return {kind: transitions for kind, transitions in found.items() if transitions}


def shown(transitions: Iterable[Transition]) -> list[str]:
    return sorted(f"| {each.state} | {each.event} | {each.following} |" for each in transitions)


def explored(
    start: M, events: Mapping[str, Callable[[M], object]], state: Callable[[M], str], key: Callable[[M], Hashable]
) -> set[Transition]:
    """Return all transitions that can be reached from `start`. An event that raises is refused, and must change nothing.

    `key` distinguishes machines of one state that act differently.
    """
    known, left, found = {key(start)}, [start], set[Transition]()
    while left:
        machine = left.pop()
        for name, happen in events.items():
            after = deepcopy(machine)
            happen(after)
            found.add(Transition(state(machine), name, state(after)))
            if key(after) not in known:
                known.add(key(after))
                left.append(after)
    return found
