"""A member of a group that works through records until another thread wakes it up, and commits what it has done."""

from __future__ import annotations

import json
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import ottla


@dataclass(frozen=True)
class Delay:
    airport: str
    minutes: int


def read_delay(data: bytes) -> Delay:
    fields: dict[str, Any] = json.loads(data)
    return Delay(str(fields["airport"]), int(fields["minutes"]))


def write_delay(delay: Delay) -> bytes:
    return json.dumps({"airport": delay.airport, "minutes": delay.minutes}).encode()


def total(consumer: ottla.Consumer[str, Delay], wanted: int) -> dict[str, int]:
    minutes: dict[str, int] = {}
    done: dict[ottla.TopicPartition, ottla.OffsetAndMetadata] = {}
    for count, record in enumerate(consumer, 1):
        if record.key is not None and record.value is not None:
            minutes[record.key] = minutes.get(record.key, 0) + record.value.minutes
        done[ottla.TopicPartition(record.topic, record.partition)] = ottla.OffsetAndMetadata(record.offset + 1)
        if count == wanted:
            break
    consumer.commit(done)
    return minutes


def main(address: str, topic: str = "loop") -> dict[str, int]:
    with ottla.Producer(address, key_serializer=str.encode, value_serializer=write_delay) as producer:
        for airport, minutes in (("JFK", 12), ("LGA", 3), ("JFK", 47)):
            producer.send(topic, Delay(airport, minutes), key=airport)
    with ottla.Consumer(
        topic,
        bootstrap_servers=[address],
        group_id="loop",
        auto_offset_reset="earliest",
        group_protocol="classic",
        partition_assignment_strategy=["cooperative-sticky", "range"],
        key_deserializer=bytes.decode,
        value_deserializer=read_delay,
    ) as consumer:
        found = total(consumer, 3)
        threading.Timer(0.1, consumer.wakeup).start()
        with suppress(ottla.WokenUp):
            consumer.poll(timeout_ms=10_000)
        return found


if __name__ == "__main__":
    print(main(sys.argv[1]))
