"""The progress of a pipeline: Spark's reports of micro-batches, converted to rows, rates and lag. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ottla.spark.formats.misfit_counts import MISFITS
from ottla.spark.streams.progress import offsets_behind_latest


@dataclass(frozen=True, slots=True)
class PipelineStep:
    """One micro-batch, or one part of a replay. `lag` is the number of rows not read yet, or None if that number is unknown.

    `misfits` is the number of rows whose value did not fit the columns of its table.
    """

    pipeline: str
    batch: int
    rows: int
    total_rows: int
    rows_per_second: float
    lag: int | None
    duration_ms: int
    misfits: int = 0

    def as_row(self) -> dict[str, object]:
        return asdict(self)


def lag_of(progress: Mapping[str, Any]) -> int | None:
    """Return the lag of all sources together, in offsets, at their last report. Return None if no source reads topics."""
    sources = [source for source in offsets_behind_latest(progress) if source.topics]
    return sum(source.sum_offsets_behind_latest for source in sources) if sources else None


class Steps:
    """The conversion of Spark's progress reports to `PipelineStep` objects.

    Each micro-batch with rows becomes one step, with the total number of rows so far.
    """

    def __init__(self, pipeline: str) -> None:
        self._pipeline = pipeline
        self._told = -1
        self._total_rows = 0

    def convert(self, progress: Mapping[str, Any]) -> PipelineStep | None:
        """Return the step for one progress report. Return None if its micro-batch was reported before, or has no rows."""
        batch, rows = int(progress["batchId"]), int(progress.get("numInputRows") or 0)
        if batch <= self._told or rows == 0:
            return None
        self._told = batch
        self._total_rows += rows
        duration_ms = int(progress.get("batchDuration") or progress.get("durationMs", {}).get("triggerExecution") or 0)
        misfits = sum(int(told.get(MISFITS) or 0) for told in (progress.get("observedMetrics") or {}).values())
        rate = float(progress.get("processedRowsPerSecond") or 0.0)
        return PipelineStep(self._pipeline, batch, rows, self._total_rows, round(rate, 1), lag_of(progress), duration_ms, misfits)
