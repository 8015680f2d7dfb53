"""The driver of a producer's transactions over a cluster. It sends the requests of the state machine to coordinators, and retries.

`ottla.client.producer.transactions` interprets errors. Another driver sends the batches.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from ottla.client.consumer.committed_offsets import read_commit, transaction_commit_request
from ottla.client.errors import CommitFailed, KafkaError, TransactionError, TransactionFailed, broker_error
from ottla.client.producer.partition_queue import Identity
from ottla.client.producer.transactions import (
    EXPLICIT_END_TXN,
    EXPLICIT_OFFSET_COMMIT,
    IMPLICIT_FROM,
    TRANSACTION_VERSION,
    ProducerTransactions,
)
from ottla.client.settings.clients import ProducerSettings
from ottla.client.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.net.client.cluster import ClusterLinks
from ottla.net.client.coordinator import GROUP, TRANSACTION, Coordinator
from ottla.net.client.tasks import Tasks
from ottla.wire import errors as codes
from ottla.wire.api.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from ottla.wire.api.add_partitions_to_txn import AddPartitionsToTxnResponse
from ottla.wire.api.end_txn import EndTxnResponse
from ottla.wire.api.init_producer_id import InitProducerIdResponse

MOVED_ON = frozenset(
    {
        codes.ILLEGAL_GENERATION,
        codes.UNKNOWN_MEMBER_ID,
        codes.FENCED_INSTANCE_ID,
        codes.STALE_MEMBER_EPOCH,
        codes.GROUP_ID_NOT_FOUND,  # its last member has left, and it was deleted
    }
)
Result = TypeVar("Result")

log = logging.getLogger("ottla.client")


class TransactionDriver:
    """The requests of a producer's transactions: sends the requests that `ProducerTransactions` builds.

    `flush` writes all records, `drop` discards unsent ones, and `pump` sends the batches that are ready. `begins_with` is called
    with each new producer id and epoch.
    """

    def __init__(
        self,
        cluster: ClusterLinks,
        settings: ProducerSettings,
        tasks: Tasks,
        machine: ProducerTransactions,
        *,
        flush: Callable[[], Awaitable[None]],
        drop: Callable[[TransactionError], Awaitable[None]],
        begins_with: Callable[[Identity], None],
        pump: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._tasks = tasks
        self._machine = machine
        self._flush, self._drop, self._begins_with, self._pump = flush, drop, begins_with, pump
        self._coordinator = Coordinator(cluster, machine.transactional_id, TRANSACTION)
        self._groups: dict[str, Coordinator] = {}
        self._adding: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        """The lock of each step of a transaction, so that steps of several threads run one after the other."""
        machine.when_failed = self._log_failure

    def _log_failure(self, error: TransactionError) -> None:
        log.warning("transactional id %s: %s", self._machine.transactional_id, error)

    async def _retry(self, call: Callable[[], Awaitable[Result]]) -> Result:
        return await self._cluster.retry(call, timeout_ms=self._settings.max_block_ms)

    # --- begins

    async def initialize(self) -> None:
        """Request a producer id and an epoch, unless there are some. This fences older producers with the transactional id."""
        async with self._turn:
            self._machine.check_alive()
            if self._machine.identity is None:
                await self._get_epoch()

    async def renew(self) -> None:
        """Request the next epoch. Call this only between transactions."""
        async with self._turn:
            self._machine.check_alive()
            await self._get_epoch()

    async def _get_epoch(self) -> None:
        async def attempt() -> None:
            answer: InitProducerIdResponse = await self._coordinator.request(self._machine.init_request())
            self._coordinator.check(answer.error_code, self._about("Beginning"))
            self._machine.on_init_answer(answer)

        try:
            await self._retry(attempt)
        except KafkaError as error:
            raise self._transaction_error(error) from error
        identity = self._identity()
        log.info("transactional id %s: producer id %d, epoch %d", self._machine.transactional_id, *identity)
        self._begins_with(identity)

    async def begin(self) -> None:
        """Begin a transaction; the first call initializes the producer. Raises `TransactionError`, or another `KafkaError`."""
        await self.initialize()
        link = await self._retry(self._coordinator.link)
        self._machine.begin(implicit=link.feature(TRANSACTION_VERSION) >= IMPLICIT_FROM)

    # --- partitions and offsets

    def add_wanted(self) -> None:
        """Add the partitions with waiting batches to the transaction, by background requests to the coordinator."""
        if self._machine.wanted and self._machine.stop is None and (self._adding is None or self._adding.done()):
            self._adding = self._tasks.spawn(self._add())

    async def _add(self) -> None:
        partitions = sorted(self._machine.wanted)

        async def unless_stopped() -> None:
            if self._machine.stop is None:
                await self._add_partitions(partitions)

        try:
            await self._retry(unless_stopped)
        except KafkaError as error:
            self._machine.record_error(error, by_coordinator=True)
        self._pump()

    async def _add_partitions(self, partitions: list[TopicPartition]) -> None:
        self._machine.record_sent(partitions)
        request = self._machine.add_request(partitions)
        answer: AddPartitionsToTxnResponse = await self._coordinator.request(request)
        refused: dict[int, str] = {}
        for topic in answer.results_by_topic_v3_and_below:
            for part in topic.results_by_partition:
                refused.setdefault(part.partition_error_code, f"{topic.name}-{part.partition_index}")
        # If one partition is refused, the others are not attempted, and their error codes do not say why.
        for code in sorted(refused, key=lambda code: code == codes.OPERATION_NOT_ATTEMPTED):
            self._coordinator.check(code, self._about(f"Adding {refused[code]} to a transaction"))
        self._machine.confirm_added(partitions)

    async def send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: ConsumerGroupMetadata) -> None:
        """Commit a group's offsets as part of the transaction. Raises `TransactionError`."""
        machine = self._machine
        machine.check_open()
        if not offsets:
            return
        try:
            if not machine.implicit:
                await self._retry(lambda: self._add_group(member.group_id))
            await self._retry(lambda: self._commit_offsets(offsets, member))
        except KafkaError as error:
            raise machine.record_error(error, by_coordinator=True) from error

    def refuse(self, error: CommitFailed) -> KafkaError:
        """Let the transaction fail, because its offsets cannot be committed. Return the error to raise."""
        self._machine.check_open()
        return self._machine.record_error(error, by_coordinator=True)

    async def _add_group(self, group_id: str) -> None:
        producer = self._identity()
        self._machine.record_sent(group_id=group_id)
        request = AddOffsetsToTxnRequest(
            transactional_id=self._machine.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            group_id=group_id,
        )
        answer: AddOffsetsToTxnResponse = await self._coordinator.request(request)
        self._coordinator.check(answer.error_code, self._about(f"Adding group {group_id} to a transaction"))
        self._machine.confirm_added()

    async def _commit_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: ConsumerGroupMetadata) -> None:
        coordinator = self._groups.setdefault(member.group_id, Coordinator(self._cluster, member.group_id, GROUP))
        request = transaction_commit_request(self._machine.transactional_id, self._identity(), member, offsets)
        self._machine.record_sent(group_id=member.group_id)
        most = None if self._machine.implicit else EXPLICIT_OFFSET_COMMIT
        for where, code in read_commit(await coordinator.request(request, most)):
            context = f"Committing {where.topic}-{where.partition} to group {member.group_id} in a transaction"
            if code in MOVED_ON:
                raise CommitFailed(f"{broker_error(code, context)} The group's other members read the records again.")
            coordinator.check(code, context)
        self._machine.confirm_sent()

    # --- ends

    async def commit(self) -> None:
        """Write all records, and commit. Raises `TransactionAbortable`, `TransactionFailed`.

        After any other error, it is unknown whether the transaction was committed, so call this again.
        """
        async with self._turn:
            self._machine.commit()
            await self._flush()
            self._machine.commit()  # raises an error that occurred during the flush
            await self._end()

    async def abort(self) -> None:
        """Drop unwritten records, and abort. Raises `TransactionFailed`. After any other error, call again."""
        async with self._turn:
            await self._abort()

    async def abort_open(self) -> None:
        """Abort the transaction, unless the call of another thread ends it first. Raises the exceptions of `abort`."""
        async with self._turn:
            if self._machine.can_abort:
                await self._abort()

    async def _abort(self) -> None:
        self._machine.abort()
        if self._adding is not None and not self._adding.done():
            await asyncio.wait([self._adding])
        if (stop := self._machine.stop) is not None:
            await self._drop(stop)
        await self._make_sure()
        await self._end()

    async def _make_sure(self) -> None:
        """Make sure that the coordinator has begun the transaction: if that is uncertain, add the partitions or the group again.

        A coordinator that has just ended the previous transaction would refuse an abort like that of a fenced producer.
        """
        if (unsure := self._machine.unsure) is None:
            return
        partitions, group_id = unsure
        try:
            if group_id is not None:
                await self._retry(lambda: self._add_group(group_id))
            else:
                await self._retry(lambda: self._add_partitions(partitions))
        except KafkaError as error:
            judged = self._transaction_error(error)
            if error.retriable or isinstance(judged, TransactionFailed):
                raise judged from error
            self._machine.not_begun()

    async def _end(self) -> None:
        machine = self._machine
        try:
            await self._retry(self._request_end)
        except KafkaError as error:
            raise self._transaction_error(error) from error
        if machine.needs_epoch:
            await self._get_epoch()
        self._begins_with(self._identity())
        machine.reset()

    async def _request_end(self) -> None:
        request = self._machine.end_request()
        if request is None:
            return
        most = None if self._machine.implicit else EXPLICIT_END_TXN
        answer: EndTxnResponse = await self._coordinator.request(request, most)
        if not self._machine.end_answered(answer):
            self._coordinator.check(answer.error_code, self._about("Ending a transaction"))

    def _transaction_error(self, error: KafkaError) -> KafkaError:
        """Return a retriable error unchanged. For any other error, return the transaction error that it causes."""
        return error if error.retriable else self._machine.record_error(error, by_coordinator=True)

    def _identity(self) -> Identity:
        assert self._machine.identity is not None
        return self._machine.identity

    def _about(self, doing: str) -> str:
        return f"{doing} with transactional_id={self._machine.transactional_id}"
