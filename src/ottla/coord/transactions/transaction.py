"""One transactional id: its producer, and its open transaction. Immutable values, and methods that return the next value.

The module uses no requests and no error codes.

Dead and PrepareEpochFence are states of Kafka's records that no transaction has in Ottla. A client aborts a transaction that is not
open if it is uncertain whether brokers have opened it (KIP-890).

| state | event | next state |
|---|---|---|
| [*] | InitProducerId | Empty |
| Empty, CompleteCommit, CompleteAbort | AddPartitionsToTxn | Ongoing |
| Ongoing | EndTxn (commit) | PrepareCommit |
| Ongoing | EndTxn (abort), InitProducerId, transaction timeout | PrepareAbort |
| Empty, CompleteCommit, CompleteAbort | EndTxn (abort) | PrepareAbort |
| PrepareCommit | markers written | CompleteCommit |
| PrepareAbort | markers written | CompleteAbort |
| CompleteCommit, CompleteAbort | InitProducerId | Empty |
| Empty, CompleteCommit, CompleteAbort | id expired | [*] |

Transactions can be open in partitions but not in the coordinator's log, because a power cut shortens each file differently:
with KIP-890 the first records in a partition add the partition to the transaction, and both logs are synced at the same time.
"""

from __future__ import annotations

from enum import Enum
from sys import getsizeof
from typing import Final, NamedTuple

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1

ENDLESS_MS: Final = 2**31 - 1
"""The timeout of transactions in two-phase commits (KIP-939), which never expire."""

LAST_EPOCH: Final = 2**15 - 2
"""The last epoch that a producer can get. The next epoch is reserved to fence the producer."""

LARGEST_EPOCH: Final = 2**15 - 1
"""The largest epoch of a marker. No producer gets it, because it fences a producer with `LAST_EPOCH`."""

VERSION_WITH_EPOCHS: Final = 2
"""The first `transaction.version` in which each transaction has an epoch of its own (KIP-890)."""

TopicPartition = tuple[str, int]
Partitions = frozenset[TopicPartition]
NO_PARTITIONS: Final[Partitions] = frozenset()

ID_BYTES: Final = 700
PARTITION_BYTES: Final = 150
"""The memory in bytes of a transactional id without its text, and of each partition of its transaction."""


class Status(Enum):
    """The state of a transaction. The value is the stored number; `label` is the name in DescribeTransactions."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """Return Kafka's name of the state, such as `PrepareCommit`."""
        return "".join(word.capitalize() for word in self.name.split("_"))


PREPARED: Final = frozenset((Status.PREPARE_COMMIT, Status.PREPARE_ABORT))
"""The states in which the end is decided, and the markers are being written."""
IDLE: Final = frozenset((Status.EMPTY, Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT))
"""The states in which no transaction is open."""


