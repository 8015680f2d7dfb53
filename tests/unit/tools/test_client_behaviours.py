"""The checklist of other clients' behaviours names tests that exist, and says of each behaviour whether it is the same here."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "client-behaviours.md").read_text(encoding="utf-8")
LEAST = 150
THEIRS = re.compile(r"(kafka-python|aiokafka|confluent-kafka) `test_\w+`")


class Behaviour(NamedTuple):
    what: str
    theirs: str
    here: str
    test: str


def read_rows(page: str) -> Iterator[Behaviour]:
    for line in page.splitlines():
        if line.startswith("| ") and not line.startswith("| behaviour "):
            yield Behaviour(*(cell.strip() for cell in line.strip("|").split(" | ")))


ROWS = list(read_rows(PAGE))


@cache
def names_in(path: str) -> frozenset[str]:
    """Return the names of the tests of a module."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.what.replace(" ", "_")[:50])
def test_the_named_test_exists(row: Behaviour) -> None:
    path, _, name = row.test.strip("`").partition("::")
    assert name.startswith("test_")
    assert name in names_in(path)


def test_each_behaviour_says_who_checks_it_and_what_is_different() -> None:
    assert not [row.what for row in ROWS if THEIRS.sub("", row.theirs).strip(", ")]
    assert not [row.what for row in ROWS if row.here != "same" and not re.match(r"different: .{10}", row.here)]


def test_there_are_many_behaviours_and_none_is_counted_twice() -> None:
    counts = Counter(row.what.lower() for row in ROWS)
    assert max(counts.values()) == 1
    assert len(counts) >= LEAST
    assert f" {len(ROWS)} behaviours" in " ".join(PAGE.split())


def test_every_library_is_among_them() -> None:
    named = Counter(library for row in ROWS for library in set(THEIRS.findall(row.theirs)))
    assert set(named) == {"kafka-python", "aiokafka", "confluent-kafka"}
    assert min(named.values()) >= LEAST // 3
