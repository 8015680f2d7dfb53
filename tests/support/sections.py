"""Sections of requests that are compared with recorded answers of Apache Kafka: each has states, and each state its cases."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.recorded import recorded
from tests.support.share_differences import Change
from tests.support.share_world import ShareWorld

Differences = Mapping[str, tuple[str, Change]]
"""Case -> the reason, and how Ottla's answer is made from Kafka's."""
Answers = dict[str, dict[str, Any]]
"""What was answered to each case, by section."""


class Section(NamedTuple):
    """Requests of one kind: who asks them, the states, the cases of each, the file of answers, and where Ottla's are others."""

    make: Callable[[ShareWorld], Any]
    states: list[str]
    cases: Callable[[str], Any]
    file: Path
    differences: Differences

    @property
    def names(self) -> list[str]:
        """The name of each case."""
        return [str(case) for state in self.states for case in self.cases(state)]

    def expected(self, seen: Mapping[str, Any], name: str) -> Any:
        """Return the answer that Ottla is to give, from the answers that Apache Kafka was seen to give."""
        return self.differences[name][1](seen[name]) if name in self.differences else seen[name]

    @property
    def answers(self) -> dict[str, Any]:
        """The recorded answers."""
        found: dict[str, Any] = json.loads(self.file.read_text(encoding="utf-8"))
        return found


def pairs(sections: Mapping[str, Section]) -> list[Any]:
    """Return a parameter of a test for each state of each section."""
    return [pytest.param(name, state, id=f"{name}-{state}") for name, section in sections.items() for state in section.states]


def all_seen(sections: Mapping[str, Section], request: pytest.FixtureRequest, peer_name: str) -> Iterator[Answers]:
    """Give a fixture the recorded answers; where they are to be written, write what tests put in."""
    files = {name: recorded(section.file, request, peer_name) for name, section in sections.items()}
    yield {name: next(file) for name, file in files.items()}
    for file in files.values():
        next(file, None)


def compared(section: Section, state: str, world: ShareWorld, known: dict[str, Any], request: pytest.FixtureRequest) -> list[str]:
    """Return a sentence for each case of a state that is not answered as expected; where answers are to be written, take them."""
    answers = section.make(world).answers(state)
    if request.config.getoption("--rewrite-scenarios"):
        known.update(answers)
    is_kafka = request.config.getoption("--peer") != "ottla"
    wanted = {name: known[name] if is_kafka else section.expected(known, name) for name in answers}
    return [f"{name}:\n  {answers[name]}, and expected\n  {wanted[name]}" for name in answers if answers[name] != wanted[name]]
