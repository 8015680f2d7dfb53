"""Transactions that partitions have open and the coordinator's log lacks: a power cut shortens each file independently.

Under KIP-890 the records themselves add their partition to the transaction. Both logs are synced at the same time, so that only the
records may be left. Values only.
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
"""The partitions of open transactions, by producer id and epoch."""


def with_opened(known: Transaction, opened: Opened, now_ms: int) -> Transaction:
    """Return the state of an id with all partitions in which its transaction is open; the same object if none is missing.

    If each transaction has an epoch of its own, records with the next epoch show that the last transaction is complete: partitions
    accept them only after all its markers are durable. Writing the markers again would end the next transaction.
    """
    goes_on = known.completed(now_ms) if known.status in PREPARED and known.has_epochs else known
    if goes_on.is_kept or goes_on.status in PREPARED:
        return known
    absent = opened.get((goes_on.producer_id, goes_on.producer_epoch), NO_PARTITIONS) - goes_on.partitions
    return goes_on.with_partitions(absent, VERSION_WITH_EPOCHS, now_ms) if absent else known
