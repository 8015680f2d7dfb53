"""A producer's transactions as a state machine: which batches may be sent, the coordinator's requests, the meaning of errors.

The user begins and ends transactions; the sender asks this machine whether batches can be sent. Under transaction.version 2 the
first records add a partition to the transaction, and every end gives the producer another epoch (KIP-890). Under older versions
AddPartitionsToTxn comes first, and the producer needs another epoch only after a gap in its sequence numbers (KIP-360). The machine
sends nothing.

COMMIT_ASKED is COMMITTING after the commit was requested, when an abort is no longer possible. In MUST_ABORT the transaction has a
`failure`, and must be aborted. In FAILED the producer has a `failure`, and must be closed.

| state | event | next state |
|---|---|---|
| UNINITIALIZED | initialized | READY |
| UNINITIALIZED | id refused, fenced | FAILED |
| READY | begin | IN_TRANSACTION |
| IN_TRANSACTION | commit | COMMITTING |
| IN_TRANSACTION | handed over | READY |
| IN_TRANSACTION, COMMITTING | record refused | MUST_ABORT |
| COMMITTING | end asked | COMMIT_ASKED |
| COMMIT_ASKED | end done | READY |
| COMMIT_ASKED | end refused | MUST_ABORT |
| IN_TRANSACTION, COMMITTING, MUST_ABORT | abort | ABORTING |
| ABORTING | end done | READY |
| ABORTING | end refused | FAILED |
| IN_TRANSACTION, COMMITTING, COMMIT_ASKED, MUST_ABORT, ABORTING | fenced | FAILED |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final, Protocol

from ottla.client.arguments import short_repr
from ottla.client.consumer.list_offsets import indexes
from ottla.client.errors import Closed, KafkaError, ProducerFenced, TransactionAbortable, TransactionError, TransactionFailed
from ottla.client.producer.partition_queue import Identity
from ottla.client.types import ConsumerGroupMetadata, TopicPartition
from ottla.wire import errors as codes
from ottla.wire.api.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.wire.api.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

TRANSACTION_VERSION: Final = "transaction.version"
IMPLICIT_FROM: Final = 2
"""The level of transaction.version from which brokers add partitions and groups to transactions by themselves."""
EXPLICIT_PRODUCE, EXPLICIT_END_TXN, EXPLICIT_OFFSET_COMMIT = 11, 4, 4
"""The newest request versions for brokers that require AddPartitionsToTxn.

