"""The state of idempotent producers: their sequences are checked, and retries detected (KIP-98).

It uses batch headers and Kafka's snapshot format, no files, and has a limit of producers. Five batches are kept per producer,
because a client has at most five requests in flight.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from heapq import nsmallest
from itertools import pairwise
from struct import Struct, error
from types import MappingProxyType
from typing import NamedTuple
from weakref import WeakValueDictionary

from ottla.log.producer_state.producer_limit import Counted, OwnerShare, ProducerShares, fair
from ottla.log.segments.transaction_index import ABORT, Aborted, Marker
from ottla.records.batches.header import BatchHeader
from ottla.records.checksum import crc32c
from ottla.wire.errors import (
    INVALID_PRODUCER_EPOCH,
    INVALID_TXN_STATE,
    NONE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    TRANSACTION_COORDINATOR_FENCED,
)

ANY_NUMBER = sys.maxsize
FORGOTTEN_SHARE = 16
"""When there are too many producer ids, 1/16 of the limit is removed at once."""

REMEMBERED = 5
NO_SEQUENCE = -1
NO_OFFSET = -1
MOST_ENDED = 16
"""How many ended transactions are remembered one by one; older ones are remembered as one."""
LARGEST_SEQUENCE = 2**31 - 1

SNAPSHOT_VERSION = 1
SNAPSHOT_HEAD = Struct(">hIi")
"""version, CRC-32C of all that follows it, number of entries"""
SNAPSHOT_CRC_FROM = 6
SNAPSHOT_ENTRY = Struct(">qhiqiqiq")
"""producer_id, producer_epoch, last_sequence, last_offset, offset_delta, timestamp, coordinator_epoch, current_txn_first_offset"""


class ProducerBatch(NamedTuple):
    """The sequences, offset and timestamp of one batch that a producer wrote."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class ProducerState(Counted):
    """The last writes of one producer id: its epoch and up to five batches, oldest first."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "txn_first_offset")

    def __init__(self, epoch: int) -> None:
        super().__init__()
        self.epoch = epoch
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.txn_first_offset = NO_OFFSET
        self.batches: list[ProducerBatch] = []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ProducerState) and all(
            getattr(self, name) == getattr(other, name) for name in ProducerState.__slots__
        )

    __hash__ = None  # type: ignore[assignment]  # it changes with every batch

    @property
    def age(self) -> tuple[int, int]:
        """Return (time, offset) of the producer's last write. A replay uses one time for a whole file, so the offset decides."""
        return self.last_timestamp, self.batches[-1].last_offset if self.batches else NO_OFFSET

    def find(self, header: BatchHeader, last_sequence: int) -> ProducerBatch | None:
        """Return the recorded batch that the batch of `header` repeats, or None if it repeats none."""
        if header.producer_epoch == self.epoch:
            for batch in reversed(self.batches):
                if batch.first_sequence == header.base_sequence and batch.last_sequence == last_sequence:
                    return batch
        return None

    def refusal(self, header: BatchHeader) -> int:
        """Return 0 if a batch may follow the producer's last batch; otherwise the error code for its epoch or sequence."""
        if header.producer_epoch < self.epoch:
            return INVALID_PRODUCER_EPOCH
        is_first = header.producer_epoch > self.epoch or not self.batches  # a marker may have raised the epoch
        expected = 0 if is_first else next_sequence(self.batches[-1].last_sequence)
        return NONE if header.base_sequence == expected else OUT_OF_ORDER_SEQUENCE_NUMBER


class TransactionToken:
    """A token for a transaction that is about to begin. It exists only while a holder refers to it, because many never begin."""

    __slots__ = ("__weakref__",)


NO_TOKENS: Mapping[int, TransactionToken] = MappingProxyType({})


