"""The shares of `make full`: each long test is in one of them, they take about as long, and what did not begin is said."""

from __future__ import annotations

import pytest

from tests.support.shares import Share, divide, parse, said
from tools.run_tests import SHARES, todays_share

DAY_S = 86_400


def test_each_file_is_in_one_share_and_none_is_much_longer_than_another() -> None:
    lengths = {f"file {number}": 10.0 + number * 7 % 50 for number in range(60)}
    parts = divide(lengths, 8)
    assert sorted(name for part in parts for name in part) == sorted(lengths)
    sums = [sum(lengths[name] for name in part) for part in parts]
    assert max(sums) - min(sums) <= max(lengths.values())
    assert divide(dict(reversed(lengths.items())), 8) == parts, "every process divides alike"


def test_more_shares_than_files_leave_some_empty() -> None:
    assert divide({"a": 1.0}, 3) == [{"a"}, set(), set()]


@pytest.mark.parametrize("text", ["0/8", "9/8", "8", "a/b", ""])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse(text)


def test_every_share_has_its_day() -> None:
    days = [parse(todays_share(day * DAY_S + 5.0)) for day in range(SHARES)]
    assert sorted(days) == [Share(number, SHARES) for number in range(1, SHARES + 1)]
    assert todays_share(0.0) == todays_share(DAY_S - 1.0)


@pytest.mark.parametrize(
    ("left_out", "begins"), [(0, "Share 3/8 is complete: 40 tests"), (2, "SHARE 3/8 ENDED FOR WANT OF TIME: 40 of its 42")]
)
def test_the_last_line_says_how_far_a_share_came_and_how_to_run_it(left_out: int, begins: str) -> None:
    line = said(Share(3, 8), 40, left_out)
    assert line.startswith(begins)
    assert line.endswith("by hand: make full SHARE=3/8")


@pytest.mark.rows(2)
@pytest.mark.parametrize("number", range(5))
def test_of_the_rows_of_a_test_so_many_run_evenly_spread(request: pytest.FixtureRequest, number: int) -> None:
    """This test's own rows: the first and the third run in `make test`."""
    mark = request.node.get_closest_marker("full")
    assert (mark is None) == (number in (0, 2))
    assert mark is None or mark.kwargs == {"seconds": 2}
