"""The questions of commands at a terminal: the name of what is destroyed, which --yes replaces, and passwords."""

from __future__ import annotations

import argparse
import signal
import sys
from types import FrameType
from typing import NoReturn

from ottla.cli.command.exits import MISUSED, fail
from ottla.cli.command.signals import SIGNALLED


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
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):  # Ctrl-D: the cursor is still behind the question
        print(file=sys.stderr)
    if answer.strip() == name:
        return None
    return fail("Not confirmed: nothing was changed.")


def read_password(prompt: str) -> str:
    """Return a password that is typed at a terminal, empty after Ctrl-D. A signal ends the process, with the echo restored."""
    from getpass import getpass

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(SIGNALLED + number)

    kept = {each: signal.signal(each, end) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    kept[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, signal.SIG_IGN)  # a shell without line editing would stay without echo
    try:
        return getpass(prompt)
    except EOFError:
        print(file=sys.stderr)
        return ""
    except SystemExit:
        print(file=sys.stderr)
        raise
    finally:
        for each, handler in kept.items():
            signal.signal(each, handler)
