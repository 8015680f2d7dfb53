"""The examples of all helps, and the scenario of each: a function that prepares a world, runs the example and checks its effect."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from ottla.cli.command import catalogue
from ottla.cli.command.parser import Example, Parser
from ottla.cli.main import parser_for

if TYPE_CHECKING:
    from tests.helps.world import HelpWorld

Check = TypeVar("Check", bound="Callable[[HelpWorld], None]")
DAILY = ("topic", "produce", "consume", "group", "config", "doctor")
"""The commands whose examples run on older releases, too."""
ROOMS = (
    "topics",
    "groups",
    "queues",
    "records",
    "settings",
    "administration",
    "operators",
    "directories",
    "pipelines",
    "this_machine",
    "web",
    "schemas",
)
"""The modules with scenarios."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The proof of one example."""

    check: Callable[[HelpWorld], None]
    since: tuple[int, ...]
    """The first release that can do it. Older brokers get one sentence, and exit code 1."""
    needs_kraft: bool
    """Whether a cluster over ZooKeeper cannot do it in any release."""
    only_ottla: str
    """The reason why the example has no effect on other brokers; empty if it has."""
    seconds: float
    """The time that it takes at least; 0 for a moment."""
    only_current: str
    """The reason why older releases are not tried; empty if they are."""


SCENARIOS: dict[str, Scenario] = {}
"""By the line of the example."""


def example(
    line: str, *, since: str = "0.10", needs_kraft: bool = False, only_ottla: str = "", seconds: float = 0, only_current: str = ""
) -> Callable[[Check], Check]:
    """Register the function as the scenario of an example."""

    def register(check: Check) -> Check:
        assert line not in SCENARIOS, f"`ottla {line}` has two scenarios"
        SCENARIOS[line] = Scenario(check, release_of(since), needs_kraft, only_ottla, seconds, only_current)
        return check

    return register


def release_of(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def load() -> None:
    """Import all scenarios."""
    for room in ROOMS:
        import_module(f"tests.helps.scenarios.{room}")


def examples_of(*names: str) -> list[Example]:
    """Return the examples of some commands, or of all commands, in the order of the helps."""
    return [example for name in names or catalogue.COMMANDS for example in _of_parser(_parser(name))]


def _parser(name: str) -> Parser:
    commands = parser_for([name]).commands
    assert commands is not None
    return commands.parsers[name]


def _of_parser(parser: Parser) -> Iterator[Example]:
    yield from parser.examples
    for command in () if parser.commands is None else parser.commands.parsers.values():
        yield from _of_parser(command)
