"""Commands of `ottla` that run in the test's process."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from ottla.cli.main import main

Run = Callable[[str], tuple[int, str, str]]
"""Runs a line of words, as a shell splits them. Returns the exit code, the output and the errors."""


def exit_code(line: str) -> int:
    """Run a line, and return its exit code, also where the parser of arguments ends it."""
    try:
        return main(shlex.split(line))
    except SystemExit as end:
        return int(str(end.code))
