"""The records in flight of a share partition: which can be acquired, and how many are complete."""

from __future__ import annotations

import pytest

from ottla.share.cells import ACKNOWLEDGED, AVAILABLE, free_cell, held_cell
from ottla.share.window import CellChange, InFlightWindow


@pytest.fixture
def window() -> InFlightWindow:
    """Records 10 to 49: ten are held, ten accepted, ten missing, and ten available."""
    window = InFlightWindow()
    window.extend(10, 29, held_cell(1, "member", 1000))
    window.extend(40, 49, free_cell(AVAILABLE, 1))
    window.replace([CellChange(20, 29, free_cell(ACKNOWLEDGED, 1))])
    return window


@pytest.mark.parametrize(
    ("first", "last", "found"),
    [(10, 49, 40), (10, 39, None), (45, 60, 45), (49, 49, 49), (45, 44, None), (50, 60, None), (0, 40, 40)],
)
def test_the_first_record_that_can_be_acquired_is_between_both_offsets(
    window: InFlightWindow, first: int, last: int, found: int | None
) -> None:
    assert window.acquirable_from(first, last) == found


def test_the_first_record_that_can_be_acquired_is_found_again_after_a_release(window: InFlightWindow) -> None:
    assert window.first_acquirable() == 40
    window.replace([CellChange(40, 49, held_cell(2, "member", 1000))])
    assert window.first_acquirable() is None
    window.replace([CellChange(15, 16, free_cell(AVAILABLE, 1))])
    assert window.first_acquirable() == 15


@pytest.mark.parametrize(("start_offset", "complete"), [(10, 10), (20, 10), (25, 5), (30, 0), (45, 0), (60, 0)])
def test_records_before_the_start_are_not_complete_in_flight(window: InFlightWindow, start_offset: int, complete: int) -> None:
    window.drop_before(start_offset)
    assert window.complete_count == complete == window.count_complete(start_offset)
