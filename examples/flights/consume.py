"""A consumer group of two, written with aiokafka: reads topic `delays` to its end and keeps the last row of every key."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import IllegalStateError

from examples.flights.delays import Delays, Key, from_json

TOPIC, GROUP = "delays", "delay-readers"


@dataclass(slots=True)
class Read:
    """What the group has read: the last row of each key, and how many rows each member took."""

    rows: list[int]
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    last: dict[bytes, ConsumerRecord] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        return all(self.positions.get(partition, 0) >= end for partition, end in self.ends.items())

    def take(self, partition: TopicPartition, records: list[ConsumerRecord]) -> int:
        """Keep the newest row of each key; how many rows are new. After a rebalance some come again, so offsets decide."""
        new = [record for record in records if record.offset >= self.positions.get(partition, 0)]
        self.last |= {record.key: record for record in new}
        return len(new)

    def advance(self, partition: TopicPartition, position: int) -> None:
        """Note how far a partition is read; what a transaction ends with has an offset, too, and is no row."""
        self.positions[partition] = max(self.positions.get(partition, 0), position)

    def delays(self) -> dict[Key, Delays]:
        return dict(from_json(json.loads(record.value)) for record in self.last.values())


async def _member(consumer: AIOKafkaConsumer, number: int, read: Read, show: Callable[[int], None]) -> None:
    while not read.done:
        polled = await consumer.getmany(timeout_ms=100, max_records=20_000)
        for partition, records in polled.items():
            new = read.take(partition, records)
            read.rows[number] += new
            show(new)
        for partition in consumer.assignment():
            with suppress(IllegalStateError):  # it went to the other member just now
                read.advance(partition, await consumer.position(partition))
    await consumer.commit()


async def _consume(servers: str, show: Callable[[int], None]) -> Read:
    read = Read(rows=[0, 0])
    members = [
        AIOKafkaConsumer(
            TOPIC,
            bootstrap_servers=servers,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
        )
        for _ in read.rows
    ]
    try:
        await asyncio.gather(*(member.start() for member in members))
        partitions = [TopicPartition(TOPIC, index) for index in members[0].partitions_for_topic(TOPIC) or ()]
        read.ends = await members[0].end_offsets(partitions)
        await asyncio.gather(*(_member(member, number, read, show) for number, member in enumerate(members)))
    finally:
        await asyncio.gather(*(member.stop() for member in members), return_exceptions=True)
    return read


def consume(servers: str, show: Callable[[int], None]) -> Read:
    """Read all that topic `delays` holds now; `show` is told how many rows came since."""
    return asyncio.run(_consume(servers, show))
