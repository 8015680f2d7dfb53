"""The values of pages as JSON, the parameters of views, and lists that are sorted and cut into pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from ottla.console.declarations import PageRefused
from ottla.console.rows import ROWS, cut, filter_rows, sorted_by
from ottla.console.values import arguments, as_json
from ottla.console.views.settings_text import settings_of


@dataclass(frozen=True)
class Inner:
    number: int


@dataclass(frozen=True)
class Outer:
    inner: list[Inner]
    rate: float
    words: dict[str, str | None]


def test_dataclasses_are_json() -> None:
    outer = Outer([Inner(1)], float("nan"), {"a": None})
    assert as_json(outer) == {"inner": [{"number": 1}], "rate": None, "words": {"a": None}}


async def view(
    cluster: object, name: str, page: int = 1, exact: bool = False, share: float | None = None, of: list[int] | None = None
) -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"name": "a"}, {"name": "a"}),
        ({"name": ""}, {"name": ""}),
        ({"name": "a", "page": "7", "exact": "on", "share": "0.5"}, {"name": "a", "page": 7, "exact": True, "share": 0.5}),
        ({"name": "a", "page": "", "share": None}, {"name": "a"}),
        ({"name": ["a", "b"], "of": ["1", "2"]}, {"name": "b", "of": [1, 2]}),
        ({"name": "a", "of": "3", "other": "x"}, {"name": "a", "of": [3]}),
        ({"name": "a", "page": 7, "exact": False}, {"name": "a", "page": 7, "exact": False}),
    ],
)
def test_texts_and_json_become_arguments(given: dict[str, Any], found: dict[str, Any]) -> None:
    assert arguments(view, given) == found


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "name is missing: give a text."),
        ({"name": "a", "page": "x"}, "page is a whole number, not 'x'."),
        ({"name": "a", "page": "9" * 30}, "page is a whole number"),
        ({"name": "a", "page": float("inf")}, "page is a whole number, not 'inf'."),
        ({"name": "a", "share": "nan"}, "share is a number, not 'nan'."),
        ({"name": "a", "exact": "maybe"}, "exact is true or false, not 'maybe'."),
        ({"name": "a", "page": True}, "page is a whole number, not 'True'."),
        ({"name": 1}, "name is a text, not '1'."),
        ({"name": {"a": 1}}, "name is a text"),
        ({"name": "a", "nome": "b"}, "nome is not a parameter here"),
    ],
)
def test_a_wrong_argument_is_named(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(PageRefused, match="^" + sentence.replace(".", r"\.")) as refused:
        arguments(view, given, is_strict=True)
    assert refused.value.status == 400


def test_lists_are_filtered_sorted_and_cut() -> None:
    rows = [f"t{number:03}" for number in range(250)]
    assert filter_rows(rows, " T00", str) == rows[:10]
    some, place = cut(rows, 3, 300)
    assert some == rows[200:]
    assert (place.page, place.pages, place.matching, place.total) == (3, 3, 250, 300)
    assert cut(rows, 9, 300)[1].page == 3
    assert cut([], 0, 0)[1].pages == 1
    assert len(cut(rows, -5, 300)[0]) == ROWS


def test_unknown_values_are_sorted_last() -> None:
    rows: list[int | None] = [2, None, 1]
    assert sorted_by(rows, "n", {"n": lambda row: row}) == [1, 2, None]
    assert sorted_by(rows, "-n", {"n": lambda row: row}) == [2, 1, None]
    with pytest.raises(PageRefused, match="no column 'x'"):
        sorted_by(rows, "x", {"n": lambda row: row})


def test_settings_are_lines() -> None:
    assert settings_of(" retention.ms = 5 \n\ncleanup.policy=compact,delete\na=b=c") == {
        "retention.ms": "5",
        "cleanup.policy": "compact,delete",
        "a": "b=c",
    }
    with pytest.raises(PageRefused, match="'retention' is not a setting"):
        settings_of("retention")
