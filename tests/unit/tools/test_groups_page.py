"""The page on groups shows the states that there are, and its assignor works as it stands there."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from ottla.coord.classic.states import State
from ottla.coord.consumer.assign import Assignor, Subscriber, TopicShape
from ottla.coord.consumer.assign.checked_assignor import Checked
from ottla.coord.consumer.states import GroupState, MemberState
from ottla.coord.patterns import MOST_CHARACTERS, MOST_CLASSES
from tests.support.assignments import topic_id
from tools.groups_page import DRAWINGS, redrawn

PAGE = Path(__file__).parents[3] / "docs" / "groups.md"


def test_the_pictures_on_the_page_are_those_that_the_tables_make() -> None:
    assert PAGE.read_text() == redrawn(PAGE.read_text()), "call make docs"


def test_every_drawing_is_on_the_page() -> None:
    assert sorted(re.findall(r"<!-- drawn: (\w+) -->", PAGE.read_text())) == sorted(DRAWINGS)


@pytest.mark.parametrize("states", [State, MemberState, GroupState], ids=lambda states: states.__name__)
def test_every_state_is_spoken_of(states: type[Enum]) -> None:
    page = PAGE.read_text()
    assert not [state for state in states if str(state.value) not in page and state.name.lower() not in page]


def test_a_drawing_that_has_changed_is_drawn_anew() -> None:
    page = "before\n<!-- drawn: consumer_moves -->\nold\n<!-- end -->\nafter\n"
    assert "| stable | when the target is new |" in redrawn(page)
    assert "old" not in redrawn(page)


def test_the_limits_of_patterns_are_those_of_the_code() -> None:
    assert f"{MOST_CHARACTERS:,} characters, {MOST_CLASSES} Unicode classes" in " ".join(PAGE.read_text().split())


def test_the_assignor_on_the_page_assigns() -> None:
    code = re.search(r"```python\n(import ottla.*?)\nwith ", PAGE.read_text(), re.DOTALL)
    assert code is not None
    names: dict[str, Any] = {}
    exec(code[1], names)
    assignor: Assignor = Checked(names["Alone"]())
    subscribers = {name: Subscriber(frozenset({topic_id(1), topic_id(2)})) for name in ("b", "a")}
    assert assignor.assign(subscribers, {topic_id(1): TopicShape(2)}) == {"a": {topic_id(1): frozenset({0, 1})}, "b": {}}
