"""mypy and pyright in their strict modes: the programs pass, and in `mistakes` they report the marked lines and no others."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tree.source import ROOT

HERE = Path(__file__).parent
PROGRAMS = sorted((HERE / "programs").glob("*.py"))
MISTAKES = sorted((HERE / "mistakes").glob("*.py"))
Line = tuple[str, int]


def marked() -> set[Line]:
    """Return the lines that type checkers must report, by file and number."""
    return {
        (path.name, number)
        for path in MISTAKES
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if "# mistake" in line
    }


def run(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=100, check=False).stdout


def test_there_are_thirteen_programs_and_many_mistakes() -> None:
    assert len(PROGRAMS) == 13
    assert len(marked()) > 80


@pytest.mark.full(seconds=30)
def test_mypy_reports_the_marked_lines_and_no_others() -> None:
    pytest.importorskip("mypy", reason="mypy is absent: pip install mypy")
    found = run(sys.executable, "-m", "mypy", "--no-pretty", *PROGRAMS, *MISTAKES)
    reported = {(Path(path).name, int(number)) for path, number in re.findall(r"^(\S+\.py):(\d+): error:", found, re.MULTILINE)}
    assert reported == marked()


def find_pyright() -> Path:
    """Return the path of pyright. Skip the test where it is absent or cannot start, as without a network for its first start."""
    found = shutil.which("pyright", path=str(Path(sys.executable).parent)) or shutil.which("pyright")
    if found is None:
        pytest.skip("pyright is absent: pip install 'pyright[nodejs]'")
    started = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=60, check=False)
    if started.returncode:
        pytest.skip(f"pyright does not start: {(started.stderr or started.stdout)[-200:]}")
    return Path(found)


@pytest.mark.full(seconds=30)
def test_pyright_reports_the_marked_lines_and_no_others() -> None:
    found = run(find_pyright(), "--project", HERE / "pyrightconfig.json", "--pythonpath", sys.executable, "--outputjson")
    report = json.loads(found)
    assert report["summary"]["filesAnalyzed"] == len(PROGRAMS) + len(MISTAKES)
    lines = {(Path(each["file"]).name, each["range"]["start"]["line"] + 1) for each in report["generalDiagnostics"]}
    assert lines == marked()
