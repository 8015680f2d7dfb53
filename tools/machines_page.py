"""docs/machines.md: the machines with their states and transitions, from the table in each one's docstring.

    python -m tools.machines_page

A row has states, events and the next state. One with several states or events, with commas between them, is a row for each pair;
`=` is the same state. `tests/unit/test_machines.py` holds every table against its machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parent.parent / "docs" / "machines.md"
START = "[*]"
"""The state before the first one and after the last one, as mermaid writes it."""

HEAD = """\
# Machines

Each machine decides by its state and by what happens; here is every transition that it has. The tables are in the docstrings of the
modules, from which `make docs` makes this page, and a test drives each machine through every one of them: it fails when the code
has a transition that a table lacks, or a table one that the code never makes. What is not in a table changes no state.
"""

MACHINES = {
    "Classic group": "ottla.coord.classic.states",
    "Consumer group": "ottla.coord.consumer.group",
    "Member of a consumer group": "ottla.coord.consumer.states",
    "Share group": "ottla.coord.share.group",
    "Streams group": "ottla.coord.streams.group",
    "Member of a streams group": "ottla.coord.streams.states",
    "Transaction": "ottla.coord.transactions.transaction",
    "Replica of a partition: leader and follower": "ottla.broker.replication.replica",
    "Controller": "ottla.broker.controller.controller",
    "Producer with transactions": "ottla.client.producer.transactions",
    "Consumer in a classic group": "ottla.client.consumer.membership",
    "Consumer in a consumer group": "ottla.client.consumer.consumer_membership",
    "Exactly-once sink": "ottla.once",
}
"""Title -> the module whose docstring has the table."""


class Transition(NamedTuple):
    """One row of a table."""

    state: str
    event: str
    following: str


def table(module: str) -> list[Transition]:
    """Return the transitions in a module's docstring, one for each state."""
    return [
        Transition(state, event, state if following == "=" else following)
        for states, events, following in _rows(import_module(module).__doc__ or "")
        for state in states.split(", ")
        for event in events.split(", ")
    ]


def page() -> str:
    """Return the page of all machines."""
    return HEAD + "".join(f"\n{_section(title, module)}" for title, module in MACHINES.items())


def _section(title: str, module: str) -> str:
    text = import_module(module).__doc__ or ""
    prose = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("|")).strip()
    rows = "\n".join(f"| {' | '.join(row)} |" for row in _rows(text))
    return (
        f"## {title}\n\n`{module}`: {prose}\n\n```mermaid\n{_drawing(table(module))}\n```\n\n"
        f"| state | event | next state |\n|---|---|---|\n{rows}\n"
    )


def _rows(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the rows as they are written, without the head of the table."""
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("|")]
    for line in lines[2:]:
        states, events, following = (cell.strip() for cell in line.strip("|").split("|"))
        yield states, events, following


def _drawing(transitions: list[Transition]) -> str:
    """Return a state diagram for mermaid; events between the same two states share an arrow."""
    names = dict.fromkeys(name for each in transitions for name in (each.state, each.following) if name != START)
    arrows: dict[tuple[str, str], list[str]] = {}
    for each in transitions:
        arrows.setdefault((_id(each.state), _id(each.following)), []).append(each.event)
    lines = [f'    state "{name}" as {_id(name)}' for name in names if _id(name) != name]
    lines += [f"    {before} --> {after}: {', '.join(dict.fromkeys(events))}" for (before, after), events in arrows.items()]
    return "\n".join(["stateDiagram-v2", *lines])


def _id(name: str) -> str:
    return name if name == START else re.sub(r"\W+", "_", name)


def main() -> None:
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
