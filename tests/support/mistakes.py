"""The judge of commands that go wrong: an exit code, and one sentence on standard error."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest

from tests.support.commands import exit_code


class Outcome(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


class Commands:
    """Commands that run in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def run(self, line: str) -> Outcome:
        """Run a line of words as a shell splits them."""
        self._capsys.readouterr()
        return Outcome(exit_code(line), *self._capsys.readouterr())

    def check_mistake(self, line: str, code: int, *parts: str) -> None:
        """Check that a line fails with this code, in one sentence with these parts, and so with --json."""
        found = self.run(line)
        assert (found.code, found.out) == (code, ""), found
        assert found.err.startswith("ottla: "), found.err
        assert found.err.count("\n") == 1, found.err
        for part in parts:
            assert part in found.err, found.err
        in_json = self.run(f"{line} --json")
        if in_json.code == code:  # some words take --json as a value of theirs, and some commands have no such option
            assert json.loads(in_json.err)["exit_code"] == code