class Producers:
    """All producers of a partition, by producer id. `open_transactions` has the first offset of each, oldest first.

    `tokens` are for transactions that are about to begin, and exist while a holder refers to them. The end of a transaction
    removes its token (KIP-890). In a broker, `shares` counts the producers of all logs. `forgotten` counts the producers that
    were removed to make room, until the caller has reported them.
    """

    __slots__ = ("_ended", "_tokens", "by_id", "forgotten", "most", "open_transactions", "shares")

    def __init__(self, most: int = ANY_NUMBER) -> None:
        self.most = most
        self.shares: ProducerShares | None = None
        self.forgotten = 0
        self.by_id: dict[int, ProducerState] = {}
        self.open_transactions: dict[int, int] = {}
        self._ended: tuple[tuple[int, int], ...] = ()
        self._tokens: WeakValueDictionary[int, TransactionToken] | None = None  # made for the first one: it is 800 bytes

    def is_open(self, producer_id: int, producer_epoch: int) -> bool:
        """Return whether a transaction of this producer, with this epoch, is open in this log."""
        known = self.by_id.get(producer_id)
        return known is not None and known.epoch == producer_epoch and known.txn_first_offset != NO_OFFSET

    def is_ended_by(self, producer_id: int, producer_epoch: int) -> bool:
        """Return whether a marker with this epoch may end the producer's transaction, if each transaction has its own epoch.

        The epoch must be later than the open transaction's. Return True if no transaction is open.
        """
        known = self.by_id.get(producer_id)
        return known is None or known.txn_first_offset == NO_OFFSET or producer_epoch > known.epoch

    def is_fenced(self, producer_id: int, producer_epoch: int) -> bool:
        """Return whether this log contains a batch of the producer with a later epoch than `producer_epoch`."""
        known = self.by_id.get(producer_id)
        return known is not None and producer_epoch < known.epoch

    def token(self, producer_id: int) -> TransactionToken:
        """Return the token of the transaction that this producer is about to begin in this log; create it if needed."""
        if self._tokens is None:
            self._tokens = WeakValueDictionary()
        return self._tokens.setdefault(producer_id, TransactionToken())

    @property
    def tokens(self) -> Mapping[int, TransactionToken]:
        """Return the tokens of transactions that are about to begin in this log, by producer id."""
        return NO_TOKENS if self._tokens is None else self._tokens

    def _forget_token(self, producer_id: int) -> None:
        if self._tokens is not None:
            self._tokens.pop(producer_id, None)

    def check(self, headers: Sequence[BatchHeader]) -> int | ProducerBatch:
        """Return 0 if the batches may be appended, or the known batch that they repeat, or the error code for the producer."""
        first = headers[0]
        known = self.by_id.get(first.producer_id)
        if known is not None:
            duplicate = known.find(first, last_sequence(first))
            if duplicate is not None:
                return duplicate
            refused = known.refusal(first)
            if refused:
                return refused
            if known.txn_first_offset != NO_OFFSET and not first.is_transactional:
                return INVALID_TXN_STATE
        for before, header in pairwise(headers):
            if header.producer_id != first.producer_id or header.base_sequence != next_sequence(last_sequence(before)):
                return OUT_OF_ORDER_SEQUENCE_NUMBER
        return NONE

    def check_epoch(self, header: BatchHeader) -> int:
        """Return 0, or INVALID_PRODUCER_EPOCH for a batch with an older epoch of its producer."""
        known = self.by_id.get(header.producer_id)
        return INVALID_PRODUCER_EPOCH if known is not None and header.producer_epoch < known.epoch else NONE

    def note(self, header: BatchHeader, base_offset: int, now_ms: int = -1) -> None:
        """Record that the log has a batch at `base_offset`, after its append or in a replay.

        The producer's last write has the batch's largest timestamp, or `now_ms` if that is later: a producer that writes old
        records must not expire.
        """
        producer = self.by_id.get(header.producer_id)
        if producer is None:
            if len(self.by_id) >= self.most:
                self._forget_oldest()
            producer = ProducerState(header.producer_epoch)
            if self.shares is not None:
                self.shares.make_room()
                self.shares.add(producer, self, header.producer_id)
            self.by_id[header.producer_id] = producer
        elif header.producer_epoch != producer.epoch:
            producer.epoch = header.producer_epoch
            producer.batches.clear()
        producer.last_timestamp = max(header.max_timestamp, now_ms)
        self._note_batch(producer, header, base_offset)
        if self.shares is not None:
            self.shares.refresh(producer, is_open=producer.txn_first_offset != NO_OFFSET)

    def _note_batch(self, producer: ProducerState, header: BatchHeader, base_offset: int) -> None:
        if header.is_control:
            producer.txn_first_offset = NO_OFFSET
            self.open_transactions.pop(header.producer_id, None)
            self._forget_token(header.producer_id)
            return
        if header.is_transactional and producer.txn_first_offset == NO_OFFSET:
            producer.txn_first_offset = self.open_transactions[header.producer_id] = base_offset
            self._forget_token(header.producer_id)
        if len(producer.batches) == REMEMBERED:
            del producer.batches[0]
        last_offset = base_offset + header.last_offset_delta
        producer.batches.append(
            ProducerBatch(header.base_sequence, last_sequence(header), base_offset, last_offset, header.max_timestamp)
        )

    def check_marker(self, header: BatchHeader, coordinator_epoch: int) -> int:
        """Return 0 if a control batch may end its producer's transaction. Return an error code for an old coordinator or epoch."""
        known = self.by_id.get(header.producer_id)
        if known is None:
            return NONE
        if header.producer_epoch < known.epoch:
            return INVALID_PRODUCER_EPOCH
        return TRANSACTION_COORDINATOR_FENCED if coordinator_epoch < known.coordinator_epoch else NONE

    def end_transaction(self, header: BatchHeader, base_offset: int, marker: Marker, now_ms: int = -1) -> Aborted | None:
        """Record a control batch with a transaction marker. Return the transaction if it was open and the marker aborts it."""
        first_offset = self.open_transactions.get(header.producer_id)
        self.note(header, base_offset, now_ms)
        self.by_id[header.producer_id].coordinator_epoch = marker.coordinator_epoch
        if first_offset is None:
            return None
        last_offset = base_offset + header.last_offset_delta
        self._note_end(first_offset, last_offset)
        if marker.type != ABORT:
            return None
        unstable = self.first_unstable_offset()
        return Aborted(header.producer_id, first_offset, last_offset, last_offset + 1 if unstable is None else unstable)

    def first_unstable_offset(self) -> int | None:
        """Return the first offset of the oldest open transaction; None if none is open."""
        return next(iter(self.open_transactions.values()), None)

    def _note_end(self, first_offset: int, last_offset: int) -> None:
        """Record the offsets of an ended transaction, because its marker can be lost until it is below the high watermark."""
        ended = self._ended
        if len(ended) >= MOST_ENDED:
            (oldest, _), (following, last) = ended[:2]
            ended = ((min(oldest, following), last), *ended[2:])
        self._ended = (*ended, (first_offset, last_offset))

    def first_unreplicated_offset(self, high_watermark: int) -> int | None:
        """Return the first offset of the ended transactions whose markers are not below `high_watermark`; None without any."""
        self._ended = tuple(each for each in self._ended if each[1] >= high_watermark)
        return min((first for first, _ in self._ended), default=None)

    def expire(self, before_ms: int) -> None:
        """Remove producers without an open transaction whose last batch is older than `before_ms`."""
        gone = [id for id, p in self.by_id.items() if p.last_timestamp < before_ms and p.txn_first_offset == NO_OFFSET]
        for producer_id in gone:
            self.forget(producer_id)

    def forget(self, producer_id: int) -> None:
        producer = self.by_id.pop(producer_id)
        if self.shares is not None:
            self.shares.remove(producer)

    # Shares among all logs

    def join(self, shares: ProducerShares) -> None:
        """Add these producers, oldest first, to `shares`, which limits the number of producers in all logs of the broker."""
        self.shares = shares
        for _, _, producer_id in sorted((*producer.age, id) for id, producer in self.by_id.items()):
            self._count(shares, producer_id)

    def replace_in_count(self, before: Producers) -> None:
        """Replace the producers of the log before a truncation, `before`, by these in the broker's count of producers.

        Remaining producers keep their owner and age.
        """
        shares = self.shares = before.shares
        if shares is not None:
            for producer_id, producer in self.by_id.items():
                known = before.by_id.get(producer_id)
                if known is None:
                    self._count(shares, producer_id)
                else:
                    was_open = known.txn_first_offset != NO_OFFSET
                    shares.replace(producer, self, known)
                    if was_open or producer.txn_first_offset != NO_OFFSET:
                        shares.refresh(producer, is_open=producer.txn_first_offset != NO_OFFSET)
            before.leave()

    def leave(self) -> None:
        """Remove all producers from the count, because the log is deleted or no longer written."""
        shares, self.shares = self.shares, None
        if shares is not None:
            for producer in self.by_id.values():
                shares.remove(producer)

    def claim(self, producer_id: int, owner: str) -> None:
        """Set the owner of a producer, unless the producer already has an owner."""
        if self.shares is not None and producer_id in self.by_id:
            self.shares.claim(self.by_id[producer_id], owner)

    def _count(self, shares: ProducerShares, producer_id: int) -> None:
        producer = self.by_id[producer_id]
        shares.add(producer, self, producer_id)
        shares.refresh(producer, is_open=producer.txn_first_offset != NO_OFFSET)

    def _forget_oldest(self) -> None:
        """Remove the oldest producers to make room, because clients choose producer ids freely, and each id takes memory.

        Some are removed beyond the limit, so that the cost for each new producer is low. Producers with open transactions are
        kept. Owners with the most producers in this log lose theirs first.
        """
        idle: dict[OwnerShare | None, list[tuple[int, int, int]]] = {}
        for producer_id, producer in self.by_id.items():
            if producer.txn_first_offset == NO_OFFSET:
                idle.setdefault(producer.share, []).append((*producer.age, producer_id))
        wanted = len(self.by_id) - self.most + 1 + self.most // FORGOTTEN_SHARE
        counts = fair([len(each) for each in idle.values()], wanted)
        for count, each in zip(counts, idle.values(), strict=True):
            for _, _, producer_id in nsmallest(count, each):
                self.forget(producer_id)
        self.forgotten += sum(counts)

    def encode(self) -> bytes:
        """Encode Kafka's snapshot: the last batch of each producer."""
        entries = b"".join(_snapshot_entry(producer_id, producer) for producer_id, producer in self.by_id.items())
        body = len(self.by_id).to_bytes(4, "big") + entries
        return SNAPSHOT_VERSION.to_bytes(2, "big") + int(crc32c(body)).to_bytes(4, "big") + body

    @classmethod
    def decode(cls, data: bytes) -> Producers | None:
        """Parse a snapshot; None if the data is invalid, so that the caller replays the state from the log."""
        try:
            version, crc, count = SNAPSHOT_HEAD.unpack_from(data)
        except error:
            return None
        whole = len(data) == SNAPSHOT_HEAD.size + count * SNAPSHOT_ENTRY.size
        if version != SNAPSHOT_VERSION or not whole or crc32c(memoryview(data)[SNAPSHOT_CRC_FROM:]) != crc:
            return None
        producers = cls()
        for entry in SNAPSHOT_ENTRY.iter_unpack(memoryview(data)[SNAPSHOT_HEAD.size :]):
            _load_entry(producers.by_id, entry)
        begun = [(producer.txn_first_offset, id) for id, producer in producers.by_id.items() if producer.txn_first_offset >= 0]
        producers.open_transactions = {id: first_offset for first_offset, id in sorted(begun)}
        return producers


