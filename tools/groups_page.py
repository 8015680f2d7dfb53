"""Redraw docs/groups.md: states and transitions of groups, from the tables that the code goes by. `make docs` runs it.

The page names what it wants between two comments, `<!-- drawn: classic_groups -->` and `<!-- end -->`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path

from ottla.coord.classic import states as classic
from ottla.coord.consumer import states as consumer
from ottla.wire.errors import ERRORS, NONE

MARKED = re.compile(r"(<!-- drawn: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def redrawn(page: str) -> str:
    """The page with every drawing up to date. Raises KeyError for one that does not exist."""
    return MARKED.sub(lambda found: f"{found[1]}{_text(DRAWINGS[found[2]])}{found[3]}", page)


def _text(lines: Callable[[], Iterator[str]]) -> str:
    return "".join(f"{line}\n" for line in lines())


def _words(member: Enum) -> str:
    return member.name.lower().replace("_", " ")


def _name(state: Enum) -> str:
    return state.name.lower()


def _diagram(first: str, moves: Mapping[tuple[str, str], str]) -> Iterator[str]:
    """`moves`: (state, cause) -> state."""
    yield "```mermaid"
    yield "stateDiagram-v2"
    yield f"    [*] --> {first}"
    yield from (f"    {state} --> {following}: {cause}" for (state, cause), following in moves.items())
    yield "```"


def _classic_groups() -> Iterator[str]:
    moves = {(state.value, _words(cause)): following.value for (state, cause), following in classic.NEXT.items()}
    return _diagram(classic.State.EMPTY.value, moves)


def _classic_requests() -> Iterator[str]:
    yield "| state | Heartbeat | JoinGroup of a member | SyncGroup |"
    yield "|---|---|---|---|"
    for state in classic.HEARTBEAT:
        code = classic.HEARTBEAT[state]
        heartbeat = "is taken" if code == NONE else ERRORS[code].name
        sync = classic.SYNC_GROUP.get(state)
        yield f"| {state.value} | {heartbeat} | {_words(classic.REJOIN[state])} | {'refuse' if sync is None else _words(sync)} |"


def _consumer_members() -> Iterator[str]:
    moves = {
        (_name(state), _words(hindrance)): _name(following)
        for state in consumer.MemberState
        for hindrance, following in consumer.NEXT.items()
    }
    return _diagram(_name(consumer.MemberState.STABLE), moves)


def _consumer_moves() -> Iterator[str]:
    yield "| state of a member | looks for its next assignment |"
    yield "|---|---|"
    yield from (f"| {_name(state)} | {_words(move)} |" for state, move in consumer.MOVES.items())


DRAWINGS: dict[str, Callable[[], Iterator[str]]] = {
    "classic_groups": _classic_groups,
    "classic_requests": _classic_requests,
    "consumer_members": _consumer_members,
    "consumer_moves": _consumer_moves,
}


if __name__ == "__main__":
    docs = Path(__file__).parents[1] / "docs" / "groups.md"
    docs.write_text(redrawn(docs.read_text()))
