"""Each micro-batch is told once, with its rate and with how far the pipeline is behind."""

from __future__ import annotations

from typing import Any

from ottla.pipelines.progress import Steps


def progress(batch: int, rows: int, **source: Any) -> dict[str, Any]:
    return {
        "batchId": batch,
        "numInputRows": rows,
        "processedRowsPerSecond": rows / 2,
        "durationMs": {"triggerExecution": 2000},
        "sources": [source],
    }


def test_a_batch_is_told_once_with_the_sum_so_far() -> None:
    steps = Steps("mirror")
    first = steps.convert(progress(0, 10, endOffset={"flights": {"0": 10}}, latestOffset={"flights": {"0": 25, "1": 5}}))
    assert first is not None
    assert (first.batch, first.rows, first.total_rows, first.rows_per_second, first.lag, first.duration_ms) == (
        0,
        10,
        10,
        5.0,
        20,
        2000,
    )
    assert steps.convert(progress(0, 10)) is None
    assert steps.convert(progress(1, 0)) is None
    second = steps.convert(progress(1, 4))
    assert second is not None
    assert (second.total_rows, second.lag) == (14, None)


def test_values_that_do_not_fit_are_counted_over_all_tables() -> None:
    told = progress(0, 9) | {"observedMetrics": {"misfits of a": {"misfits": 2}, "misfits of b": {"misfits": 1}, "own": {"n": 5}}}
    step = Steps("sql").convert(told)
    assert step is not None
    assert step.misfits == 3


def test_offsets_of_other_sources_are_passed_over() -> None:
    told = progress(0, 1, endOffset=7, latestOffset={"logOffset": 3})
    step = Steps("sql").convert(told)
    assert step is not None
    assert step.lag is None
    told["sources"].append({"endOffset": {"flights": {"1": 3}}, "latestOffset": {"flights": {"1": 7}}})
    step = Steps("sql").convert(told)
    assert step is not None
    assert step.lag == 4
