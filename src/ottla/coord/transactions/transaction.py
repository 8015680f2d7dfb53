"""One transactional id: its producer, and the transaction that it has under way. Values, and the changes that they allow.

Knows no requests and no error codes. A change returns the next value; nothing here changes in place.
"""

from __future__ import annotations

from enum import Enum
from sys import getsizeof
from typing import Final, NamedTuple

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1

ENDLESS_MS: Final = 2**31 - 1
"""The timeout of a transaction that an outside coordinator decides about (KIP-939): it is never over."""

LAST_EPOCH: Final = 2**15 - 2
"""The last epoch that a producer gets with its id. One is kept back, so that this producer too can be fenced."""

LARGEST_EPOCH: Final = 2**15 - 1
"""The largest epoch that a marker can have. No producer gets it: it fences the last one."""

VERSION_WITH_EPOCHS: Final = 2
"""Since this version of transactions (`transaction.version`) each transaction has an epoch of its own (KIP-890)."""

TopicPartition = tuple[str, int]
Partitions = frozenset[TopicPartition]
NO_PARTITIONS: Final[Partitions] = frozenset()


ID_BYTES: Final = 700
PARTITION_BYTES: Final = 150
"""What a transactional id takes in memory beside its text, and what each partition of its transaction takes."""


class Status(Enum):
    """Where a transaction stands. The value is what is stored, the label what DescribeTransactions tells."""

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
        """Kafka's name of it, such as `PrepareCommit`."""
        return "".join(word.capitalize() for word in self.name.split("_"))


PREPARED: Final = frozenset((Status.PREPARE_COMMIT, Status.PREPARE_ABORT))
"""Its end is decided, and its markers are being written."""
IDLE: Final = frozenset((Status.EMPTY, Status.COMPLETE_COMMIT, Status.COMPLETE_ABORT))
"""No transaction is under way."""


class Transaction(NamedTuple):
    """The state of a transactional id, as `__transaction_state` keeps it; but `last_producer_epoch` is forgotten by a restart.

    `previous_producer_id` and `last_producer_epoch` are what the producer may still use in a retry, because it has not heard of its
    new ones. `next_producer_id` takes over once the transaction is complete, where epochs ran out. With `next_producer_epoch` a
    later producer has kept the transaction of an earlier one (KIP-939): the records and markers of the transaction have
    `producer_id` and `producer_epoch`, and whoever ends it has the next ones. Times are in milliseconds of the wall clock.
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
        """Whether a later producer has kept the transaction of an earlier one."""
        return self.next_producer_epoch != NO_EPOCH

    def as_held(self) -> Transaction:
        """The same with the id and epoch that its latest producer has, or has been promised."""
        if not self.is_kept:
            return self
        return self._replace(producer_id=self.next_producer_id, producer_epoch=self.next_producer_epoch)

    @property
    def is_exhausted(self) -> bool:
        """Whether its producer id has no further epoch to give."""
        return self.producer_epoch >= LAST_EPOCH

    @property
    def has_epochs(self) -> bool:
        """Whether each transaction has an epoch of its own."""
        return self.transaction_version >= VERSION_WITH_EPOCHS

    def begun_anew(
        self, producer_id: int, producer_epoch: int, last_producer_epoch: int, timeout_ms: int, now_ms: int
    ) -> Transaction:
        """A producer was initialised: it has this id and epoch, and no transaction."""
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
        """Partitions became part of the transaction, which begins with the first."""
        return self._replace(
            status=Status.ONGOING,
            partitions=self.partitions | partitions,
            started_ms=now_ms if self.status in IDLE else self.started_ms,
            updated_ms=now_ms,
            previous_producer_id=self.producer_id,
            transaction_version=transaction_version,
        )

    def kept(self, held: Transaction, timeout_ms: int, now_ms: int) -> Transaction:
        """A later producer has this open transaction to end, and the id and epoch that `held` has."""
        return self._replace(
            next_producer_id=held.producer_id,
            next_producer_epoch=held.producer_epoch,
            last_producer_epoch=held.last_producer_epoch,
            timeout_ms=timeout_ms,
            updated_ms=now_ms,
        )

    def fenced(self, transaction_version: int) -> Transaction:
        """Its producer may write no more: whatever it sends from now on has an epoch of the past.

        Since each transaction has its epoch, it may recover (KIP-360).
        """
        recovers = transaction_version >= VERSION_WITH_EPOCHS
        held = self.as_held().producer_epoch
        return self._replace(
            producer_epoch=raised(self.producer_epoch),
            last_producer_epoch=held if recovers else NO_EPOCH,
            next_producer_epoch=raised(held) if self.is_kept else NO_EPOCH,
        )

    def prepared(self, *, committed: bool, transaction_version: int, next_producer_id: int, now_ms: int) -> Transaction:
        """Its end is decided. `next_producer_id` is one that its producer goes on with, if it needs another one."""
        with_epochs = transaction_version >= VERSION_WITH_EPOCHS
        held = self.as_held()
        record = self._replace(
            status=Status.PREPARE_COMMIT if committed else Status.PREPARE_ABORT,
            producer_epoch=raised(self.producer_epoch) if with_epochs else self.producer_epoch,
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
            next_producer_epoch=raised(held.producer_epoch) if with_epochs else held.producer_epoch,
        )

    def completed(self, now_ms: int) -> Transaction:
        """All its markers are written."""
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


def raised(producer_epoch: int) -> int:
    """Return the next epoch; the largest stays as it is."""
    return min(producer_epoch + 1, LARGEST_EPOCH)


def weight_of(known: Transaction) -> int:
    """What an id takes in memory, in bytes: about as much."""
    return ID_BYTES + getsizeof(known.transactional_id) + PARTITION_BYTES * len(known.partitions)


class Forgotten(NamedTuple):
    """A tombstone: the transactional id has expired."""

    transactional_id: str


Stored = Transaction | Forgotten
