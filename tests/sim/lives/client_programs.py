"""Programs of users: they call the shipped asynchronous clients, and write down what these return."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla import AsyncConsumer, AsyncProducer
from ottla.client.errors import KafkaError
from ottla.client.types import ConsumerRecord, TopicPartition
from ottla.net.client.consumer.membership_driver import MembershipDriver
from ottla.net.client.producer.delivery import Delivery
from ottla.sim.event_loop import SimEventLoop
from ottla.sim.world import World
from tests.sim.lives.client_ledger import ClientLedger, Handed, Promises, Sent, Share

if TYPE_CHECKING:
    from ottla.client.consumer.consumer_membership import ConsumerMembership
    from ottla.client.consumer.membership import Membership

log = logging.getLogger("ottla.sim.clients")

RECORDS_AT_FIRST, RECORDS_IN_A_SECOND = 60, 10
"""The limit on the records of a writer: all must be read, too, and writers must write until the end of all trouble."""
CLIENT = {
    "request_timeout_ms": 2_000,
    "default_api_timeout_ms": 8_000,
    "retry_backoff_ms": 50,
    "reconnect_backoff_max_ms": 500,
    "metadata_max_age_ms": 5_000,
}


class ProgramPlace(NamedTuple):
    """What a program has: a process in the world, the ledger, and the addresses of brokers."""

    world: World
    loop: SimEventLoop
    ledger: ClientLedger
    bootstrap: str


class Source(NamedTuple):
    """What members of a group read."""

    topic: str
    group_id: str


class ClientProgram(ABC):
    """One process with one client. `work` runs until `should_end`, and a kill ends it at once."""

    def __init__(self, place: ProgramPlace, name: str) -> None:
        self.world, self.loop, self.ledger, self.bootstrap = place
        self.name = name
        self.alive = True
        self.should_end = False
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._task = self.loop.spawn(self._run())

    def kill(self) -> None:
        """End the process at once."""
        self.alive = False
        self.ledger.killed.add(self.name)
        self.loop.end()

    @property
    def is_done(self) -> bool:
        return not self.alive

    async def _run(self) -> None:
        try:
            await self.work()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            if self.alive:
                self.ledger.violate("nothing unexpected", f"{self.name} ended with {type(error).__name__}: {error}")
        finally:
            self.alive = False

    @abstractmethod
    async def work(self) -> None: ...

    def say(self, what: str) -> None:
        """Print an event, if the run prints events."""
        log.info("%s", what)

    async def rest(self, most_ms: int) -> None:
        await asyncio.sleep(self.world.random.randrange(most_ms + 1) / 1000)


class Member:
    """A program's membership in a group, with the partitions that it reads. `on_taken` is called when it begins to read some."""

    def __init__(self, program: ClientProgram, source: Source) -> None:
        self.group_id = source.group_id
        self.name = program.name
        self.held: dict[TopicPartition, Share] = {}
        self.on_taken: Callable[[Member, list[TopicPartition]], None] = lambda member, partitions: None
        self._program, self._topic = program, source.topic
        self._consumer: AsyncConsumer | None = None

    @property
    def alive(self) -> bool:
        return self._program.alive

    @property
    def machine(self) -> Membership | ConsumerMembership:
        """Return the member's state machine."""
        driver = self._consumer._member if self._consumer is not None else None
        assert isinstance(driver, MembershipDriver)
        return driver.machine

    async def start(self, settings: dict[str, Any]) -> AsyncConsumer:
        """Start a new consumer. Raises `KafkaError`."""
        self._consumer = AsyncConsumer(
            self._topic,
            bootstrap_servers=self._program.bootstrap,
            group_id=self.group_id,
            auto_offset_reset="earliest",
            on_assigned=self._on_assigned,
            on_revoked=self._on_revoked,
            **{**CLIENT, **settings},
        )
        return await self._consumer.start()

    async def close(self) -> None:
        """Close the consumer, whatever has become of it."""
        if self._consumer is not None:
            with suppress(KafkaError):
                await self._consumer.close()
        if self.alive and self.held:
            self._program.ledger.violate("one owner", f"{self.name} has left, and {sorted(self.held)} were not revoked")

    def hand_out(self, records: list[ConsumerRecord]) -> None:
        """Note records that the consumer has returned."""
        if not self.alive:
            return
        for record in records:
            where = TopicPartition(record.topic, record.partition)
            share = self.held.get(where)
            if share is None:
                self._program.ledger.violate("one owner", f"{self.name} got offset {record.offset} of {where}, which is another's")
                return
            handed = Handed(record.offset, bytes(record.value or b""), self._program.world.happened)
            self._program.ledger.handed_out(share, handed)

    def begin_anew(self) -> None:
        """Note that all partitions are read from other offsets than those after the last records."""
        for where in list(self.held):
            self._take(where)

    def _take(self, where: TopicPartition) -> None:
        self.held[where] = share = Share(self.group_id, self.name, where)
        self._program.ledger.shares.append(share)

    async def _on_assigned(self, partitions: list[TopicPartition]) -> None:
        if not self.alive:
            return
        for where in partitions:
            if where in self.held:
                self._program.ledger.violate("one owner", f"{self.name} was assigned {where} twice")
            self._take(where)
        self.on_taken(self, partitions)
        if self._program.world.random.random() < 0.1:
            await self._program.rest(500)

    def _on_revoked(self, partitions: list[TopicPartition]) -> None:
        if self.alive:
            for where in partitions:
                self.held.pop(where, None)


