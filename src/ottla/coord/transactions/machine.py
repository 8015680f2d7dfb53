"""The transaction coordinator as a machine: the transactional ids of one partition of `__transaction_state`.

The machine uses no log, and partitions are only names. `ottla.coord.runtime` runs the machine, and the shard's owner executes its
orders.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import islice
from sys import getsizeof
from typing import Final, Never

from ottla.coord.runtime.machine import NOTHING, Due, Input, KeyAndValue, Outcome, Reply, Timer, drain
from ottla.coord.transactions import descriptions
from ottla.coord.transactions.additions import Added, AddPartitions
from ottla.coord.transactions.end_checks import judge_end
from ottla.coord.transactions.inputs import (
    Ended,
    EndTransaction,
    IdExpiryKey,
    ListSome,
    MarkersWritten,
    TimeoutsKey,
    TransactionSettings,
    WriteMarkers,
    init_refused,
)
from ottla.coord.transactions.producers import NewProducerId, expectation_error, new_transaction, renew
from ottla.coord.transactions.records import FLEXIBLE, OLDEST_READ, encode_record
from ottla.coord.transactions.transaction import (
    ENDLESS_MS,
    ID_BYTES,
    IDLE,
    NO_PRODUCER_ID,
    PARTITION_BYTES,
    PREPARED,
    VERSION_WITH_EPOCHS,
    Forgotten,
    Status,
    Stored,
    TopicPartition,
    Transaction,
    weight_of,
)
from ottla.ports import Now, Pauses
from ottla.wire.api.describe_transactions import DescribeTransactionsRequest
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.errors import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_LOAD_IN_PROGRESS,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_REQUEST,
    INVALID_TRANSACTION_TIMEOUT,
    INVALID_TXN_STATE,
    NONE,
    POLICY_VIOLATION,
    PRODUCER_FENCED,
)

log = logging.getLogger("ottla.coord")

TransactionOutcome = Outcome[Stored]

MOST_AT_ONCE: Final = 200
"""The most open transactions that are checked for their timeout in one step. The next step follows after `PAUSE_MS`."""
MOST_LOOKED_AT: Final = 5_000
"""The most ids that are checked for expiry in one step, which takes one to two milliseconds."""
PAUSE_MS: Final = 2
"""The pause between two steps in milliseconds, in which other work runs."""


class TransactionMachine:
    """The state machine of transaction coordinators. Its inputs and instructions are in `ottla.coord.transactions.inputs`.

    `new_producer_id` returns an unused producer id, or None if none is available now. `taken_bytes` returns the memory of all
    transaction coordinators of the broker.
    """

    def __init__(
        self, settings: TransactionSettings, new_producer_id: NewProducerId, taken_bytes: Callable[[], int] = lambda: 0
    ) -> None:
        self.settings = settings
        self.weight = 0
        """The estimated memory in bytes of all ids and of their transactions' partitions."""
        self._taken_bytes = taken_bytes
        self.by_id: dict[str, Transaction] = {}
        self.ongoing: dict[str, None] = {}
        """The ids with open transactions, which can exceed their timeout."""
        self._new_producer_id = new_producer_id
        self._told_overdue: dict[str, int] = {}
        """The start time, by id, of transactions that were logged as overdue, so that each is logged once."""

    def configure(self, settings: TransactionSettings) -> None:
        self.settings = settings

    def is_ending(self, transactional_id: str) -> bool:
        """Return whether the markers of the id's transaction are being written."""
        known = self.by_id.get(transactional_id)
        return known is not None and known.status in PREPARED

    def lacks(self, transactional_id: str, producer_id: int, producer_epoch: int, place: TopicPartition) -> bool:
        """Return whether a partition is missing in this producer's open transaction or can begin one."""
        known = self.by_id.get(transactional_id)
        if known is None or (known.producer_id, known.producer_epoch) != (producer_id, producer_epoch):
            return False
        return place not in known.partitions and known.status not in PREPARED

    def encode(self, record: Stored) -> KeyAndValue:
        """Return the record as `__transaction_state` stores it. Raises `Unencodable`.

        The oldest format cannot store epochs. Therefore a transaction with epochs keeps the newer format, even after a downgrade.
        """
        has_epochs = isinstance(record, Transaction) and record.has_epochs
        return encode_record(record, version=FLEXIBLE if has_epochs or self.settings.transaction_version else OLDEST_READ)

    def is_independent(self, body: object) -> bool:
        """Return False, because a decision about an id depends on all earlier decisions about it."""
        return False

    def leaves_at_once(self, body: object) -> bool:
        """Return whether the reply to a request can be sent before its records are durable: its field `leaves_early`.

        Other replies wait, because they can show state that is not durable.
        """
        return isinstance(body, AddPartitions) and body.leaves_early

    def dissolve(self) -> Pauses[None]:
        """Release the memory of all transactional ids in steps, with pauses."""
        return drain(self.by_id)

    def apply(self, record: Stored) -> None:
        transactional_id = record.transactional_id
        known = self.by_id.get(transactional_id)
        if known is not None:
            self.weight -= weight_of(known)
        if isinstance(record, Forgotten):
            self.by_id.pop(transactional_id, None)
        else:
            self.by_id[transactional_id] = record
            self.weight += weight_of(record)
        if isinstance(record, Transaction) and record.status is Status.ONGOING:
            self.ongoing[transactional_id] = None
        else:
            self.ongoing.pop(transactional_id, None)

    def recall(self, now: Now) -> TransactionOutcome:
        """Return the outcome that writes the markers of all ending transactions, and starts the checks for timeouts and expiry."""
        orders = tuple(_markers(known) for known in self.by_id.values() if known.status in PREPARED)
        return Outcome(timers=(self._next_timeouts(now), self._next_expiry(now)), orders=orders)

    def decide(self, asked: Input[object], now: Now) -> TransactionOutcome:
        """Decide one input. Nothing changes until the outcome's records are applied."""
        return _DECISIONS[type(asked.body)](self, asked, now)  # type: ignore[arg-type]  # the table's keys are the bodies' types

    def _init_producer(self, asked: Input[InitProducerIdRequest], now: Now) -> TransactionOutcome:
        body = asked.body
        error_code = self._init_error(body)
        if error_code:
            return _answer(asked, init_refused(error_code))
        known = self.by_id.get(body.transactional_id or "")
        if known is None:
            if self._lacks_room(ID_BYTES + getsizeof(body.transactional_id)):
                return _answer(asked, init_refused(POLICY_VIOLATION))
            producer_id = self._new_producer_id()
            if producer_id is None:
                return _answer(asked, init_refused(COORDINATOR_LOAD_IN_PROGRESS))
            known = new_transaction(body, producer_id, now.wall_ms)
        elif known.status in PREPARED:  # as in Kafka before the check of producer id and epoch, which can change with the end
            return _answer(asked, init_refused(CONCURRENT_TRANSACTIONS))
        elif error_code := expectation_error(known.as_held(), body):
            return _answer(asked, init_refused(error_code))
        elif known.status is Status.ONGOING and not body.keep_prepared_txn:
            aborted = self._abort(known, now, Reply(asked.token, init_refused(CONCURRENT_TRANSACTIONS)))
            return aborted or _answer(asked, init_refused(COORDINATOR_LOAD_IN_PROGRESS))
        found = renew(known.as_held(), body, self._new_producer_id, now.wall_ms)
        if isinstance(found, int):
            return _answer(asked, init_refused(found))
        response = InitProducerIdResponse(producer_id=found.producer_id, producer_epoch=found.producer_epoch)
        if known.status is Status.ONGOING:
            response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch = known.producer_id, known.producer_epoch
            timeout_ms = ENDLESS_MS if body.enable_2pc else known.timeout_ms
            found = known.keep(found, timeout_ms, now.wall_ms)
        return Outcome((found,), (Reply(asked.token, response),))

    def _init_error(self, body: InitProducerIdRequest) -> int:
        if not body.transactional_id or (body.producer_id == -1) != (body.producer_epoch == -1):
            return INVALID_REQUEST
        if not body.enable_2pc and not 0 < body.transaction_timeout_ms <= self.settings.transaction_max_timeout_ms:
            return INVALID_TRANSACTION_TIMEOUT
        return NONE

    def _abort(self, known: Transaction, now: Now, *replies: Reply) -> TransactionOutcome | None:
        """Fence the producer of an open transaction, and abort the transaction. Return None if no new producer id is available.

        One increase of the epoch serves both the fence and the end. If the producer can recover (KIP-890) and its epochs are
        exhausted, it gets a new producer id.
        """
        version = self.settings.transaction_version
        next_producer_id = NO_PRODUCER_ID
        if version >= VERSION_WITH_EPOCHS and known.as_held().is_exhausted:
            found = self._new_producer_id()
            if found is None:
                return None
            next_producer_id = found
        fenced = known.fence(version)
        ended = fenced.prepare(committed=False, transaction_version=0, next_producer_id=next_producer_id, now_ms=now.wall_ms)
        has_room = fenced.producer_epoch > known.producer_epoch  # if not, the marker has the records' epoch, as before KIP-890
        ended = ended._replace(transaction_version=version)
        return Outcome((ended,), replies, orders=(_markers(ended if has_room else ended._replace(transaction_version=1)),))

    def _add(self, asked: Input[AddPartitions], now: Now) -> TransactionOutcome:
        body = asked.body
        known = self.by_id.get(body.transactional_id)
        error_code = _membership_error(known, body)
        if known is None or error_code:
            return _answer(asked, Added(error_code))
        absent = body.partitions - known.partitions
        if body.verify_only:
            return _answer(asked, Added(NONE, absent))
        if known.status is Status.ONGOING and not absent:
            return _answer(asked, Added(NONE))
        if self._lacks_room(PARTITION_BYTES * len(absent)):
            return _answer(asked, Added(POLICY_VIOLATION))
        record = known.with_partitions(body.partitions, body.transaction_version, now.wall_ms)
        return Outcome((record,), (Reply(asked.token, Added(NONE)),))

    def _lacks_room(self, growth_bytes: int) -> bool:
        """Return whether all ids together would exceed their memory limit if they grew by `growth_bytes`."""
        most_bytes = self.settings.ottla_max_transactional_id_bytes
        taken_bytes = self._taken_bytes()
        if taken_bytes + growth_bytes <= most_bytes:
            return False
        sentence = "A transactional id was refused, because all of them take %d bytes: ottla.max.transactional.id.bytes is %d"
        log.warning(sentence, taken_bytes, most_bytes, extra={"cause": "ottla.max.transactional.id.bytes"})
        return True

    def _end(self, asked: Input[EndTransaction], now: Now) -> TransactionOutcome:
        body = asked.body
        known = self.by_id.get(body.transactional_id)
        verdict = judge_end(known, body)
        if known is None or verdict.error_code:
            return _answer(asked, Ended(verdict.error_code))
        if verdict.is_done:
            return _answer(asked, Ended(NONE, known.producer_id, known.producer_epoch))
        rotates = body.transaction_version >= VERSION_WITH_EPOCHS and known.as_held().is_exhausted
        next_producer_id = self._new_producer_id() if rotates else NO_PRODUCER_ID
        if next_producer_id is None:
            return _answer(asked, Ended(COORDINATOR_LOAD_IN_PROGRESS))
        record = known.prepare(
            committed=body.committed,
            transaction_version=body.transaction_version,
            next_producer_id=next_producer_id,
            now_ms=now.wall_ms,
        )
        goes_on = record.complete(now.wall_ms)
        reply = Ended(NONE, goes_on.producer_id, goes_on.producer_epoch)
        return Outcome((record,), (Reply(asked.token, reply),), orders=(_markers(record),))

    def _complete(self, asked: Input[MarkersWritten], now: Now) -> TransactionOutcome:
        body = asked.body
        known = self.by_id.get(body.transactional_id)
        if known is None or known.status not in PREPARED:
            return NOTHING
        if (known.producer_id, known.producer_epoch) != (body.producer_id, body.producer_epoch):
            return NOTHING
        return Outcome((known.complete(now.wall_ms),))

    def _describe(self, asked: Input[DescribeTransactionsRequest], now: Now) -> TransactionOutcome:
        return _answer(asked, descriptions.describe(self.by_id, asked.body))

    def _list(self, asked: Input[ListSome], now: Now) -> TransactionOutcome:
        return _answer(asked, descriptions.list_part(self.by_id, asked.body, now.wall_ms))

    def _due(self, asked: Input[Due], now: Now) -> TransactionOutcome:
        key = asked.body.key
        if isinstance(key, IdExpiryKey):
            return self._expire(key, now)
        assert isinstance(key, TimeoutsKey), "there are two timers"
        return self._time_out(key, now)

    def _time_out(self, key: TimeoutsKey, now: Now) -> TransactionOutcome:
        """Abort transactions that exceed their timeout, for one step."""
        names = key.names or tuple(self.ongoing)
        following = key.at + MOST_AT_ONCE
        records: list[Stored] = []
        orders: list[object] = []
        for name in islice(names, key.at, following):
            known = self.by_id.get(name)
            if known is None or known.status is not Status.ONGOING or not _is_overdue(known, now):
                continue
            outcome = self._abort(known, now)
            if outcome is None:
                continue  # the next check finds this transaction again
            records += outcome.records
            orders += outcome.orders
            self._log_overdue(known)
        more = following < len(names)
        timer = Timer(TimeoutsKey(names, following), now.mono_ms + PAUSE_MS) if more else self._next_timeouts(now)
        return Outcome(tuple(records), timers=(timer,), orders=tuple(orders))

    def _log_overdue(self, known: Transaction) -> None:
        """Write to the log that a transaction is aborted because of its timeout, once for each transaction."""
        if self._told_overdue.get(known.transactional_id) == known.started_ms:
            return
        if len(self._told_overdue) > 2 * len(self.ongoing):
            self._told_overdue = {name: began for name, began in self._told_overdue.items() if name in self.ongoing}
        self._told_overdue[known.transactional_id] = known.started_ms
        sentence = "aborting the transaction of %s (producer %d): it exceeded its timeout of %d ms"
        cause = {"cause": "transaction timed out"}
        log.info(sentence, known.transactional_id, known.producer_id, known.timeout_ms, extra=cause)

    def _expire(self, key: IdExpiryKey, now: Now) -> TransactionOutcome:
        """Remove expired transactional ids, for one step."""
        names = key.names or tuple(self.by_id)
        before_ms = now.wall_ms - self.settings.transactional_id_expiration_ms
        gone = tuple(
            Forgotten(name)
            for name in islice(names, key.at, key.at + MOST_LOOKED_AT)
            if (known := self.by_id.get(name)) is not None and known.status in IDLE and known.updated_ms <= before_ms
        )
        following = key.at + MOST_LOOKED_AT
        if following < len(names):
            return Outcome(gone, timers=(Timer(IdExpiryKey(names, following), now.mono_ms + PAUSE_MS),))
        return Outcome(gone, timers=(self._next_expiry(now),))

    def _next_timeouts(self, now: Now) -> Timer:
        return Timer(TimeoutsKey(), now.mono_ms + self.settings.transaction_abort_timed_out_transaction_cleanup_interval_ms)

    def _next_expiry(self, now: Now) -> Timer:
        return Timer(IdExpiryKey(), now.mono_ms + self.settings.transaction_remove_expired_transaction_cleanup_interval_ms)


