"""Rows for people and for programs."""

from __future__ import annotations

import os

import pytest

from ottla.cli.command.output import as_lines, duration, table


def test_columns_are_as_wide_as_their_widest_cell_and_nothing_is_a_dash() -> None:
    assert table(("ID", "STATE"), [("a", None), ("longer", 7)]) == ["ID      STATE", "a       -", "longer  7"]
    assert table(("ID", "STATE"), []) == ["ID  STATE"]


def test_each_row_is_an_object_of_its_own() -> None:
    assert as_lines([{"id": "ü", "open": None}, {"id": 1}]) == ['{"id": "ü", "open": null}', '{"id": 1}']


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0 ms"), (999, "999 ms"), (1000, "1 s"), (61_000, "1 min 1 s"), (3_600_000, "1 h 0 min"), (90_060_000, "25 h 1 min")],
)
def test_a_duration_is_told_in_the_units_that_matter(ms: int, text: str) -> None:
    assert duration(ms) == text


def test_control_characters_of_names_are_escapes() -> None:
    assert table(("ID",), [("a\nb",), ("\x1b[2J",), ("\x9b2J",), ("\x1b[31mred\x1b[0m",)]) == [
        "ID", "a\\nb", "\\x1b[2J", "\\x9b2J", "\x1b[31mred\x1b[0m",
    ]  # fmt: skip


def on_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_, **__: os.terminal_size((columns, 24)))


def test_a_table_wider_than_its_terminal_is_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    rows = [("a" * 30, 7), ("b", None)]
    on_terminal(monkeypatch, 40)
    assert table(("ID", "STATE"), rows) == [f"{'ID':30}  STATE", f"{'a' * 30}  7", f"{'b':30}  -"]
    on_terminal(monkeypatch, 36)
    assert table(("ID", "STATE"), rows) == [f"ID     {'a' * 30}", "STATE  7", "", "ID     b", "STATE  -"]


def test_headers_are_bold_on_a_terminal_that_has_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert table(("ID",), [("a",)]) == ["ID", "a"]
    on_terminal(monkeypatch, 80)
    assert table(("ID",), [("a",)]) == ["\x1b[1mID\x1b[0m", "a"]
    monkeypatch.setenv("TERM", "dumb")
    assert table(("ID",), [("a",)]) == ["ID", "a"]
