"""The reader of a stream whose options were refused.

Spark reports an exception in `streamReader` as `UnboundLocalError`, but an exception of the reader unchanged. Therefore the reader
raises it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from ottla.spark.error_display import telling
from ottla.spark.errors import OptionError
from ottla.spark.streams.stream_position import StoredOffsets


@telling
class RefusedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A reader that raises `OptionError` at every call."""

    def __init__(self, refusal: OptionError) -> None:
        self._refusal = refusal

    def _refuse(self) -> NoReturn:
        raise self._refusal

    def initialOffset(self) -> StoredOffsets:
        self._refuse()

    def getDefaultReadLimit(self) -> ReadLimit:
        self._refuse()

    def latestOffset(self, start: StoredOffsets, limit: ReadLimit) -> StoredOffsets:
        self._refuse()

    def prepareForTriggerAvailableNow(self) -> None:
        self._refuse()

    def partitions(self, start: StoredOffsets, end: StoredOffsets) -> Sequence[InputPartition]:
        self._refuse()

    def read(self, partition: InputPartition) -> NoReturn:
        self._refuse()
