"""Histograms of durations: which bucket counts a duration, and the quantiles of the last minutes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import pytest

from ottla.broker.metrics.durations import WINDOW_MS, RecentDurations, limits_ns
from ottla.net import kernel_meter

US = 1000


def uncompiled() -> ModuleType:
    """Return the kernel as plain Python."""
    source = Path(__file__).parents[4] / "src/ottla/net/kernel_meter.py"
    spec = importlib.util.spec_from_file_location("ottla.net.kernel_meter", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


KERNELS = [pytest.param(uncompiled(), id="uncompiled")]
if kernel_meter.COMPILED:
    KERNELS.append(pytest.param(kernel_meter, id="compiled"))


@pytest.mark.parametrize("kernel", KERNELS)
def test_each_duration_is_counted_below_the_limit_of_its_bucket(kernel: ModuleType) -> None:
    limits = limits_ns(kernel.BUCKETS, kernel.FIRST_NS)
    assert len(limits) == kernel.BUCKETS - 1
    edges = [value for limit in limits for value in (limit - 1, limit, limit + 1)]
    durations = [-1, 0, 1, *edges, *(int(10 ** Random(seed).uniform(0, 12)) for seed in range(200))]
    for duration in durations:
        meter = kernel.StageHistograms(2)
        meter.add(1, duration)
        cells = list(meter.cells[kernel.WIDTH :])
        bucket = cells.index(1)
        assert bucket == kernel.BUCKETS - 1 or duration < limits[bucket]
        assert bucket == 0 or duration >= limits[bucket - 1]
        assert cells[kernel.BUCKETS] == max(0, duration)
        assert not any(meter.cells[: kernel.WIDTH])


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_served_request_counts_in_three_stages_and_a_delayed_one_in_two(kernel: ModuleType) -> None:
    meter = kernel.StageHistograms(6)
    meter.add_served(20 * US, 50 * US)
    meter.add_begun(20 * US, 100 * US)
    sums = [meter.cells[stage * kernel.WIDTH + kernel.BUCKETS] // US for stage in range(6)]
    assert sums == [40, 150, 0, 0, 0, 70]


class Meters:
    """The meters of a test: one for each API and version, and a list of what was slow."""

    def __init__(self, kernel: ModuleType) -> None:
        self.kernel = kernel
        self.by_api: dict[bytes, Any] = {}
        self.slow_ns: int | None = None
        self.slow: list[tuple[object, ...]] = []

    def find(self, frame: memoryview) -> Any:
        return self.by_api.setdefault(bytes(frame[:4]), self.kernel.StageHistograms(6))

    def log_slow(self, *slow: object) -> None:
        self.slow.append(slow)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_watch_counts_each_request_at_the_meter_of_its_api_and_keeps_what_is_delayed(kernel: ModuleType) -> None:
    class Delayed:
        """A delayed reply."""

    meters, delayed = Meters(kernel), Delayed()
    answers: list[object] = [None, b"", delayed, None, None]
    watch = kernel.RequestWatch(lambda *request: answers.pop(0), Delayed, meters, 6)
    produce, fetch = (memoryview(bytes([0, key, 0, 9]) + b"rest") for key in (0, 1))
    watch.arrive()
    assert watch.receive(produce, "peer", "now", True) is None
    assert watch.last is meters.by_api[bytes(produce[:4])]
    assert watch.receive(fetch, "peer", "now", True) == b""
    assert watch.receive(fetch, "peer", "now", True) is delayed
    ((reply, (meter, queue_ns, local_ns, ended_ns, head)),) = watch.begun.items()
    assert (reply, meter, head) == (delayed, meters.by_api[bytes(fetch[:4])], b"")
    assert min(queue_ns, local_ns) >= 0
    assert ended_ns <= kernel.clock_ns()
    meters.slow_ns = 0
    watch.resume()
    assert watch.receive(memoryview(b"\0\1"), "peer", "now", True) is None
    assert [slow[2] for slow in meters.slow] == ["peer"]
    assert watch.receive(produce, "peer", "now", True) is None
    counts = {api: sum(meter.cells[: kernel.BUCKETS]) for api, meter in meters.by_api.items()}
    assert counts == {bytes(produce[:4]): 2, bytes(fetch[:4]): 2, b"\0\1": 1}


def cells_of(durations: list[int]) -> list[int]:
    meter = kernel_meter.StageHistograms(1)
    for duration in durations:
        meter.add(0, duration)
    return list(meter.cells)


def recent() -> RecentDurations:
    return RecentDurations(kernel_meter.BUCKETS, kernel_meter.FIRST_NS)


def test_quantiles_are_within_an_eighth_of_the_exact_ones() -> None:
    random = Random(7)
    durations = sorted(int(random.lognormvariate(13, 1.5)) + 20_000 for _ in range(10_000))
    found = recent().distribution(cells_of(durations), 0)
    for quantile, duration_s in found.quantiles:
        exact_s = durations[min(int(quantile * len(durations)), len(durations) - 1)] / 1e9
        assert duration_s == pytest.approx(exact_s, rel=0.13)


def test_buckets_count_all_durations_up_to_their_limit() -> None:
    found = recent().distribution(cells_of([1, 16_384, 40_000, 10**13]), 0)
    assert found.count == 4
    assert found.buckets[0] == (16_384 / 1e9, 1)
    assert found.buckets[2] == (65_536 / 1e9, 3)
    assert found.buckets[-2][1] == 3
    assert found.sum_s == pytest.approx(10_000.000056385)


def test_quantiles_forget_what_was_two_windows_ago() -> None:
    window = recent()
    slow = cells_of([50_000_000] * 100)
    fast = cells_of([100 * US] * 100)
    both = [one + other for one, other in zip(slow, fast, strict=True)]
    assert window.distribution(slow, 0).quantiles[0][1] == pytest.approx(0.05, rel=0.13)
    window.distribution(slow, WINDOW_MS)
    window.distribution(both, WINDOW_MS + 1)
    late = window.distribution(both, 2 * WINDOW_MS)
    assert late.quantiles[-1][1] == pytest.approx(0.0001, rel=0.2)
    assert late.count == 200
    assert window.distribution(both, 3 * WINDOW_MS).quantiles[-1][1] == 0.0
