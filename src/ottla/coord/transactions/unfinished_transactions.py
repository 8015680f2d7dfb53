"""Transactions that are open in partitions but not in the coordinator's log, because a power cut shortens each file differently.

With KIP-890 the first records in a partition add the partition to the transaction. Both logs are synced at the same time, so a
power cut can leave the records without the addition. Values only.
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
"""The partitions in which transactions are open, by producer id and epoch."""


def with_opened(known: Transaction, opened: Opened, now_ms: int) -> Transaction:
    """Return a state with all partitions in which its transaction is open. Return the same object if none is missing.

    If each transaction has its own epoch, partitions accept records of the next epoch only after the previous transaction's markers
    are durable. Therefore records of the next epoch prove that the previous transaction is complete. Its markers must not be
    written again then, because they would end the next transaction.
    """
    goes_on = known.completed(now_ms) if known.status in PREPARED and known.has_epochs else known
    if goes_on.is_kept or goes_on.status in PREPARED:
        return known
    absent = opened.get((goes_on.producer_id, goes_on.producer_epoch), NO_PARTITIONS) - goes_on.partitions
    return goes_on.with_partitions(absent, VERSION_WITH_EPOCHS, now_ms) if absent else known
