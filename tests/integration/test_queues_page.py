"""The examples of docs/queues.md run as they are, and its test passes where only Ottla and pytest are installed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cli.main import parser_for

PAGE = (Path(__file__).parents[2] / "docs/queues.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PROGRAMS = [text for text in EXAMPLES if "def test_" not in text]
(TEST,) = (text for text in EXAMPLES if "def test_" in text)


@pytest.mark.parametrize(("text", "printed"), [*zip(PROGRAMS, ["b'5' 1", "7", "'delivery_count': 1"], strict=True)])
def test_an_example_runs(text: str, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(text, "docs/queues.md", "exec"), {})
    assert printed in capsys.readouterr().out


@pytest.mark.parametrize("command", re.findall(r"`ottla ((?:group|consume) [^`]+)`", PAGE))
def test_a_command_is_understood(command: str) -> None:
    words = shlex.split(command)
    chosen = parser_for(words).parse_args(words)
    assert words[-1].lstrip("-") in str(vars(chosen))


def test_the_work_queue_passes_as_a_test(tmp_path: Path) -> None:
    (tmp_path / "test_queue.py").write_text(TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "test_queue.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
