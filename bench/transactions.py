"""Transactions over raw sockets, the same on every broker: `python -m bench.transactions`, and part of `make bench`.

One process of ours plays all producers: each begins the next transaction when the last one is answered. Producers speak as those of
Kafka 4 do: records themselves make their partition part of the transaction (KIP-890).
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource

from bench.groups import Link
from bench.loads import PARTITIONS, QUIET, Figures, topic_of
from bench.report import Results, table
from bench.servers import Kafka, Ottla, Server, cpu_s
from ottla.records.batches.builder import build
from ottla.wire.api.end_txn import EndTxnRequest
from ottla.wire.api.find_coordinator import FindCoordinatorRequest
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.errors import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NONE,
    NOT_COORDINATOR,
    NOT_LEADER_OR_FOLLOWER,
)

PRODUCE, FIND, INIT, END = 0, 10, 22, 26
PRODUCE_VERSION, FIND_VERSION, INIT_VERSION, END_VERSION = 12, 4, 4, 5
OF_TRANSACTIONS = 1
RECORDS = 10
VALUE = bytes(100)
MANY = 20
BACKOFF_S = 0.02
"""Before a producer asks again where the end of its last transaction is still being written: that of Kafka's own."""
TAKES_TIME = (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NOT_COORDINATOR,
    NOT_LEADER_OR_FOLLOWER,
)
NAME = "transactions of 10 records of 100 B"
BESIDE = "read_committed, time ÷ that of read_uncommitted"
TURNS = 5
"""How often each way to read is measured, in turns: the best counts."""


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    of_one: int = 300
    of_many: int = 4_000
    consumed: int = 400_000
    consumed_at_once: int = 200

    def divided(self, by: int) -> Sizes:
        return Sizes(max(10, self.of_one // by), max(MANY, self.of_many // by), max(MANY, self.consumed // by))


class TransactionalProducer:
    """One producer: `run` makes transactions, one after another."""

    def __init__(self, link: Link, transactional_id: str, topic: str, partition: int, records: int) -> None:
        self._link = link
        self._values = [VALUE] * records
        self._transactional_id = transactional_id
        self._topic = topic
        self._partition = partition
        self._producer_id = self._epoch = -1
        self._sequence = 0

    async def begin(self) -> None:
        """Get a producer id, once there is a coordinator."""
        find = FindCoordinatorRequest(key_type=OF_TRANSACTIONS, coordinator_keys=[self._transactional_id])
        while (await self._link.request(FIND, FIND_VERSION, find)).coordinators[0].error_code:  # noqa: ASYNC110  # it is in the broker
            await asyncio.sleep(BACKOFF_S)
        init = InitProducerIdRequest(transactional_id=self._transactional_id, transaction_timeout_ms=60_000)
        while True:
            answer = await self._link.request(INIT, INIT_VERSION, init)
            if answer.error_code == NONE:
                self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
                return
            await self._pause(answer.error_code)

    async def run(self, count: int) -> None:
        for _ in range(count):
            await self._produce()
            await self._commit()

    async def _produce(self) -> None:
        batch = build(
            None,
            self._values,
            int(time.time() * 1000),
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequence,
            transactional=True,
        )
        data = ProduceRequest.PartitionProduceData(index=self._partition, records=batch)
        topics = [ProduceRequest.TopicProduceData(name=self._topic, partition_data=[data])]
        request = ProduceRequest(transactional_id=self._transactional_id, acks=-1, timeout_ms=30_000, topic_data=topics)
        while True:
            answer = await self._link.request(PRODUCE, PRODUCE_VERSION, request)
            error_code = answer.responses[0].partition_responses[0].error_code
            if error_code == NONE:
                self._sequence += len(self._values)
                return
            await self._pause(error_code)

    async def _commit(self) -> None:
        request = EndTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=True,
        )
        while True:
            answer = await self._link.request(END, END_VERSION, request)
            if answer.error_code == NONE:
                if (answer.producer_id, answer.producer_epoch) != (self._producer_id, self._epoch):
                    self._sequence = 0  # each transaction has an epoch of its own, and sequences begin anew with it
                self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
                return
            await self._pause(answer.error_code)

    async def _pause(self, error_code: int) -> None:
        if error_code not in TAKES_TIME:
            raise RuntimeError(f"the broker answered error {error_code}")
        await asyncio.sleep(BACKOFF_S)


async def seconds(server: Server, topic: str, producers: int, count: int, records: int = RECORDS) -> tuple[float, float]:
    """(seconds, seconds of the broker's CPU) for `count` transactions of `records` each, of so many producers at the same time."""
    links = [await Link.open(server.address) for _ in range(producers)]
    started = time.monotonic_ns()
    players = [
        TransactionalProducer(link, f"bench-{started}-{number}", topic, number % PARTITIONS, records)
        for number, link in enumerate(links)
    ]
    for player in players:
        await player.begin()
        await player.run(1)
    spent, began = cpu_s(server), time.perf_counter()
    await asyncio.gather(*(player.run(count // producers) for player in players))
    took, spent = time.perf_counter() - began, cpu_s(server) - spent
    for link in links:
        link.close()
    return took, spent


def produced(server: Server, sizes: Sizes, *, is_synced: bool = True) -> Figures:
    """Transactions of one producer and of many."""
    figures: Figures = {}
    for producers, count, label in ((1, sizes.of_one, "one producer"), (MANY, sizes.of_many, f"{MANY} producers")):
        with topic_of(server, PARTITIONS) as topic:
            if not is_synced:
                promise_as_kafka(server.address, [topic])
            took, spent = asyncio.run(seconds(server, topic, producers, count))
        figures[f"{NAME}, {label}, transactions/s"] = count / took
        figures[f"{NAME}, {label}, broker CPU, s per thousand"] = spent / count * 1000
    return figures


def read(server: Server, sizes: Sizes) -> Figures:
    """What readers of committed records get, beside those who read everything."""
    each = sizes.consumed // MANY // sizes.consumed_at_once
    count = (each + 1) * MANY * sizes.consumed_at_once
    with topic_of(server, PARTITIONS) as topic:
        asyncio.run(seconds(server, topic, MANY, each * MANY, sizes.consumed_at_once))
        taken = [tuple(consume(server, topic, level, count) for level in LEVELS) for _ in range(TURNS)]
    uncommitted, committed = (min(times) for times in zip(*taken, strict=True))
    return {"read_committed, records/s": count / committed, BESIDE: committed / uncommitted}


LEVELS = ("read_uncommitted", "read_committed")


def consume(server: Server, topic: str, isolation_level: str, count: int) -> float:
    """Seconds until so many records have come."""
    settings = {"bootstrap.servers": server.address, "group.id": "bench", "enable.auto.commit": False, **QUIET}
    consumer = Consumer({**settings, "isolation.level": isolation_level})
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    came, began = 0, time.perf_counter()
    while came < count:
        got: Sequence[Any] = consumer.consume(min(10_000, count - came), 1)
        came += len(got)
        if time.perf_counter() - began > 60:
            raise RuntimeError(f"{server.name} sent only {came} of {count} records")
    took = time.perf_counter() - began
    consumer.close()
    return took


def promise_as_kafka(address: str, topics: Sequence[str]) -> None:
    """Have what goes into these topics answered from the page cache, which is all that Apache Kafka promises."""
    admin = AdminClient({"bootstrap.servers": address, **QUIET})
    entry = ConfigEntry("ottla.acks.all.sync", "false", incremental_operation=AlterConfigOpType.SET)
    for topic in topics:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        for done in admin.incremental_alter_configs([resource]).values():
            done.result(30)


def measure(results: Results, sizes: Sizes, rounds: int, *, alone: bool = False) -> None:
    """All brokers in turns; Ottla once more with what Apache Kafka promises of a transaction."""
    with ExitStack() as running:
        servers: list[Server] = [running.enter_context(Ottla())]
        quick = running.enter_context(Ottla())
        if not alone:
            servers.append(running.enter_context(Kafka()))
        for server in (*servers, quick):
            produced(server, sizes.divided(10))
        promise_as_kafka(quick.address, ["__transaction_state"])
        for _ in range(rounds):
            for server in servers:
                figures = produced(server, sizes)
                results.add(server.name, figures | read(server, sizes))
                if server is not servers[0]:
                    results.add(server.name, {cached(name): value for name, value in figures.items()})
            cached_figures = produced(quick, sizes, is_synced=False)
            results.add(servers[0].name, {cached(name): value for name, value in cached_figures.items()})


def cached(name: str) -> str:
    """The name of the same figure where transactions are answered from the page cache on either side."""
    return name.replace(NAME, f"{NAME} from the page cache")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.transactions", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--divide", type=int, default=1, metavar="N", help="make every load N times smaller")
    parser.add_argument("--alone", action="store_true", help="measure Ottla without Apache Kafka")
    wanted = parser.parse_args()
    results = Results([Ottla.name] if wanted.alone else [Ottla.name, Kafka.name])
    measure(results, Sizes().divided(wanted.divide), wanted.rounds, alone=wanted.alone)
    print(table(results))


if __name__ == "__main__":
    main()