def next_sequence(sequence: int) -> int:
    """Return the next sequence; sequences wrap from 2**31 - 1 to 0."""
    return 0 if sequence == LARGEST_SEQUENCE else sequence + 1


def last_sequence(header: BatchHeader) -> int:
    return (header.base_sequence + header.last_offset_delta) & LARGEST_SEQUENCE


def _snapshot_entry(producer_id: int, producer: ProducerState) -> bytes:
    if producer.batches:
        last = producer.batches[-1]
        sequence, offset, delta = last.last_sequence, last.last_offset, last.last_offset - last.base_offset
    else:
        sequence, offset, delta = NO_SEQUENCE, NO_OFFSET, 0
    return SNAPSHOT_ENTRY.pack(
        producer_id,
        producer.epoch,
        sequence,
        offset,
        delta,
        producer.last_timestamp,
        producer.coordinator_epoch,
        producer.txn_first_offset,
    )


def _load_entry(by_id: dict[int, ProducerState], entry: tuple[int, ...]) -> None:
    producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, txn_first_offset = entry
    producer = by_id[producer_id] = ProducerState(epoch)
    producer.last_timestamp = timestamp
    producer.coordinator_epoch = coordinator_epoch
    producer.txn_first_offset = txn_first_offset
    if sequence != NO_SEQUENCE:
        producer.batches.append(ProducerBatch((sequence - delta) & LARGEST_SEQUENCE, sequence, offset - delta, offset, timestamp))
