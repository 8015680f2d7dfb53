"""The reader of a machine's stored records: it decodes rows of keys and values, in order.

It uses no log. A coordinator with few records passes a decoder. A coordinator with millions can read many rows at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

Record = TypeVar("Record")
Decode = Callable[[bytes, bytes | None], Record | None]


class UnreadableRecord(ValueError):
    """A stored record is malformed. The text says why, in one sentence."""


class RecordRows(NamedTuple):
    """Records in `data`, as the positions and sizes of their keys and values, and their offsets. A size of -1 means null."""

    data: bytes
    offsets: Sequence[int]
    keys_at: list[int]
    key_sizes: list[int]
    values_at: list[int]
    value_sizes: list[int]

    def record(self, row: int) -> tuple[bytes | None, bytes | None]:
        return self._bytes(self.keys_at[row], self.key_sizes[row]), self._bytes(self.values_at[row], self.value_sizes[row])

    def key(self, row: int) -> bytes | None:
        return self._bytes(self.keys_at[row], self.key_sizes[row])

    def _bytes(self, at: int, size: int) -> bytes | None:
        return None if size < 0 else self.data[at : at + size]


class RecordReader(Generic[Record]):
    """The reader of the records of one partition, one by one."""

    __slots__ = ("_decode",)

    def __init__(self, decode: Decode[Record]) -> None:
        self._decode = decode

    def read(self, key: bytes | None, value: bytes | None) -> Record | None:
        """Decode one record; None for a record type of a newer release. Raises `UnreadableRecord` if it is malformed."""
        return self._decode(key or b"", value)

    def read_all(self, rows: RecordRows, read_row: Callable[[int], Record | None]) -> Iterator[Record]:
        """Return the records of all rows, in order. `read_row(row)` decodes one row, and returns None for a row to skip."""
        found = (read_row(row) for row in range(len(rows.keys_at)))
        return (record for record in found if record is not None)

    def of_transaction(self, producer_id: int, records: Iterable[Record]) -> Iterable[Record]:
        """Return the effects of records from a producer's transaction, before the transaction's end."""
        return records

    def transaction_ended(self, producer_id: int, *, committed: bool) -> Iterable[Record]:
        """Return the effects of the end of a producer's transaction."""
        return ()
