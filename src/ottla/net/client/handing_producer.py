"""Writes ready batches in transactions that somebody else ends: what a task writes through that shares a batch with others.

Knows how a transaction begins and what is written in it; who ends it is the business of `ottla.once`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from ottla.client.errors import KafkaError, TransactionError
from ottla.client.lane import Identity
from ottla.client.settings import ProducerSettings
from ottla.client.transactions import ProducerTransactions
from ottla.client.types import TopicPartition
from ottla.net.client.batch_producer import BatchProducer
from ottla.net.client.batch_sender import BatchSender
from ottla.net.client.transaction_driver import TransactionDriver


class HandingProducer(BatchProducer):
    """A `BatchProducer` with a `transactional_id`. Every batch belongs into a transaction, between `begin` and `hand_over`."""

    def __init__(self, settings: ProducerSettings) -> None:
        super().__init__(settings)
        assert settings.transactional_id is not None, "it is one with transactions"
        self._machine = ProducerTransactions(settings.transactional_id, settings.transaction_timeout_ms)
        self._partitions: set[TopicPartition] = set()

    async def start(self) -> Self:
        """Begin; connections are opened when first needed."""
        await super().start()
        self._sender = BatchSender(self._cluster, self._settings, self._tasks, self._pump, self._machine)
        self._driver = TransactionDriver(
            self._cluster,
            self._settings,
            self._tasks,
            self._machine,
            flush=self._written_all,
            drop=self._dropped,
            begins_with=self._sender.restart,
            pump=self._pump,
        )
        return self

    def _pump(self) -> None:
        super()._pump()
        self._driver.add_wanted()

    async def initialize(self) -> None:
        """Get an id and an epoch; the next epoch where there is one already. Raises `KafkaError`."""
        if self._machine.identity is None:
            await self._driver.initialize()
        else:
            await self._driver.renew()

    async def begin(self) -> None:
        """Open a transaction: with its first batch, brokers know of it. Raises `TransactionError`, or another `KafkaError`."""
        await self._driver.begin()
        self._partitions.clear()

    async def send(self, batches: Iterable[tuple[TopicPartition, bytearray]]) -> None:
        """As `BatchProducer.send`."""
        batches = list(batches)
        self._partitions.update(where for where, _ in batches)
        await super().send(batches)

    async def hand_over(self) -> tuple[Identity, tuple[TopicPartition, ...]]:
        """Wait until everything is written, and leave the transaction open for somebody else to end. Raises `KafkaError`.

        Returns under which identity it was written, and into which partitions.
        """
        await self.flush()
        identity = self._machine.identity
        assert identity is not None, "a transaction has begun"
        self._machine.handed_over()
        return identity, tuple(sorted(self._partitions))

    def take_back(self, identity: Identity) -> None:
        """Go on under this identity, after somebody else has ended what was handed over."""
        self._machine.taken_back(identity)
        self._sender.restart(identity)

    async def abort(self) -> None:
        """Abort the transaction. Raises `KafkaError`."""
        await self._driver.abort()

    async def _written_all(self) -> None:
        await self.flush()

    async def _dropped(self, error: TransactionError) -> None:
        """Write nothing more, and return once nothing is on its way."""
        self._pump()
        while not self._sender.idle:
            await self._progress()
        try:
            await self.flush()
        except KafkaError:
            return  # of what is dropped
