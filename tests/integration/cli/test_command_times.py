"""The column of seconds in docs/command.md, and the commands that are measured for it."""

from __future__ import annotations

import shlex

import pytest

from bench.commands import PAGE, TASKS, CommandTask, with_seconds
from ottla.cli.main import parser_for


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.task)
def test_a_measured_task_is_a_row_of_the_page_and_a_command(task: CommandTask) -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| {task.task} |")]
    assert len(rows) == 1
    words = shlex.split(task.ottla.format(n=1, lines="lines", keyed="keyed", offsets="offsets"))
    _, unknown = parser_for(words).parse_known_args(words)
    assert unknown == []


def test_seconds_take_the_place_of_those_before() -> None:
    page = PAGE.read_text()
    assert with_seconds(page, {}) == page
    first = "| task | rpk | ottla |\n|---|---|---|\n| list | `a \\| b` | `ottla topic list` |\n| other | | `ottla topic` |\ntext\n"
    added = with_seconds(first, {"list": {"kcat": 0.01, "ottla": 0.2}})
    assert added.splitlines()[0] == "| task | rpk | ottla | seconds |"
    assert added.splitlines()[2].endswith("| `ottla topic list` | kcat 0.01, ottla 0.20 |")
    assert added.splitlines()[3:] == ["| other | | `ottla topic` | |", "text"]
    assert with_seconds(added, {"list": {"ottla": 0.3}}).splitlines()[2].endswith("| ottla 0.30 |")
