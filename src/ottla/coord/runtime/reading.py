"""How a machine's stored records are read back: rows of keys and values become records, in order.

Knows no log. A coordinator with few records says how one is decoded; one with millions may read many rows at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

Record = TypeVar("Record")
Decode = Callable[[bytes, bytes | None], Record | None]


class UnreadableRecord(ValueError):
    """A stored record is not what its kind says: one sentence that tells why."""


class RecordRows(NamedTuple):
    """Records by where their keys and values lie in `data`; a size of -1 is null."""

    data: bytes
    keys_at: list[int]
    key_sizes: list[int]
    values_at: list[int]
    value_sizes: list[int]

    def record(self, row: int) -> tuple[bytes | None, bytes | None]:
        """The key and the value of one of them."""
        return self._bytes(self.keys_at[row], self.key_sizes[row]), self._bytes(self.values_at[row], self.value_sizes[row])

    def key(self, row: int) -> bytes | None:
        return self._bytes(self.keys_at[row], self.key_sizes[row])

    def _bytes(self, at: int, size: int) -> bytes | None:
        return None if size < 0 else self.data[at : at + size]


class RecordReader(Generic[Record]):
    """Reads the records of one partition, one by one."""

    __slots__ = ("_decode",)

    def __init__(self, decode: Decode[Record]) -> None:
        self._decode = decode

    def read(self, key: bytes | None, value: bytes | None) -> Record | None:
        """One record; None for a kind that only a newer release knows. Raises `UnreadableRecord`."""
        return self._decode(key or b"", value)

    def read_all(self, rows: RecordRows, read_row: Callable[[int], Record | None]) -> Iterator[Record]:
        """The records of all rows, in order. `read_row` is `read` for a row, and answers None for one that is passed over."""
        found = (read_row(row) for row in range(len(rows.keys_at)))
        return (record for record in found if record is not None)

    def of_transaction(self, producer_id: int, records: Iterable[Record]) -> Iterable[Record]:
        """What records that were written in a producer's transaction amount to, whose end comes later."""
        return records

    def transaction_ended(self, producer_id: int, *, committed: bool) -> Iterable[Record]:
        """What the end of a producer's transaction amounts to."""
        return ()