class Transaction(NamedTuple):
    """The state of a transactional id, as `__transaction_state` stores it, and `last_producer_epoch`, which is not stored.

    A producer that missed a reply can retry with `previous_producer_id` and `last_producer_epoch`. If epochs are exhausted,
    `next_producer_id` becomes the producer id when the transaction is complete.

    If `next_producer_epoch` is set, a later producer has kept the transaction of an earlier producer (KIP-939). Records and markers
    have `producer_id` and `producer_epoch`; the producer that ends the transaction has `next_producer_id` and
    `next_producer_epoch`. Times are in milliseconds of the wall clock.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    status: Status
    updated_ms: int
    partitions: Partitions = NO_PARTITIONS
    started_ms: int = NO_TIMESTAMP
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    last_producer_epoch: int = NO_EPOCH
    next_producer_epoch: int = NO_EPOCH
    transaction_version: int = 0

    @property
    def is_kept(self) -> bool:
        """Return whether a later producer has kept the transaction of an earlier producer."""
        return self.next_producer_epoch != NO_EPOCH

    def as_held(self) -> Transaction:
        """Return the state with the producer id and epoch of the producer that can end the transaction.

        This is a later producer if it has kept the transaction of an earlier one (KIP-939).
        """
        if not self.is_kept:
            return self
        return self._replace(producer_id=self.next_producer_id, producer_epoch=self.next_producer_epoch)

    @property
    def is_exhausted(self) -> bool:
        """Return whether the producer id has no epochs left."""
        return self.producer_epoch >= LAST_EPOCH

    @property
    def has_epochs(self) -> bool:
        """Return whether each transaction of the producer has its own epoch (KIP-890)."""
        return self.transaction_version >= VERSION_WITH_EPOCHS

    def begun_anew(
        self, producer_id: int, producer_epoch: int, last_producer_epoch: int, timeout_ms: int, now_ms: int
    ) -> Transaction:
        """Return the state after InitProducerId: with this producer id and epoch, and without a transaction."""
        return self._replace(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            last_producer_epoch=last_producer_epoch,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            next_producer_epoch=NO_EPOCH,
            timeout_ms=timeout_ms,
            status=Status.EMPTY,
            updated_ms=now_ms,
            partitions=NO_PARTITIONS,
            started_ms=NO_TIMESTAMP,
            transaction_version=0,
        )

    def with_partitions(self, partitions: Partitions, transaction_version: int, now_ms: int) -> Transaction:
        """Return the state with more partitions, in the open transaction or in a new one."""
        return self._replace(
            status=Status.ONGOING,
            partitions=self.partitions | partitions,
            started_ms=now_ms if self.status in IDLE else self.started_ms,
            updated_ms=now_ms,
            previous_producer_id=self.producer_id,
            transaction_version=transaction_version,
        )

    def keep(self, held: Transaction, timeout_ms: int, now_ms: int) -> Transaction:
        """Return the state after a later producer has kept this open transaction. `held` has that producer's id and epoch."""
        return self._replace(
            next_producer_id=held.producer_id,
            next_producer_epoch=held.producer_epoch,
            last_producer_epoch=held.last_producer_epoch,
            timeout_ms=timeout_ms,
            updated_ms=now_ms,
        )

    def fence(self, transaction_version: int) -> Transaction:
        """Return the state with its producer fenced by a higher epoch: brokers refuse its later writes.

        From `VERSION_WITH_EPOCHS` on, the producer can recover (KIP-360).
        """
        recovers = transaction_version >= VERSION_WITH_EPOCHS
        held = self.as_held().producer_epoch
        return self._replace(
            producer_epoch=next_epoch(self.producer_epoch),
            last_producer_epoch=held if recovers else NO_EPOCH,
            next_producer_epoch=next_epoch(held) if self.is_kept else NO_EPOCH,
        )

    def prepare(self, *, committed: bool, transaction_version: int, next_producer_id: int, now_ms: int) -> Transaction:
        """Return the state with a decided end. `next_producer_id` is the producer's new id, or -1 if the id stays."""
        with_epochs = transaction_version >= VERSION_WITH_EPOCHS
        held = self.as_held()
        record = self._replace(
            status=Status.PREPARE_COMMIT if committed else Status.PREPARE_ABORT,
            producer_epoch=next_epoch(self.producer_epoch) if with_epochs else self.producer_epoch,
            last_producer_epoch=held.producer_epoch if with_epochs else self.last_producer_epoch,
            previous_producer_id=held.producer_id,
            next_producer_id=next_producer_id,
            started_ms=now_ms if self.status in IDLE else self.started_ms,
            updated_ms=now_ms,
            transaction_version=transaction_version,
        )
        if not self.is_kept:
            return record
        if next_producer_id != NO_PRODUCER_ID:
            return record._replace(next_producer_epoch=0)
        return record._replace(
            next_producer_id=held.producer_id,
            next_producer_epoch=next_epoch(held.producer_epoch) if with_epochs else held.producer_epoch,
        )

    def complete(self, now_ms: int) -> Transaction:
        """Return the state after all markers are written."""
        rotated = not self.is_kept and self.has_epochs and self.next_producer_id != NO_PRODUCER_ID
        held = self._replace(producer_id=self.next_producer_id, producer_epoch=0) if rotated else self.as_held()
        return held._replace(
            status=Status.COMPLETE_COMMIT if self.status is Status.PREPARE_COMMIT else Status.COMPLETE_ABORT,
            previous_producer_id=self.previous_producer_id if self.is_kept else self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            next_producer_epoch=NO_EPOCH,
            partitions=NO_PARTITIONS,
            updated_ms=now_ms,
        )


def next_epoch(producer_epoch: int) -> int:
    """Return the epoch after `producer_epoch`, but at most `LARGEST_EPOCH`."""
    return min(producer_epoch + 1, LARGEST_EPOCH)


def weight_of(known: Transaction) -> int:
    """Return the estimated memory of a transactional id, in bytes."""
    return ID_BYTES + getsizeof(known.transactional_id) + PARTITION_BYTES * len(known.partitions)


class Forgotten(NamedTuple):
    """A tombstone: the transactional id has expired."""

    transactional_id: str


Stored = Transaction | Forgotten


Opened = dict[tuple[int, int], Partitions]
"""The partitions in which transactions are open, by producer id and epoch."""


def with_opened(known: Transaction, opened: Opened, now_ms: int) -> Transaction:
    """Return a state with all partitions in which its transaction is open. Return the same object if none is missing.

    If each transaction has its own epoch, partitions accept records of the next epoch only after the previous transaction's markers
    are durable. Therefore records of the next epoch prove that the previous transaction is complete. Its markers must not be
    written again then, because they would end the next transaction.
    """
    goes_on = known.complete(now_ms) if known.status in PREPARED and known.has_epochs else known
    if goes_on.is_kept or goes_on.status in PREPARED:
        return known
    absent = opened.get((goes_on.producer_id, goes_on.producer_epoch), NO_PARTITIONS) - goes_on.partitions
    return goes_on.with_partitions(absent, VERSION_WITH_EPOCHS, now_ms) if absent else known
