"""The pauses between the tries of a call."""

from __future__ import annotations

import pytest

from ottla.client.connection.retry_pauses import RetryPauses

MEAN = 0.5


def test_pauses_double_up_to_the_longest() -> None:
    pauses = RetryPauses(100, 1_000)
    assert [pauses.after(tries, 60_000, MEAN) for tries in (1, 2, 3, 4, 5, 6, 1_000)] == [100, 200, 400, 800, 1_000, 1_000, 1_000]


@pytest.mark.parametrize(("random", "pause_ms"), [(0.0, 320), (0.25, 360), (1.0, 480)])
def test_pauses_differ_by_a_fifth_so_that_clients_do_not_come_back_together(random: float, pause_ms: int) -> None:
    assert RetryPauses(100, 1_000).after(3, 60_000, random) == pause_ms


@pytest.mark.parametrize(("left_ms", "pause_ms"), [(1_200, 1_000), (700, 600), (150, 100), (0, 100)])
def test_a_call_tries_again_shortly_before_its_end(left_ms: int, pause_ms: int) -> None:
    assert RetryPauses(100, 1_000).after(5, left_ms, MEAN) == pause_ms


@pytest.mark.parametrize(("first_ms", "longest_ms", "pause_ms"), [(5_000, 1_000, 1_000), (0, 1_000, 0), (100, 0, 0)])
def test_the_longest_pause_bounds_the_first(first_ms: int, longest_ms: int, pause_ms: int) -> None:
    assert RetryPauses(first_ms, longest_ms).after(1, 60_000, MEAN) == pause_ms
