"""The decision about a batch, and the record that keeps it: which transactions are the batch, whatever happens afterwards.

The last decision of each query or job is what counts.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from ottla.client.types import TopicPartition


class Handed(NamedTuple):
    """An open transaction that its writer has handed over: nothing more is written in it. `rows` were."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    rows: int
    partitions: tuple[TopicPartition, ...]


class BatchVerdict(Enum):
    """What was decided about a batch."""

    WRITTEN = "written"
    VOID = "void"
    """All transactions of an earlier decision were aborted by their timeouts: the batch is to be written again."""


class BatchDecision(NamedTuple):
    """The last batch that was decided. `decided_ms` is for people who look at it (Unix epoch)."""

    run_id: str
    batch_id: int
    verdict: BatchVerdict
    transactions: tuple[Handed, ...]
    decided_ms: int

    def covers(self, batch_id: int) -> bool:
        """Whether this batch is written, or an earlier one than was."""
        return self.batch_id > batch_id or (self.batch_id == batch_id and self.verdict is BatchVerdict.WRITTEN)
