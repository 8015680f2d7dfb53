"""The newest offset of each key in a part of a log, in a fixed amount of memory."""

from __future__ import annotations

from ottla.records import kernel, kernel_compact
from ottla.records.batches.columns import Columns, Run

SLOT_BYTES = 8 * kernel_compact.SLOT_WORDS
FILL = 0.75
"""The largest share of the table's slots that is used: in a fuller table a search would probe too many slots."""

HASH_KEY_BYTES = 16
FEWEST_SLOTS = 16


class OffsetMap:
    """A map from record keys to their newest offsets, with at most `most` keys in about `memory_bytes`.

    `hash_key` (16 random bytes) keeps a writer from crafting keys that collide. `expected` is the greatest possible number of keys:
    a small log takes little memory.
    """

    __slots__ = ("_high", "_low", "most", "table", "used")

    def __init__(self, memory_bytes: int, hash_key: bytes, expected: int) -> None:
        slots = max(FEWEST_SLOTS, min(memory_bytes // SLOT_BYTES, int(expected / FILL) + 2))
        self.table = memoryview(bytearray(slots * SLOT_BYTES)).cast("Q")
        self.most = max(1, int(slots * FILL))
        self.used = 0
        self._low = int.from_bytes(hash_key[:8], "little")
        self._high = int.from_bytes(hash_key[8:HASH_KEY_BYTES], "little")

    def remember(self, columns: Columns) -> int | None:
        """Add the offset of every record with a key. Return the offset of the first record that does not fit, or None."""
        capacity = len(columns.all_offsets)
        for run in columns.pieces():
            row, self.used = kernel_compact.remember(
                run.data,
                columns.spans[kernel.KEY_AT * capacity : (kernel.KEY_AT + 1) * capacity],
                columns.spans[kernel.KEY_SIZE * capacity : (kernel.KEY_SIZE + 1) * capacity],
                columns.all_offsets,
                run.first,
                run.end,
                self.table,
                self.used,
                self.most,
                self._low,
                self._high,
            )
            if row < run.end:
                return columns.all_offsets[row]
        return None

    def retain(
        self, columns: Columns, run: Run, rows: memoryview[int], deltas: memoryview[int], *, with_tombstones: bool
    ) -> tuple[int, int, int]:
        """Write the numbers of the rows of `run` to keep into `rows`, and their offset deltas into `deltas`.

        Return (number of rows, number of tombstones among them, greatest timestamp).
        """
        return kernel_compact.retain(
            run.data,
            columns.spans,
            columns.all_offsets,
            columns.all_timestamps,
            run.first,
            run.end,
            run.header.base_offset,
            self.table,
            with_tombstones,
            rows,
            deltas,
            self._low,
            self._high,
        )
