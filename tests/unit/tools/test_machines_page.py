"""The page of machines is made from the tables that other tests hold against the code."""

from __future__ import annotations

import pytest

from tools.machines_page import MACHINES, PAGE, page, table


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run make docs"


@pytest.mark.parametrize("module", MACHINES.values())
def test_no_transition_is_written_twice(module: str) -> None:
    rows = table(module)
    assert len(set(rows)) == len(rows) > 0
