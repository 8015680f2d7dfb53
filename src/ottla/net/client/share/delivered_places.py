"""The partitions and offsets of delivered records that a user passes to `acknowledge`: records, or a batch of Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

from ottla.client.arguments import short_repr
from ottla.client.types import ConsumerRecord

BATCH_COLUMNS = ("topic", "partition", "offset")


@runtime_checkable
class DeliveredBatch(Protocol):
    """The part of `pyarrow.RecordBatch` that `acknowledge` reads. Programs without pyarrow can be checked with this type."""

    @property
    def schema(self) -> Any:
        """Return the schema, which has the names of the columns."""

    def column(self, i: Any, /) -> Any:
        """Return a column by its name."""


def places_of(records: object) -> list[tuple[tuple[str, int], int]]:
    """Return ((topic, partition), offset) of each record. Raises `TypeError` for anything but records and batches."""
    return list(_places(records))


def _places(records: object) -> Iterator[tuple[tuple[str, int], int]]:
    if isinstance(records, ConsumerRecord):
        yield records.where, records.offset
    elif isinstance(records, DeliveredBatch):
        yield from _of_batch(records)
    elif isinstance(records, Iterable) and not isinstance(records, str | bytes):
        for record in records:
            if not isinstance(record, ConsumerRecord):
                raise TypeError(f"acknowledge() accepts records, not {short_repr(record)} among them.")
            yield record.where, record.offset
    else:
        raise TypeError(f"acknowledge() accepts a record, a list of records or a batch of batches(), not {short_repr(records)}.")


def _of_batch(batch: DeliveredBatch) -> Iterator[tuple[tuple[str, int], int]]:
    if missing := [name for name in BATCH_COLUMNS if name not in batch.schema.names]:
        raise TypeError(f"The batch has no column {missing[0]}: acknowledge() needs {', '.join(BATCH_COLUMNS)}.")
    topics, partitions, offsets = (batch.column(name).to_pylist() for name in BATCH_COLUMNS)
    for topic, partition, offset in zip(topics, partitions, offsets, strict=True):
        yield (topic, partition), offset
