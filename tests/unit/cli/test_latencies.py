"""The percentiles of `ottla bench`, beside those of sorted lists."""

from __future__ import annotations

import math
import random

import pytest

from ottla.cli.bench.latencies import LatencyHistogram
from ottla.cli.bench.produce_load import payloads


@pytest.mark.parametrize("seed", range(20))
def test_percentiles_are_those_of_a_sorted_list(seed: int) -> None:
    chance = random.Random(seed)
    pairs = [(chance.lognormvariate(-5, 2), chance.randrange(1, 50)) for _ in range(chance.randrange(1, 400))]
    histogram = LatencyHistogram()
    for latency_s, count in pairs:
        histogram.add(latency_s, count)
    each = sorted(latency_s * 1000 for latency_s, count in pairs for _ in range(count))
    for percent in (0.1, 50, 95, 99, 99.9, 100):
        expected = each[max(0, math.ceil(len(each) * percent / 100) - 1)]
        assert expected * 0.997 - 0.001 <= histogram.percentile_ms(percent) <= expected
    assert histogram.count == len(each)
    assert histogram.max_ms == pytest.approx(each[-1])
    assert histogram.mean_ms == pytest.approx(sum(each) / len(each))


def test_without_latencies_all_figures_are_0() -> None:
    assert set(LatencyHistogram().row().values()) == {0.0}


@pytest.mark.parametrize(
    ("count", "size", "number"), [(1, 100, 1), (5, 1, 5), (10**9, 100, 10_000), (100, 2**21, 8), (9, 2**24 + 1, 1)]
)
def test_payloads_are_letters_of_the_size_in_bounded_memory(count: int, size: int, number: int) -> None:
    found = payloads(count, size)
    assert len(found) == number
    assert {len(value) for value in found} == {size}
    assert found[0].isalpha()
    assert found[0].isupper()
