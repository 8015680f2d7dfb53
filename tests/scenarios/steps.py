"""Random steps of random clients, for groups that must keep their invariants whatever is done to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import strategies as st

MOST_STEPS = 60


class Step(NamedTuple):
    """What one client does; `choice` (0 to 31) picks one way of doing it."""

    verb: str
    client: int
    choice: int


def steps(verbs: Sequence[str], clients: int) -> st.SearchStrategy[list[Step]]:
    """Lists of steps; a verb that is named twice comes twice as often."""
    step = st.builds(Step, st.sampled_from(verbs), st.integers(0, clients - 1), st.integers(0, 31))
    return st.lists(step, min_size=1, max_size=MOST_STEPS)
