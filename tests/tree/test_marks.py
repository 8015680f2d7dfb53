"""Every mark of a test is registered with a target that runs its tests, and every test runs in `make full`, most in `make test`."""

from __future__ import annotations

import re
import tomllib

from tests.tree.source import ROOT, sources
from tools.run_tests import SPEEDS

OF_NO_KIND = {"expects_errors", "rows", "since"}
"""Marks that say how a test is judged and which of its rows run, and not what it needs."""


def registered() -> set[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["markers"]
    return {re.split(r"\W", line, maxsplit=1)[0] for line in settings} - OF_NO_KIND


def test_every_mark_has_a_target_that_the_makefile_and_contributing_name() -> None:
    targets = {f"test-{mark}" for mark in registered()}
    assert set(re.findall(r"test-[a-z]+", (ROOT / "Makefile").read_text())) >= targets
    assert set(re.findall(r"test-[a-z]+", (ROOT / "CONTRIBUTING.md").read_text())) >= targets


def test_every_mark_is_borne_by_tests() -> None:
    texts = [source.text for source in sources("tests")]
    assert not [mark for mark in registered() if not any(re.search(rf"\bmark\.{mark}\b", text) for text in texts)]


def test_speeds_choose_by_marks_and_the_slowest_leaves_nothing_out() -> None:
    named = {mark for arguments in SPEEDS.values() for mark in re.findall(r"not (\w+)", " ".join(arguments))}
    assert named <= registered()
    assert "-m" not in SPEEDS["full"]
    assert SPEEDS["test"][:2] == ["-m", "not full"]
