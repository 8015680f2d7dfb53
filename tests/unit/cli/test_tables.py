"""Rows for people and for programs."""

from __future__ import annotations

import pytest

from ottla.cli.tables import as_lines, duration, table


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
