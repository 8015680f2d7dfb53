"""An asynchronous consumer whose listeners commit and seek, beside an asynchronous producer."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

import ottla


class Positions:
    """What a reader has seen, stored when partitions are revoked."""

    def __init__(self) -> None:
        self.stored: dict[ottla.TopicPartition, int] = {}
        self.consumer: ottla.AsyncConsumer[bytes, int] | None = None

    async def on_assigned(self, partitions: list[ottla.TopicPartition]) -> None:
        assert self.consumer is not None
        for where in partitions:
            self.consumer.seek(where, self.stored.get(where, 0))

    def on_revoked(self, partitions: list[ottla.TopicPartition]) -> None:
        assert self.consumer is not None
        for where, offset in self.consumer.positions().items():
            self.stored[where] = offset.offset

    def on_lost(self, partitions: list[ottla.TopicPartition]) -> None:
        for where in partitions:
            self.stored.pop(where, None)


async def numbers(consumer: ottla.AsyncConsumer[bytes, int], count: int) -> AsyncIterator[int]:
    async for record in consumer:
        if record.value is not None:
            yield record.value
            count -= 1
        if not count:
            return


async def run(address: str, topic: str) -> tuple[int, dict[ottla.TopicPartition, int]]:
    async with ottla.AsyncProducer(address, value_serializer="int32") as producer:
        deliveries = [await producer.send(topic, number) for number in range(20)]
        written = await asyncio.gather(*map(_outcome, deliveries))
        assert all(one.offset >= 0 for one in written)
    positions = Positions()
    positions.consumer = ottla.AsyncConsumer(
        topic,
        bootstrap_servers=address,
        group_id="listening",
        value_deserializer="int32",
        on_assigned=positions.on_assigned,
        on_revoked=positions.on_revoked,
        on_lost=positions.on_lost,
    )
    async with positions.consumer as consumer:
        total = sum([number async for number in numbers(consumer, 20)])
        await consumer.commit()
    return total, positions.stored


async def _outcome(delivery: ottla.Delivery) -> ottla.RecordMetadata:
    return await delivery


def main(address: str, topic: str = "listeners") -> tuple[int, dict[ottla.TopicPartition, int]]:
    return asyncio.run(run(address, topic))


if __name__ == "__main__":
    print(main(sys.argv[1]))
