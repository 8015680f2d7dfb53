"""A producer's transactions as a machine: what may be sent, what to tell the coordinator, and what an error means.

Begins and ends are the user's; batches leave by the sender, which asks here whether they may. Under transaction.version 2 brokers
make a partition part of the transaction with its first records, and every end gives the producer another epoch (KIP-890); under
older ones it is told to the coordinator before, and only a gap in the sequences needs another epoch (KIP-360). Knows no brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final, Protocol

from ottla.client.arguments import shown
from ottla.client.errors import KafkaError, ProducerFenced, TransactionAbortable, TransactionError, TransactionFailed
from ottla.client.lane import Identity
from ottla.client.types import ConsumerGroupMetadata, TopicPartition
from ottla.wire import errors as codes
from ottla.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.wire.api.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

TRANSACTION_VERSION: Final = "transaction.version"
IMPLICIT_FROM: Final = 2
"""From this level of the feature on, brokers add partitions and groups to transactions by themselves."""
EXPLICIT_PRODUCE, EXPLICIT_END_TXN, EXPLICIT_OFFSET_COMMIT = 11, 4, 4
"""The newest versions of requests for brokers that are told of partitions and groups: newer ones add them (KIP-890)."""

_FATAL: Final = frozenset(
    {
        codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        codes.CLUSTER_AUTHORIZATION_FAILED,
        codes.INVALID_TXN_STATE,
        codes.INVALID_TRANSACTION_TIMEOUT,
        codes.UNSUPPORTED_VERSION,
        codes.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)
_ABORTED: Final = "The transaction was aborted before the record was written."


class InGroup(Protocol):
    """A consumer that is a member of a group."""

    def group_metadata(self) -> ConsumerGroupMetadata: ...


def metadata_of(member: InGroup | ConsumerGroupMetadata) -> ConsumerGroupMetadata:
    """What brokers know a member by. Raises `SettingError` for a consumer without a group or with automatic commits."""
    if isinstance(member, ConsumerGroupMetadata):
        return member
    if not hasattr(member, "group_metadata"):
        raise TypeError(f"send_offsets() takes the consumer that read the records, or its group_metadata(), not {shown(member)}.")
    return member.group_metadata()


def tell_both(error: BaseException, failed: KafkaError) -> None:
    """`failed` kept a transaction from being aborted after `error`: raise it if it is graver, else note it there."""
    if isinstance(error, TransactionAbortable) and isinstance(failed, TransactionFailed):
        raise failed from error
    error.add_note(f"The transaction was not aborted: {failed}")


class TransactionPhase(Enum):
    """Where a producer is. From `COMMITTING` it can turn back until the coordinator was asked."""

    UNINITIALIZED = "init_transactions() has not been called"
    READY = "no transaction is open"
    IN_TRANSACTION = "a transaction is open"
    COMMITTING = "a transaction is being committed: call commit_transaction() again"
    ABORTING = "a transaction is being aborted: call abort_transaction() again"


class ProducerTransactions:
    """The machine. `identity` is None until `initialized`; `failure`: why this transaction, or the producer, cannot go on.

    `implicit`: whether brokers add partitions by themselves. `wanted`: the partitions to add before their batches can leave.
    """

    def __init__(self, transactional_id: str, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.phase = TransactionPhase.UNINITIALIZED
        self.identity: Identity | None = None
        self.failure: TransactionAbortable | TransactionFailed | None = None
        self.when_failed: Callable[[TransactionError], None] = lambda error: None
        """Called once with why a transaction, or the producer, cannot go on."""
        self.implicit = False
        self.wanted: set[TopicPartition] = set()
        self._timeout_ms = timeout_ms
        self._added: set[TopicPartition] = set()
        self._tried: set[TopicPartition] = set()
        self._tried_group: str | None = None
        self._has_begun = self._end_asked = self._id_forgotten = False
        self._sequence_lost = False

    # --- what users do

    def check_open(self) -> None:
        """Raise unless records can be sent: `TransactionAbortable`, `TransactionFailed`, or `TransactionError` outside of one."""
        if self.failure is not None:
            raise self.failure.with_traceback(None)
        if self.phase is not TransactionPhase.IN_TRANSACTION:
            raise TransactionError(f"Records belong into a transaction, and {self.phase.value}: see transaction().")

    def begin(self, *, implicit: bool) -> None:
        """Open a transaction. Raises `TransactionError` while another one is open, `TransactionFailed`."""
        self.check_alive()
        if self.phase is not TransactionPhase.READY:
            raise TransactionError(f"No transaction can begin: {self.phase.value}.")
        self.implicit = implicit
        self.phase = TransactionPhase.IN_TRANSACTION

    def commit(self) -> None:
        """Accept no more records: all are to be written, then `end_request` asks for the commit. May be repeated."""
        if self.failure is not None:
            raise self.failure.with_traceback(None)
        if self.phase not in (TransactionPhase.IN_TRANSACTION, TransactionPhase.COMMITTING):
            raise TransactionError(f"There is nothing to commit: {self.phase.value}.")
        self.phase = TransactionPhase.COMMITTING

    def abort(self) -> None:
        """Accept no more records: what is not under way is dropped, then `end_request` asks for the end. May be repeated."""
        self.check_alive()
        if self.phase in (TransactionPhase.UNINITIALIZED, TransactionPhase.READY):
            raise TransactionError(f"There is nothing to abort: {self.phase.value}.")
        if self._end_asked and self.phase is TransactionPhase.COMMITTING:
            raise TransactionError("The coordinator was asked to commit: call commit_transaction() again.")
        self.phase = TransactionPhase.ABORTING
        self.wanted.clear()

    def check_alive(self) -> None:
        """Raise `TransactionFailed` if the producer cannot go on."""
        if isinstance(self.failure, TransactionFailed):
            raise self.failure.with_traceback(None)

    @property
    def can_abort(self) -> bool:
        """Whether there is an open transaction that nobody has tried to abort yet."""
        failed = isinstance(self.failure, TransactionFailed)
        open_phases = (TransactionPhase.IN_TRANSACTION, TransactionPhase.COMMITTING)
        return self.phase in open_phases and not failed and not self._end_asked

    def handed_over(self) -> None:
        """Somebody else ends the transaction, whose records are all written: `taken_back` then says how to go on."""
        self.ended()

    def taken_back(self, identity: Identity) -> None:
        """Somebody else has ended the transaction that was handed over; the coordinator says under which identity to go on."""
        self.identity = identity

    # --- batches and offsets that leave

    @property
    def stop(self) -> TransactionError | None:
        """Why no batch shall leave any more, or None."""
        if self.failure is not None:
            return self.failure
        return TransactionAbortable(_ABORTED) if self.phase is TransactionPhase.ABORTING else None

    def admits(self, where: TopicPartition) -> bool:
        """Whether batches of this partition may leave now; if not, it is `wanted`."""
        if self.implicit or where in self._added:
            return True
        self.wanted.add(where)
        return False

    def leaves(self, partitions: Iterable[TopicPartition] = (), group_id: str | None = None) -> None:
        """Something leaves that makes partitions, or a group, part of the transaction: brokers may have heard of it from now on."""
        self._tried.update(partitions)
        self._tried_group = group_id or self._tried_group

    def arrived(self) -> None:
        """What had left was accepted: the coordinator knows of the transaction."""
        self._has_begun = True

    @property
    def unsure(self) -> tuple[list[TopicPartition], str | None] | None:
        """What may have begun the transaction, where nobody knows whether it did: partitions, and a group; else None."""
        if self._has_begun or not (self._tried or self._tried_group) or self._id_forgotten:
            return None
        return sorted(self._tried), self._tried_group

    def not_begun(self) -> None:
        """What may have begun the transaction has not."""
        self._tried.clear()
        self._tried_group = None

    def add_request(self, partitions: Iterable[TopicPartition]) -> AddPartitionsToTxnRequest:
        """Make partitions part of the transaction."""
        assert self.identity is not None
        topics: dict[str, list[int]] = {}
        for where in sorted(partitions):
            topics.setdefault(where.topic, []).append(where.partition)
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.producer_epoch,
            v3_and_below_topics=[topic(name=name, partitions=indexes) for name, indexes in topics.items()],
        )

    def added(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """The coordinator has made these, or a group, part of the transaction."""
        self._added.update(partitions)
        self.wanted -= self._added
        self.arrived()

    # --- errors

    def sequence_lost(self) -> None:
        """A batch with a sequence was not written, or may not have been: the next transaction needs another epoch."""
        self._sequence_lost = True

    def refused(self, error: KafkaError, *, by_coordinator: bool = False) -> TransactionError:
        """What an error that trying again does not mend makes of the transaction, or of the producer: `failure` from now on.

        A partition's leader that finds the epoch too old does not know why; the coordinator says so when it is asked for the end.
        """
        if isinstance(error, TransactionError):
            return error
        if isinstance(self.failure, TransactionFailed):
            return self.failure
        name = f"transactional_id={self.transactional_id}"
        fenced = error.code == codes.PRODUCER_FENCED or (by_coordinator and error.code == codes.INVALID_PRODUCER_EPOCH)
        ends = by_coordinator and (
            self.phase is TransactionPhase.UNINITIALIZED or (self.phase is TransactionPhase.ABORTING and self._end_asked)
        )
        if by_coordinator and self.phase is TransactionPhase.COMMITTING:
            self._end_asked = False
        if error.code == codes.INVALID_PRODUCER_ID_MAPPING and by_coordinator and not self._id_forgotten:
            self._id_forgotten = self._sequence_lost = True
        elif fenced:
            self.failure = ProducerFenced(
                f"Another producer with {name} has begun, or a transaction was open for longer than "
                f"transaction_timeout_ms={self._timeout_ms}: close this one.",
                error,
            )
        elif (error.code in _FATAL and not self._is_gone(error, by_coordinator)) or ends:
            self.failure = TransactionFailed(f"The producer with {name} cannot go on: close it.", error)
        if isinstance(self.failure, TransactionFailed):
            self.when_failed(self.failure)
            return self.failure
        judged = self._abortable(error)
        if self.failure is None:
            self.failure = judged
            self.when_failed(judged)
        return judged

    def _is_gone(self, error: KafkaError, by_coordinator: bool) -> bool:
        """Whether a commit came too late: brokers had aborted the transaction, and tell so whoever asks for the abort."""
        committing = by_coordinator and self.phase is TransactionPhase.COMMITTING
        return committing and self.implicit and error.code == codes.INVALID_TXN_STATE

    @staticmethod
    def _abortable(error: KafkaError) -> TransactionAbortable:
        return TransactionAbortable("The transaction cannot be committed: abort it, and begin it again.", error)

    # --- what the coordinator is asked

    def init_request(self) -> InitProducerIdRequest:
        """Ask for an id and an epoch: at first, which fences older producers, and after a gap in the sequences."""
        known = self.identity or Identity(-1, -1)
        return InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=known.producer_id,
            producer_epoch=known.producer_epoch,
        )

    def initialized(self, answer: InitProducerIdResponse) -> None:
        """Take in the answer to `init_request`."""
        self.identity = Identity(answer.producer_id, answer.producer_epoch)
        self._sequence_lost = False
        if self.phase is TransactionPhase.UNINITIALIZED:
            self.phase = TransactionPhase.READY
            self.failure = None

    def end_request(self) -> EndTxnRequest | None:
        """Ask for the end; None where the coordinator cannot have heard of the transaction, or knows the id no more."""
        assert self.identity is not None
        self._end_asked = True
        if not self._has_begun or self._id_forgotten:
            return None
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            committed=self.phase is TransactionPhase.COMMITTING,
        )

    def end_answered(self, answer: EndTxnResponse) -> bool:
        """Take in the answer to `end_request`; False where it is an error that counts."""
        if self.phase is TransactionPhase.ABORTING and answer.error_code == codes.INVALID_PRODUCER_ID_MAPPING:
            self._id_forgotten = self._sequence_lost = True
            return True
        if answer.error_code:
            return False
        self._has_begun = False
        self.not_begun()
        if answer.producer_id >= 0:
            self.identity = Identity(answer.producer_id, answer.producer_epoch)
            self._sequence_lost = False
        return True

    @property
    def needs_epoch(self) -> bool:
        """Whether `init_request` is to be asked before the next transaction."""
        return self._sequence_lost

    def ended(self) -> None:
        """The transaction has ended; the next one can begin."""
        self.phase = TransactionPhase.READY
        self.failure = None
        self._added.clear()
        self.not_begun()
        self._has_begun = self._end_asked = self._id_forgotten = False
