"""Writes docs/ottla.1, the man page of `ottla`, from the parsers of its commands. `make docs` runs it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from ottla.cli.command.catalogue import COMMANDS
from ottla.cli.command.parser import Parser
from ottla.cli.main import parser_for

PAGE = Path(__file__).parents[1] / "docs/ottla.1"
ENVIRONMENT = (
    ("OTTLA_BOOTSTRAP_SERVER", "the bootstrap servers of commands without -b and --profile"),
    ("XDG_CONFIG_HOME", "the folder of ottla/profiles (default ~/.config)"),
    ("NO_COLOR", "if it is set, no colours are printed"),
)
EXITS = ((0, "done"), (1, "it could not be done"), (2, "wrong arguments"), (70, "a bug in Ottla"), (130, "ended by Ctrl-C"))


def page() -> str:
    """Return the page in the format of man(7)."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    top = parser_for([])
    yield from ('.TH OTTLA 1 "" "Ottla" "User Commands"', ".SH NAME", f"ottla \\- {_text(top.description)}")
    yield from (".SH SYNOPSIS", ".B ottla", "COMMAND [OPTION]...", ".SH COMMANDS")
    for name, entry in COMMANDS.items():
        commands = parser_for([name]).commands
        if commands is not None:
            yield from _section(commands.parsers[name], entry.summary)
    yield ".SH ENVIRONMENT"
    for name, effect in ENVIRONMENT:
        yield from (".TP", f".B {name}", _text(effect))
    yield ".SH EXIT STATUS"
    for code, meaning in EXITS:
        yield from (".TP", f".B {code}", _text(meaning))


def _section(parser: Parser, summary: str) -> Iterator[str]:
    yield from (f".SS {parser.prog}", _text(parser.description or summary))
    for action in parser._actions:
        if action.help not in (argparse.SUPPRESS, None) and not isinstance(action, argparse._HelpAction):
            yield from (".TP", f".B {_text(_name(action))}", _text(action.help))
    for example in parser.examples:
        yield from (".PP", ".RS", ".nf", f"$ ottla {_text(example.line)}", ".fi", _text(example.effect), ".RE")
    if parser.commands is not None:
        for action in parser.commands._added._choices_actions:
            yield from _section(parser.commands.parsers[action.dest], action.help or "")


def _name(action: argparse.Action) -> str:
    metavar = action.metavar or action.dest.upper()
    shown = " ".join(metavar) if isinstance(metavar, tuple) else metavar
    if not action.option_strings:
        return shown
    return ", ".join(action.option_strings) + ("" if action.nargs == 0 else f" {shown}")


def _text(text: str | None) -> str:
    """Return a text on one line, with the characters escaped that man(7) would read as its own."""
    joined = " ".join((text or "").replace("%%", "%").split())
    escaped = joined.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
