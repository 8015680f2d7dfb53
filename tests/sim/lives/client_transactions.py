"""Programs with transactions: one writes, and others copy a topic exactly once as members of a group (KIP-447)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ottla import AsyncConsumer, AsyncProducer
from ottla.client.errors import KafkaError, TransactionAbortable
from ottla.client.types import ConsumerRecord
from tests.sim.lives.client_ledger import ABORTED, COMMITTED, MARK, Transaction
from tests.sim.lives.client_programs import Member, ProgramPlace, SendingProgram, Source


class ChangeOfMind(Exception):
    """The user gives a transaction up."""


class TransactionProgram(SendingProgram):
    """A program that writes in transactions, and gives some of them up."""

    def __init__(self, place: ProgramPlace, name: str, settings: dict[str, Any], topic: str, partitions: int) -> None:
        super().__init__(place, name, settings)
        self._topic, self._partitions = topic, partitions

    async def work(self) -> None:
        while not self.should_end:
            producer = AsyncProducer(**self._settings)
            await producer.start()
            try:
                while not self.should_end:
                    await self._write(producer)
                    await self.rest(300)
            except KafkaError as error:
                self.say(f"{self.name}: {error}")
            with suppress(KafkaError):
                await producer.close(10_000)
            await self.rest(500)

    async def _write(self, producer: AsyncProducer) -> None:
        """Write one transaction. Raises `KafkaError` if the producer must be replaced."""
        random = self.world.random
        transaction = Transaction()
        self.ledger.transactions.append(transaction)
        with suppress(TransactionAbortable, ChangeOfMind):
            async with producer.transaction():
                for _ in range(random.choice((0, 1, 3, 10))):
                    value, partition = self._value(), random.randrange(self._partitions)
                    await self._send(producer, self._topic, value, partition=partition)
                    transaction.values.append(value)
                if random.random() < 0.2:
                    raise ChangeOfMind
            if self.alive:
                transaction.outcome = COMMITTED
            return
        if self.alive:  # the block's end has aborted it
            transaction.outcome = ABORTED


class CopyingProgram(SendingProgram):
    """A member of a group that copies records to another topic, with their offsets in the same transaction."""

    def __init__(
        self, place: ProgramPlace, name: str, settings: dict[str, Any], reads: dict[str, Any], source: Source, target: str
    ) -> None:
        super().__init__(place, name, settings)
        self.member = Member(self, source)
        self._reads, self._target = reads, target

    async def work(self) -> None:
        while not self.should_end:
            producer = AsyncProducer(**self._settings)
            await producer.start()
            try:
                await producer.init_transactions()
                consumer = await self.member.start(self._reads)
                while not self.should_end:
                    await self._copy_some(consumer, producer)
                    await self.rest(20)
            except KafkaError as error:
                self.say(f"{self.name}: {error}")
            with suppress(KafkaError):
                await producer.close(10_000)
            await self.member.close()
            await self.rest(500)

    async def _copy_some(self, consumer: AsyncConsumer, producer: AsyncProducer) -> None:
        """Copy what a poll returns. Raises `KafkaError` if the clients must be replaced."""
        records = await consumer.poll(300)
        self.member.hand_out(records)
        if not records:
            return
        try:
            async with producer.transaction():
                await self._copy(producer, records)
                await producer.send_offsets(consumer.positions(), consumer)
                if self.world.random.random() < 0.1:
                    raise ChangeOfMind
        except (TransactionAbortable, ChangeOfMind):
            await consumer.seek_to_committed()
            self.member.begin_anew()

    async def _copy(self, producer: AsyncProducer, records: list[ConsumerRecord]) -> None:
        for record in records:
            value = bytes(record.value or b"") + MARK + self._value()
            await self._send(producer, self._target, value, partition=record.partition)
        if self.world.random.random() < 0.2:
            await self.rest(1_000)
