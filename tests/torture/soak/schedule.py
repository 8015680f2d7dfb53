"""What happens to the broker and when, from a seed."""

from __future__ import annotations

import random
from typing import NamedTuple

KILL, STOP, MOVE, MEMBER = "kills", "stops", "weeks", "members killed"

RESTART_EVERY_S = 60.0
LEAST_RESTARTS = 9
"""Of a short run: then they come more often."""

LONGEST_LIFE = 0.25
"""The share of the run at whose end the broker is left running, so that it shows what it keeps."""

MOVE_EVERY_S = 300.0
LEAST_MOVES = 3
CALM_S = 5.0
"""How long nothing else happens around a move of the clock: producers' state expires then, and nothing is to be sent again."""

MEMBER_EVERY_S = 12.0


class Event(NamedTuple):
    at_s: float
    what: str


def schedule(seconds: float, choice: random.Random) -> list[Event]:
    """In order of time."""
    every = min(RESTART_EVERY_S, seconds * (1 - LONGEST_LIFE) / LEAST_RESTARTS)
    restarts: list[Event] = []
    at = every * choice.uniform(0.5, 1)
    while at < seconds * (1 - LONGEST_LIFE):
        restarts.append(Event(at, choice.choice((KILL, STOP))))
        at += every * choice.uniform(0.7, 1.3)
    moves = [Event(at, MOVE) for at in _calm_times(seconds, [event.at_s for event in restarts])]
    members = [Event(at * MEMBER_EVERY_S, MEMBER) for at in range(2, int(seconds / MEMBER_EVERY_S))]
    return sorted(restarts + moves + members)


def _calm_times(seconds: float, busy: list[float]) -> list[float]:
    """Moments for the clock to move, each as far from its neighbours as may be."""
    count = max(LEAST_MOVES, int(seconds / MOVE_EVERY_S))
    gaps = list(zip([0.0, *busy], [*busy, seconds], strict=True))
    wide = [(begin, end) for begin, end in gaps if end - begin > 2 * CALM_S]
    chosen = wide[:: max(1, len(wide) // count)][: count - 1] + wide[-1:]
    return sorted({(begin + end) / 2 for begin, end in chosen})
