"""The confirmation of destructive commands: the user types a name at a terminal, or gives --yes."""

from __future__ import annotations

import argparse
import sys

from ottla.cli.command.exits import MISUSED, fail


def add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def refused(options: argparse.Namespace, effect: str, name: str) -> int | None:
    """Ask the user to type `name`, the name of the thing that will be destroyed.

    Return None if the name was typed or --yes is given, otherwise the exit code. `effect` is a sentence about what is lost. Without
    a terminal, --yes is required.
    """
    if options.yes:
        return None
    if sys.stdin is None or not sys.stdin.isatty():
        return fail(f"{effect} Add --yes, since there is no terminal to confirm it.", MISUSED)
    print(f"{effect} Type {name} to confirm: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() == name:
        return None
    return fail("Not confirmed: nothing was changed.")