class SendingProgram(ClientProgram):
    """A program that writes numbered records, each once, and notes each report about them."""

    def __init__(self, place: ProgramPlace, name: str, settings: dict[str, Any]) -> None:
        super().__init__(place, name)
        self._count = 0
        self._settings = {**CLIENT, "bootstrap_servers": self.bootstrap, **settings}
        acks_all, is_idempotent = settings.get("acks") != "1", settings.get("enable_idempotence", True)
        ordered = is_idempotent or settings.get("max_in_flight_requests_per_connection") == 1
        self.ledger.begins(name, Promises(acks_all, is_idempotent, ordered))

    def _value(self) -> bytes:
        self._count += 1
        return f"{self.name}:{self._count}".encode()

    async def _send(self, producer: AsyncProducer, topic: str, value: bytes, **given: Any) -> Delivery:
        """Send a record. Raises `KafkaError`."""
        accepted: list[Sent] = []
        early: list[Delivery] = []

        def on_delivery(delivery: Delivery) -> None:
            if accepted:
                self._note(accepted[0], delivery)
            else:
                early.append(delivery)

        delivery = await producer.send(topic, value, on_delivery=on_delivery, **given)
        accepted.append(self.ledger.accepted(self.name, value, TopicPartition(delivery.topic, delivery.partition)))
        for each in early:
            self._note(accepted[0], each)
        return delivery

    def _note(self, sent: Sent, delivery: Delivery) -> None:
        if not self.alive:
            return
        try:
            self.ledger.told(sent, delivery.result(0))
        except KafkaError as error:
            self.ledger.told(sent, error)


class WritingProgram(SendingProgram):
    """A program that writes records to one topic, and sometimes waits, flushes and purges."""

    def __init__(self, place: ProgramPlace, name: str, settings: dict[str, Any], topic: str, rest_ms: int) -> None:
        super().__init__(place, name, settings)
        self._topic, self._rest_ms = topic, rest_ms

    async def work(self) -> None:
        random = self.world.random
        producer = AsyncProducer(**self._settings)
        await producer.start()
        began_ms = self.world.now_ms
        while not self.should_end:
            most = RECORDS_AT_FIRST + RECORDS_IN_A_SECOND * (self.world.now_ms - began_ms) // 1_000
            for _ in range(random.choice((1, 1, 3, 20)) if self._count < most else 0):
                with suppress(KafkaError):
                    await self._send_one(producer)
            act = random.random()
            with suppress(KafkaError):
                if act < 0.05:
                    await producer.flush(random.choice((None, 0, 500)))
                elif act < 0.08:
                    await producer.purge()
            await self.rest(self._rest_ms)
        with suppress(KafkaError):
            await producer.close(random.choice((None, None, 60_000)))

    async def _send_one(self, producer: AsyncProducer) -> None:
        random = self.world.random
        value = self._value() + b" " * random.choice((0, 0, 0, 200, 3_000))
        delivery = await self._send(producer, self._topic, value, key=random.choice((None, b"a", b"b", b"c")))
        if random.random() < 0.1:
            await delivery


class ReadingProgram(ClientProgram):
    """A member of a group that hands out records, and commits in one of several ways."""

    def __init__(self, place: ProgramPlace, name: str, settings: dict[str, Any], source: Source, slow_ms: int) -> None:
        super().__init__(place, name)
        self.member = Member(self, source)
        self.slow_ms = slow_ms
        self._settings = settings
        self._commits_by_hand = not settings.get("enable_auto_commit", True)

    async def work(self) -> None:
        while not self.should_end:
            try:
                consumer = await self.member.start(self._settings)
                while not self.should_end:
                    await self._read_some(consumer)
                    if self.world.random.random() < 0.01:
                        break
            except KafkaError as error:
                self.say(f"{self.name}: {error}")
            await self.member.close()
            await self.rest(1_000)

    async def _read_some(self, consumer: AsyncConsumer) -> None:
        random = self.world.random
        records = await consumer.poll(random.choice((0, 50, 300, 1_000)), random.choice((None, 1, 7)))
        self.member.hand_out(records)
        if self._commits_by_hand and random.random() < 0.3:
            if random.random() < 0.5:
                with suppress(KafkaError):
                    await consumer.commit()
            else:
                consumer.commit_soon(on_commit=lambda offsets, error: None)
        if random.random() < 0.3:
            await self.rest(self.slow_ms)
        if random.random() < 0.15 and consumer.assignment():
            await self._pause_one(consumer, records)
        await asyncio.sleep(0.001 if records else 0.02)  # a user's work takes time

    async def _pause_one(self, consumer: AsyncConsumer, records: list[ConsumerRecord]) -> None:
        """Pause the partition of the last records, of which the consumer may have more, or any partition."""
        last = {TopicPartition(each.topic, each.partition) for each in records[-1:]} & set(consumer.assignment())
        where = self.world.random.choice(sorted(last or consumer.assignment()))
        share = self.member.held.get(where)
        consumer.pause(where)
        for _ in range(2):
            records = await consumer.poll(50, self.world.random.choice((None, 1)))
            is_same = self.alive and share is self.member.held.get(where)
            if is_same and any((each.topic, each.partition) == where for each in records):
                self.ledger.violate("no gaps", f"{self.name} handed out records of {where}, which was paused")
            self.member.hand_out(records)
        if where in consumer.assignment():
            consumer.resume(where)
