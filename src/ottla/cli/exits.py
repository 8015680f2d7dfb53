"""How a command ends: its exit code, and one sentence about what went wrong."""

from __future__ import annotations

import sys

COULD_NOT = 1
MISUSED = 2
"""The command line is wrong."""
BROKEN = 70
"""A bug in Ottla ended the broker: `EX_SOFTWARE` of sysexits.h."""


def fail(sentence: str, code: int = COULD_NOT) -> int:
    """Print to standard error what went wrong and what to do; returns the exit code."""
    print(f"ottla: {sentence}", file=sys.stderr)
    return code