In newer versions brokers add partitions by themselves (KIP-890).
"""

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
    """An object that is a member of a consumer group, such as a consumer, and can describe its membership."""

    def group_metadata(self) -> ConsumerGroupMetadata: ...


def metadata_of(member: InGroup | ConsumerGroupMetadata) -> ConsumerGroupMetadata:
    """Return a member's group metadata.

    Raises `SettingError` for a consumer without a group or with automatic commits, and `TypeError` for any other object.
    """
    if isinstance(member, ConsumerGroupMetadata):
        return member
    if not hasattr(member, "group_metadata"):
        raise TypeError(
            f"send_offsets() takes the consumer that read the records, or its group_metadata(), not {short_repr(member)}."
        )
    return member.group_metadata()


def chain_errors(error: BaseException, failed: KafkaError) -> None:
    """Add `failed`, the error of the abort after `error`, to `error` as a note. If `failed` is more serious, raise it instead."""
    if isinstance(error, TransactionAbortable) and isinstance(failed, TransactionFailed):
        raise failed from error
    error.add_note(f"The transaction was not aborted: {failed}")


class TransactionPhase(Enum):
    """The transaction state of a producer. In `COMMITTING`, an abort is possible until the request for the commit was sent."""

    UNINITIALIZED = "init_transactions() has not been called"
    READY = "no transaction is open"
    IN_TRANSACTION = "a transaction is open"
    COMMITTING = "a transaction is being committed: call commit_transaction() again"
    ABORTING = "a transaction is being aborted: call abort_transaction() again"


class ProducerTransactions:
    """The state machine of a producer's transactions, without sockets.

    `identity` is None until `on_init_answer`. `failure` is the error that stops the transaction or the producer. With `implicit`,
    brokers add partitions by themselves. `wanted` are the partitions to add before their batches can be sent.
    """

    def __init__(self, transactional_id: str, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.phase = TransactionPhase.UNINITIALIZED
        self.identity: Identity | None = None
        self.failure: TransactionAbortable | TransactionFailed | None = None
        self.when_failed: Callable[[TransactionError], None] = lambda error: None
        """Called with the error when a transaction or the producer fails."""
        self.implicit = False
        self.wanted: set[TopicPartition] = set()
        self._timeout_ms = timeout_ms
        self._added: set[TopicPartition] = set()
        self._tried: set[TopicPartition] = set()
        self._tried_group: str | None = None
        self._has_begun = self._end_asked = self._id_forgotten = False
        self.needs_epoch = False
        """Whether `init_request` must be sent before the next transaction."""

    # --- the user's calls

    def check_open(self) -> None:
        """Raise an exception unless records can be sent.

        Raises `TransactionAbortable` or `TransactionFailed` after a failure, and `TransactionError` outside of a transaction.
        """
        if self.failure is not None:
            raise self.failure.with_traceback(None)
        if self.phase is not TransactionPhase.IN_TRANSACTION:
            raise TransactionError(f"Records can be sent only in a transaction, and {self.phase.value}: use transaction().")

    def begin(self, *, implicit: bool) -> None:
        """Open a transaction.

        Raises `TransactionError` while another transaction is open, and `TransactionFailed` if the producer failed.
        """
        self.check_alive()
        if self.phase is not TransactionPhase.READY:
            raise TransactionError(f"No transaction can begin: {self.phase.value}.")
        self.implicit = implicit
        self.phase = TransactionPhase.IN_TRANSACTION

    def commit(self) -> None:
        """Accept no more records. When all are written, `end_request` builds the request for the commit. Can be repeated."""
        if self.failure is not None:
            raise self.failure.with_traceback(None)
        if self.phase not in (TransactionPhase.IN_TRANSACTION, TransactionPhase.COMMITTING):
            raise TransactionError(f"There is nothing to commit: {self.phase.value}.")
        self.phase = TransactionPhase.COMMITTING

    def abort(self) -> None:
        """Accept no more records, drop the unsent ones, and let `end_request` build the request for the abort. Can be repeated."""
        self.check_alive()
        if self.phase in (TransactionPhase.UNINITIALIZED, TransactionPhase.READY):
            raise TransactionError(f"There is nothing to abort: {self.phase.value}.")
        if self._end_asked and self.phase is TransactionPhase.COMMITTING:
            raise TransactionError("The coordinator was asked to commit: call commit_transaction() again.")
        self.phase = TransactionPhase.ABORTING
        self.wanted.clear()

    def check_alive(self) -> None:
        """Raise `TransactionFailed` if the producer cannot continue."""
        if isinstance(self.failure, TransactionFailed):
            raise self.failure.with_traceback(None)

    @property
    def can_abort(self) -> bool:
        """Return whether a transaction is open, can be aborted, and its end was not requested yet."""
        failed = isinstance(self.failure, TransactionFailed)
        open_phases = (TransactionPhase.IN_TRANSACTION, TransactionPhase.COMMITTING)
        return self.phase in open_phases and not failed and not self._end_asked

    def detach(self) -> None:
        """Stop managing the current transaction, because another process will commit or abort it. All its records are written.

        Call `reattach` after the other process has committed or aborted the transaction.
        """
        self.reset()

    def reattach(self, identity: Identity) -> None:
        """Continue with the producer id and epoch in `identity`, after another process has committed or aborted the transaction."""
        self.identity = identity

    # --- batches and offsets to send

    @property
    def stop(self) -> TransactionError | None:
        """Return the error after which no batch can be sent any more; None while batches can be sent."""
        if self.failure is not None:
            return self.failure
        return TransactionAbortable(_ABORTED) if self.phase is TransactionPhase.ABORTING else None

    def admits(self, where: TopicPartition) -> bool:
        """Return whether batches of this partition may be sent now; if not, add the partition to `wanted`."""
        if self.implicit or where in self._added:
            return True
        self.wanted.add(where)
        return False

    def record_sent(self, partitions: Iterable[TopicPartition] = (), group_id: str | None = None) -> None:
        """Record that a request is sent that adds partitions or a group, so that brokers can have added them from now on."""
        self._tried.update(partitions)
        self._tried_group = group_id or self._tried_group

    def confirm_sent(self) -> None:
        """Record that the coordinator accepted a request that `record_sent` recorded.

        The coordinator has then begun the transaction.
        """
        self._has_begun = True

    @property
    def unsure(self) -> tuple[list[TopicPartition], str | None] | None:
        """Return the partitions and the group of requests that possibly began the transaction at the coordinator.

        Return None if there were none, or the transaction has certainly begun.
        """
        if self._has_begun or not (self._tried or self._tried_group) or self._id_forgotten:
            return None
        return sorted(self._tried), self._tried_group

    def not_begun(self) -> None:
        """Record that the requests returned by `unsure` did not begin the transaction."""
        self._tried.clear()
        self._tried_group = None

    def add_request(self, partitions: Iterable[TopicPartition]) -> AddPartitionsToTxnRequest:
        assert self.identity is not None
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.producer_epoch,
            v3_and_below_topics=[topic(name=name, partitions=some) for name, some in indexes(partitions)],
        )

    def confirm_added(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Record that the coordinator has added `partitions`, or a group, to the transaction."""
        self._added.update(partitions)
        self.wanted -= self._added
        self.confirm_sent()

    # --- errors

    def sequence_lost(self) -> None:
        """Require another epoch before the next transaction, because a batch with a sequence number is possibly not written."""
        self.needs_epoch = True

    def record_error(self, error: KafkaError, *, by_coordinator: bool = False) -> KafkaError:
        """Convert an error that is not retriable to a transaction error, store that as `failure`, and return it.

        Return `Closed` unchanged: the transaction did not fail, but another thread has closed the producer.

        A partition leader that rejects the epoch cannot say why. The coordinator's answer at the end of the transaction shows the
        reason.
        """
        if isinstance(error, TransactionError | Closed):
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
            self._id_forgotten = self.needs_epoch = True
        elif fenced:
            self.failure = ProducerFenced(
                f"Another producer with {name} fenced this one, or a transaction was open for longer than "
                f"transaction_timeout_ms={self._timeout_ms}: close this producer.",
                error,
            )
        elif (error.code in _FATAL and not self._was_aborted(error, by_coordinator)) or ends:
            self.failure = TransactionFailed(f"The producer with {name} cannot continue: close it.", error)
        if isinstance(self.failure, TransactionFailed):
            self.when_failed(self.failure)
            return self.failure
        judged = TransactionAbortable("The transaction cannot be committed: abort it, and begin it again.", error)
        if self.failure is None:
            self.failure = judged
            self.when_failed(judged)
        return judged

    def _was_aborted(self, error: KafkaError, by_coordinator: bool) -> bool:
        """Return whether brokers had aborted the transaction before its commit, so that an abort can end it."""
        committing = by_coordinator and self.phase is TransactionPhase.COMMITTING
        return committing and self.implicit and error.code == codes.INVALID_TXN_STATE

    # --- requests to the coordinator

    def init_request(self) -> InitProducerIdRequest:
        """Build the request for a producer id and epoch.

        The first request fences older producers with the transactional id. Later requests follow a gap in the sequence numbers.
        """
        known = self.identity or Identity(-1, -1)
        return InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=known.producer_id,
            producer_epoch=known.producer_epoch,
        )

    def on_init_answer(self, answer: InitProducerIdResponse) -> None:
        """Process the answer to `init_request`."""
        self.identity = Identity(answer.producer_id, answer.producer_epoch)
        self.needs_epoch = False
        if self.phase is TransactionPhase.UNINITIALIZED:
            self.phase = TransactionPhase.READY
            self.failure = None

    def end_request(self) -> EndTxnRequest | None:
        """Build the request that ends the transaction; None if the coordinator cannot have begun it, or has forgotten the id."""
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
        """Process the answer to `end_request`. Return whether the transaction has ended; if not, the caller raises the error."""
        if self.phase is TransactionPhase.ABORTING and answer.error_code == codes.INVALID_PRODUCER_ID_MAPPING:
            self._id_forgotten = self.needs_epoch = True
            return True
        if answer.error_code:
            return False
        self._has_begun = False
        self.not_begun()
        if answer.producer_id >= 0:
            self.identity = Identity(answer.producer_id, answer.producer_epoch)
            self.needs_epoch = False
        return True

    def reset(self) -> None:
        """Reset the state after the end of a transaction, so that the next one can begin."""
        self.phase = TransactionPhase.READY
        self.failure = None
        self._added.clear()
        self.not_begun()
        self._has_begun = self._end_asked = self._id_forgotten = False
