"""Transactions that partitions have open and the log of their coordinator lacks: a power cut takes the end of each file by itself.

Under KIP-890 the records themselves make their partition part of the transaction. Both are synced at the same time, and so the
records may be all that is left. Values only.
"""

from __future__ import annotations

from ottla.coord.transactions.transaction import (
    NO_PARTITIONS,
    PREPARED,
    VERSION_WITH_EPOCHS,
    Partitions,
    Transaction,
)

Opened = dict[tuple[int, int], Partitions]
"""Where a transaction is open, by producer id and epoch."""


def with_opened(known: Transaction, opened: Opened, now_ms: int) -> Transaction:
    """The state of an id with all partitions in which its transaction is open; the same object if it has them.

    Where each transaction has an epoch of its own, records with that of the next one show that the last one is complete: they are
    taken only when all its markers are durable. To write those again would end the next one.
    """
    goes_on = known.completed(now_ms) if known.status in PREPARED and known.has_epochs else known
    if goes_on.is_kept or goes_on.status in PREPARED:
        return known
    absent = opened.get((goes_on.producer_id, goes_on.producer_epoch), NO_PARTITIONS) - goes_on.partitions
    return goes_on.with_partitions(absent, VERSION_WITH_EPOCHS, now_ms) if absent else known
