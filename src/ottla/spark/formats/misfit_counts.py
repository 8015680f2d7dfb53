"""Counts of malformed values, which a stream's progress or an `Observation` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.spark.errors import OptionError
from ottla.spark.formats.choice import CORRUPT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

MISFITS: Final = "misfits"


def count_misfits(frame: DataFrame, into: str | Observation = MISFITS) -> DataFrame:
    """Return the same rows, with the number of malformed keys and values as the metric `misfits`.

    A stream's progress has the metric for each micro-batch: `query.lastProgress.observedMetrics[into].misfits`. For a batch, `into`
    must be an `Observation`. Raises `OptionError` for rows without the columns corruptKey and corruptValue.
    """
    from pyspark.sql import functions as f

    columns = [name for name in CORRUPT.values() if name in frame.columns]
    if not columns:
        raise OptionError(
            "These rows do not show what does not fit: read them with valueFormat or keyFormat in mode PERMISSIVE, and keep column "
            "corruptValue or corruptKey."
        )
    return frame.observe(into, f.count(f.coalesce(*columns)).alias(MISFITS))
