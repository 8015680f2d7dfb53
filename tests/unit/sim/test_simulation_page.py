"""The example of docs/simulation.md: it works, it is the same each time, and it finds a mistake."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.tree.source import ROOT

EXAMPLE = "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / "docs/simulation.md").read_text(), re.DOTALL))
SEEDS = range(8)


def simulation(text: str) -> Callable[[int], list[int]]:
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(text, "docs/simulation.md", "exec"), names)
    simulate: Callable[[int], list[int]] = names["simulate"]
    return simulate


def test_the_example_loses_nothing_and_lives_a_seed_the_same_way_every_time() -> None:
    simulate = simulation(EXAMPLE)
    lived = [simulate(seed) for seed in SEEDS]
    assert any(len(found) > len(set(found)) for found in lived), "the page says that numbers are stored twice"
    assert simulate(0) == lived[0]


def test_the_example_finds_what_acks_1_loses() -> None:
    simulate = simulation(EXAMPLE.replace("acks=-1", "acks=1"))
    with pytest.raises(AssertionError, match="were acknowledged and are lost"):
        [simulate(seed) for seed in SEEDS]
