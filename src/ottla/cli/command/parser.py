"""The parser of arguments: one sentence about a wrong one, the nearest word for a misspelt one, and examples in every help.

Help, man page and shell completion are made from the parsers, so that each command is described once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, NoReturn

from ottla.cli.command import arguments
from ottla.cli.command.exits import MISUSED, fail

COMPLETE = "__complete"
"""The hidden command that scripts of shells run, with the words of the line up to the cursor."""
Run = Callable[[argparse.Namespace], int]
"""Runs a command with its parsed options, and returns the exit code."""


class Example(NamedTuple):
    """A command line as typed, without `ottla`, and one sentence about its effect."""

    line: str
    effect: str


class HelpLines(argparse.HelpFormatter):
    """argparse's formatter of helps. argparse also makes one for each argument, and asks `shutil` for the terminal's width.

    `shutil` imports modules of archives, which takes as long as a tenth of a short command.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=terminal_columns() - 2)


def terminal_columns() -> int:
    """Return the width of the terminal: COLUMNS if it is set, or the width of standard output's terminal, or 80."""
    wanted = os.environ.get("COLUMNS", "")
    if wanted.isdecimal() and int(wanted):
        return int(wanted)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80 if sys.__stdout__ is not None else 80
    except (OSError, ValueError):
        return 80


class Parser(argparse.ArgumentParser):
    """The parser of one command. `examples` are printed below its help."""

    def __init__(self, *, examples: Iterable[Example] = (), **settings: object) -> None:
        super().__init__(**{"allow_abbrev": False, "formatter_class": HelpLines, **settings})  # type: ignore[arg-type]  # argparse's own keyword arguments
        self.examples = tuple(examples)
        self.set_defaults(parser=self)
        self.commands: Commands | None = None
        self._is_intermixing = False

    def group(self, run: Run | None = None) -> Commands:
        """Turn this parser into a command with subcommands, and return the subcommands.

        Without a subcommand, it runs `run`, or prints its help.
        """
        self.set_defaults(run=run or self._help)
        self.commands = Commands(self)
        return self.commands

    def parse_known_args(  # type: ignore[override]  # argparse declares overloads, for namespaces of other classes
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse arguments, with options before, between and after them. argparse alone ends a list of arguments at an option."""
        if self.commands is not None or self._is_intermixing:
            return super().parse_known_args(args, namespace)
        self._is_intermixing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_intermixing = False

    def _help(self, options: argparse.Namespace) -> int:
        self.print_help()
        return MISUSED

    def error(self, message: str) -> NoReturn:
        sys.exit(fail(f"{message}; see `{self.prog} --help`.", MISUSED))

    def _check_value(self, action: argparse.Action, value: object) -> None:
        """Raise `ArgumentError` for a word that is not a choice; its message names the nearest choices."""
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        from difflib import get_close_matches

        near = get_close_matches(str(value), choices, n=1)
        advice = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(choices)}"
        if not near and action.nargs == argparse.PARSER:  # perhaps it is the value of an option
            advice += ", and write options after it"
        raise argparse.ArgumentError(action, f"invalid choice: {value!r}: {advice}")

    def known_options(self, words: Iterable[str]) -> list[str]:
        """Return the words that are options of this command."""
        return [word for word in words if word.partition("=")[0] in self._option_string_actions]

    def nearest_options(self, words: Iterable[str]) -> list[str]:
        """Return the option that is nearest to each misspelt one in `words`; none for a word that resembles no option."""
        known = [option for action in self._actions for option in action.option_strings if action.help != argparse.SUPPRESS]
        misspelt = (word.partition("=")[0] for word in words if word.startswith("--"))
        from difflib import get_close_matches

        return [near for word in misspelt for near in get_close_matches(word, known, n=1)]

    def format_help(self) -> str:
        if not self.examples:
            return super().format_help()
        lines = (f"  $ ottla {example.line}\n      {example.effect}\n" for example in self.examples)
        return "".join((super().format_help(), "\nexamples:\n", *lines))


class Commands:
    """The subcommands of a parser, by name."""

    def __init__(self, parser: Parser) -> None:
        # With a `prog`, argparse does not format a usage to find one, which would import the modules of archives.
        self._added = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=Parser, prog=parser.prog)
        self.parsers: dict[str, Parser] = {}

    def add(
        self, name: str, summary: str, run: Run | None = None, *, description: str = "", examples: Sequence[Example] = ()
    ) -> Parser:
        """Add a subcommand, and return its parser.

        `summary` is its line in the list of commands, `description` begins its own help.
        """
        parser = self._added.add_parser(name, help=summary, description=description or None, examples=examples)
        if run is not None:
            parser.set_defaults(run=run)
        self.parsers[name] = parser
        return parser


def completes(action: argparse.Action, kind: str) -> None:
    """Record that the shell can complete an argument with names of a kind, which `completion.candidates.NAMES` has.

    An argument without a type of its own gets the type of names.
    """
    action.type = action.type or arguments.name
    action.completes = kind  # type: ignore[attr-defined]  # an attribute of ours: argparse has no place for it


def first_duplicate(words: Iterable[str]) -> str | None:
    """Return the first word that occurs twice, or None."""
    seen: set[str] = set()
    for word in words:
        if word in seen:
            return word
        seen.add(word)
    return None
