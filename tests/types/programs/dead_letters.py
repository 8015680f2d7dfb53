"""A consumer that copies what it cannot read to a dead-letter topic, and a second one that shows why."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import ottla


@dataclass(frozen=True)
class DeadLetter:
    """A record that could not be read: its bytes, and the headers that Ottla adds."""

    data: bytes
    topic: str
    offset: int
    reason: str


def letter_of(record: ottla.ConsumerRecord) -> DeadLetter:
    headers = {name.removeprefix("__ottla.errors."): (value or b"").decode() for name, value in record.headers}
    return DeadLetter(record.value or b"", headers["topic"], int(headers["offset"]), headers["message"])


def main(address: str, topic: str = "amounts", dead: str = "amounts-dead") -> tuple[int, list[DeadLetter]]:
    with ottla.Producer(address) as producer:
        for value in (b"12", b"twelve", b"30"):
            producer.send(topic, value, partition=0)
    where = ottla.TopicPartition(topic, 0)
    with ottla.Consumer(bootstrap_servers=address, value_deserializer=int, on_bad_record=dead) as consumer:
        consumer.assign([where])
        consumer.seek_to_beginning(where)
        amounts = [record.value for record in consumer.records(until=consumer.end_offsets([where])) if record.value is not None]
    with ottla.Consumer(dead, bootstrap_servers=address, auto_offset_reset="earliest") as reader:
        letters = [letter_of(record) for record in reader.records(until=reader.end_offsets(reader.partitions_for(dead)))]
    return sum(amounts), letters


if __name__ == "__main__":
    print(main(sys.argv[1]))
