"""Programs of users: they call the shipped asynchronous clients, and write down what these return."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

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

BOOTSTRAP = "broker-1:9092"
CLIENT = {
    "request_timeout_ms": 2_000,
    "default_api_timeout_ms": 8_000,
    "retry_backoff_ms": 50,
    "reconnect_backoff_max_ms": 500,
    "metadata_max_age_ms": 5_000,
}


class ClientProgram:
    """One process with one client. `work` runs until `should_end`, and a kill ends it at once."""

    def __init__(self, world: World, loop: SimEventLoop, ledger: ClientLedger, name: str) -> None:
        self.world = world
        self.loop = loop
        self.ledger = ledger
        self.name = name
        self.alive = True
        self.should_end = False
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._task = self.loop.spawn(self._run())

    def kill(self) -> None:
        """End the process at once."""
        self.alive = False
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

    async def work(self) -> None:
        raise NotImplementedError

    async def rest(self, most_ms: int) -> None:
        await asyncio.sleep(self.world.random.randrange(most_ms + 1) / 1000)


class WritingProgram(ClientProgram):
    """A program that writes numbered records, each once."""

    def __init__(
        self, world: World, loop: SimEventLoop, ledger: ClientLedger, name: str, topic: str, settings: dict[str, Any], rest_ms: int
    ) -> None:
        super().__init__(world, loop, ledger, name)
        self._topic, self._settings, self._rest_ms = topic, settings, rest_ms
        self._count = 0
        acks_all, is_idempotent = settings.get("acks") != "1", settings.get("enable_idempotence", True)
        ordered = is_idempotent or settings.get("max_in_flight_requests_per_connection") == 1
        ledger.begins(name, Promises(acks_all, is_idempotent, ordered))

    async def work(self) -> None:
        world = self.world
        producer = AsyncProducer(BOOTSTRAP, **{**CLIENT, **self._settings})
        await producer.start()
        while not self.should_end:
            for _ in range(world.random.choice((1, 1, 3, 20))):
                await self._send(producer)
            act = world.random.random()
            with suppress(KafkaError):
                if act < 0.05:
                    await producer.flush(world.random.choice((None, 0, 500)))
                elif act < 0.08:
                    await producer.purge()
            await self.rest(self._rest_ms)
        with suppress(KafkaError):
            await producer.close(world.random.choice((None, None, 60_000)))

    async def _send(self, producer: AsyncProducer) -> None:
        random = self.world.random
        self._count += 1
        value = f"{self.name}:{self._count}".encode() + b" " * random.choice((0, 0, 0, 200, 3_000))
        key = random.choice((None, b"a", b"b", b"c"))
        accepted: list[Sent] = []
        early: list[Delivery] = []

        def on_delivery(delivery: Delivery) -> Any:
            if not accepted:
                early.append(delivery)
                return None
            return self._note(accepted[0], delivery)

        try:
            delivery = await producer.send(self._topic, value, key=key, on_delivery=on_delivery)
        except KafkaError:
            return
        accepted.append(self.ledger.accepted(self.name, value, TopicPartition(delivery.topic, delivery.partition)))
        for each in early:
            self._note(accepted[0], each)
        if random.random() < 0.1:
            with suppress(KafkaError):
                await delivery

    def _note(self, sent: Sent, delivery: Delivery) -> None:
        if not self.alive:
            return
        try:
            self.ledger.told(sent, delivery.result(0))
        except KafkaError as error:
            self.ledger.told(sent, error)


class ReadingProgram(ClientProgram):
    """A member of a group that hands out records, and commits in one of several ways."""

    def __init__(
        self,
        world: World,
        loop: SimEventLoop,
        ledger: ClientLedger,
        name: str,
        topic: str,
        group_id: str,
        settings: dict[str, Any],
        owners: Callable[[ReadingProgram, list[TopicPartition]], None],
        slow_ms: int,
    ) -> None:
        super().__init__(world, loop, ledger, name)
        self.group_id = group_id
        self.held: dict[TopicPartition, Share] = {}
        self._topic, self._settings, self._owners = topic, settings, owners
        self.slow_ms = slow_ms
        self._consumer: AsyncConsumer | None = None
        self._commits_by_hand = not settings.get("enable_auto_commit", True)

    @property
    def machine(self) -> Membership | ConsumerMembership:
        """Return the member's state machine."""
        member = self._consumer._member if self._consumer is not None else None
        assert isinstance(member, MembershipDriver)
        return member.machine

    async def work(self) -> None:
        world = self.world
        while not self.should_end:
            self._consumer = AsyncConsumer(
                self._topic,
                bootstrap_servers=BOOTSTRAP,
                group_id=self.group_id,
                auto_offset_reset="earliest",
                on_assigned=self._on_assigned,
                on_revoked=self._on_revoked,
                **{**CLIENT, **self._settings},
            )
            try:
                await self._consumer.start()
                while not self.should_end:
                    await self._read_some(self._consumer)
                    if world.random.random() < 0.01:
                        break
            except KafkaError:
                pass
            with suppress(KafkaError):
                await self._consumer.close()
            self._on_revoked(list(self.held))
            await self.rest(1_000)

    async def _read_some(self, consumer: AsyncConsumer) -> None:
        random = self.world.random
        records = await consumer.poll(random.choice((0, 50, 300, 1_000)), random.choice((None, 1, 7)))
        for record in records:
            self._hand_out(record)
        if self._commits_by_hand and random.random() < 0.3:
            if random.random() < 0.5:
                with suppress(KafkaError):
                    await consumer.commit()
            else:
                consumer.commit_soon(on_commit=lambda offsets, error: None)
        if random.random() < 0.3:
            await self.rest(self.slow_ms)
        if random.random() < 0.02 and consumer.assignment():
            where = random.choice(sorted(consumer.assignment()))
            consumer.pause(where)
            for record in await consumer.poll(50):
                self._hand_out(record)
            if where in consumer.assignment():
                consumer.resume(where)
        await asyncio.sleep(0.001 if records else 0.02)  # a user's work takes time

    def _hand_out(self, record: ConsumerRecord) -> None:
        if not self.alive:
            return
        where = TopicPartition(record.topic, record.partition)
        share = self.held.get(where)
        if share is None:
            self.ledger.violate("one owner", f"{self.name} handed out offset {record.offset} of {where}, which it does not have")
            return
        share.handed.append(Handed(record.offset, record.value, self.world.happened))

    async def _on_assigned(self, partitions: list[TopicPartition]) -> None:
        if not self.alive:
            return
        for where in partitions:
            if where in self.held:
                self.ledger.violate("one owner", f"{self.name} was assigned {where} twice")
            self.held[where] = share = Share(self.group_id, self.name, where)
            self.ledger.shares.append(share)
        self._owners(self, partitions)
        if self.world.random.random() < 0.1:
            await self.rest(500)

    def _on_revoked(self, partitions: list[TopicPartition]) -> None:
        if self.alive:
            for where in partitions:
                self.held.pop(where, None)