def _membership_error(known: Transaction | None, body: AddPartitions) -> int:
    """Return the error that prevents adding or verifying partitions now, else NONE.

    While markers are written, the error is CONCURRENT_TRANSACTIONS, as in Kafka. An addition gets it before producer id and epoch
    are checked, because both can change with the end. A verification gets it afterwards, so that fenced producers get their own
    error.
    """
    if not body.transactional_id:
        return INVALID_REQUEST
    held = known.as_held() if known is not None else None
    is_ending = held is not None and held.status in PREPARED
    if is_ending and not body.verify_only:
        return CONCURRENT_TRANSACTIONS
    if held is None or held.producer_id != body.producer_id:
        return INVALID_PRODUCER_ID_MAPPING
    if held.producer_epoch != body.producer_epoch:
        return PRODUCER_FENCED
    if is_ending:
        return CONCURRENT_TRANSACTIONS
    return INVALID_TXN_STATE if held.is_kept else NONE


def _is_overdue(known: Transaction, now: Now) -> bool:
    """Return whether a transaction exceeds its timeout. A transaction of a two-phase commit (KIP-939) never does."""
    return known.timeout_ms != ENDLESS_MS and known.started_ms + known.timeout_ms < now.wall_ms


def _markers(known: Transaction) -> WriteMarkers:
    return WriteMarkers(
        known.transactional_id,
        known.producer_id,
        known.producer_epoch,
        known.status is Status.PREPARE_COMMIT,
        known.partitions,
        known.transaction_version,
    )


def _answer(asked: Input[object], message: object) -> TransactionOutcome:
    return Outcome(replies=(Reply(asked.token, message),))


_DECISIONS: dict[type, Callable[[TransactionMachine, Input[Never], Now], TransactionOutcome]] = {
    InitProducerIdRequest: TransactionMachine._init_producer,
    AddPartitions: TransactionMachine._add,
    EndTransaction: TransactionMachine._end,
    MarkersWritten: TransactionMachine._complete,
    DescribeTransactionsRequest: TransactionMachine._describe,
    ListSome: TransactionMachine._list,
    Due: TransactionMachine._due,
}
