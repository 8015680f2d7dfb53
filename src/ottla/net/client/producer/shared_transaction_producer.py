"""A producer of encoded batches in transactions that another process ends, for one of many tasks that write a batch together.

The producer begins a transaction and writes into it. `ottla.once` decides which process ends the transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from ottla.client.errors import KafkaError, TransactionError
from ottla.client.producer.partition_queue import Identity
from ottla.client.producer.transactions import ProducerTransactions
from ottla.client.settings.clients import ProducerSettings
from ottla.client.types import TopicPartition
from ottla.net.client.producer.batch_producer import BatchProducer
from ottla.net.client.producer.batch_sender import BatchSender
from ottla.net.client.producer.transaction_driver import TransactionDriver


class TransferableProducer(BatchProducer):
    """A `BatchProducer` with a `transactional_id`, whose transactions another process commits.

    Every batch belongs to a transaction, between `begin` and `detach`.
    """

    def __init__(self, settings: ProducerSettings) -> None:
        super().__init__(settings)
        assert settings.transactional_id is not None, "it is one with transactions"
        self._machine = ProducerTransactions(settings.transactional_id, settings.transaction_timeout_ms)
        self._partitions: set[TopicPartition] = set()

    async def start(self) -> Self:
        """Start the producer. Connections are opened when first needed."""
        await super().start()
        self._sender = BatchSender(self._cluster, self._settings, self._tasks, self._pump, self._machine)
        self._driver = TransactionDriver(
            self._cluster,
            self._settings,
            self._tasks,
            self._machine,
            flush=self._written_all,
            drop=self._drop_unsent,
            begins_with=self._sender.machine.restart,
            pump=self._pump,
        )
        return self

    def _pump(self) -> None:
        super()._pump()
        self._driver.add_wanted()

    async def initialize(self) -> None:
        """Request a producer id and an epoch. If there is an id already, request its next epoch. Raises `KafkaError`."""
        if self._machine.identity is None:
            await self._driver.initialize()
        else:
            await self._driver.renew()

    async def begin(self) -> None:
        """Begin a transaction. Brokers add it when the first batch arrives. Raises `TransactionError`, or another `KafkaError`."""
        await self._driver.begin()
        self._partitions.clear()

    async def send(self, batches: Iterable[tuple[TopicPartition, bytearray]]) -> None:
        """Send batches in the transaction, as `BatchProducer.send` does without one."""
        batches = list(batches)
        self._partitions.update(where for where, _ in batches)
        await super().send(batches)

    async def detach(self) -> tuple[Identity, tuple[TopicPartition, ...]]:
        """Wait until everything is written, and leave the transaction open for another process to end.

        Return the producer id and epoch of the writes, and their partitions. Raises `KafkaError`.
        """
        await self.flush()
        identity = self._machine.identity
        assert identity is not None, "a transaction has begun"
        self._machine.detach()
        return identity, tuple(sorted(self._partitions))

    def reattach(self, identity: Identity) -> None:
        """Continue with the producer id and epoch that the coordinator returned when another process ended the transaction."""
        self._machine.reattach(identity)
        self._sender.machine.restart(identity)

    async def abort(self) -> None:
        """Abort the transaction. Raises `KafkaError`."""
        await self._driver.abort()

    async def _written_all(self) -> None:
        await self.flush()

    async def _drop_unsent(self, error: TransactionError) -> None:
        """Drop the unsent batches of a transaction that `error` requires to abort, and return once no batch is in flight."""
        self._pump()
        while not self._sender.machine.idle:
            await self._progress()
        try:
            await self.flush()
        except KafkaError:
            return  # the error is about the batches that are dropped
