"""A pipeline on asyncio: readings come in as JSON, are averaged in windows, and leave as doubles, with two workers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

import ottla

Reading = ottla.ConsumerRecord[str, Any]


def mean(readings: Sequence[Reading]) -> float:
    return sum(float(reading.value["celsius"]) for reading in readings if reading.value is not None) / len(readings)


async def worker(
    windows: asyncio.Queue[list[Reading] | None], producer: ottla.AsyncProducer[str, Any], target: str
) -> list[ottla.Delivery]:
    sent: list[ottla.Delivery] = []
    while (window := await windows.get()) is not None:
        sent.append(await producer.send(target, mean(window), key=window[0].key))
    return sent


async def run(address: str, source: str, target: str) -> list[float]:
    async with ottla.AsyncProducer(address, key_serializer="str", value_serializer="json") as filling:
        for number in range(12):
            await filling.send(source, {"celsius": number}, key="roof")
    windows: asyncio.Queue[list[Reading] | None] = asyncio.Queue(maxsize=4)
    async with (
        ottla.AsyncProducer(address, key_serializer="str", value_serializer="float64", linger_ms=0) as producer,
        ottla.AsyncConsumer(
            source, bootstrap_servers=address, auto_offset_reset="earliest", key_deserializer="str", value_deserializer="json"
        ) as consumer,
        asyncio.TaskGroup() as tasks,
    ):
        workers = [tasks.create_task(worker(windows, producer, target)) for _ in range(2)]
        count = 0
        while count < 12:
            records = await consumer.poll(timeout_ms=1_000, max_records=4)
            count += len(records)
            if records:
                await windows.put(records)
        for _ in workers:
            await windows.put(None)
    async with ottla.AsyncConsumer(
        target, bootstrap_servers=address, auto_offset_reset="earliest", value_deserializer="float64"
    ) as consumer:
        ends = await consumer.end_offsets(await consumer.partitions_for(target))
        return [record.value async for record in consumer.records(until=ends) if record.value is not None]


def main(address: str, source: str = "readings", target: str = "means") -> list[float]:
    return asyncio.run(run(address, source, target))


if __name__ == "__main__":
    print(main(sys.argv[1]))
