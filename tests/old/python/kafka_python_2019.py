"""kafka-python 1.4 or 2.0 at work: ADDRESS COUNT GROUP API_VERSION MINE=CODEC … THEIRS …; prints what happened as one line of JSON.

API_VERSION is that of the library's setting, such as 0.8.2, or `ask`. Writes COUNT messages to each topic of the first kind; reads
all as a member of the group, or without one where the version has none, and commits.
"""

from __future__ import annotations

import json
import sys
import time

from kafka import KafkaConsumer, KafkaProducer, TopicPartition


def main(address: str, count: int, group: str, api_version: str, topics: list[str]) -> dict[str, object]:
    held = None if api_version == "ask" else tuple(map(int, api_version.split(".")))
    names = [asked.partition("=")[0] for asked in topics]
    for topic, _, codec in (asked.partition("=") for asked in topics):
        if codec:
            write(address, held, topic, None if codec == "none" else codec, count)
    consumer = KafkaConsumer(
        bootstrap_servers=address, api_version=held, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    partitions = [TopicPartition(name, 0) for name in names]
    if held is None or held >= (0, 9):
        consumer.subscribe(names)
    else:
        consumer.assign(partitions)
    read = poll(consumer, names, count * len(names))
    consumer.commit()
    committed = {where.topic: consumer.committed(where) for where in partitions}
    last = {where.topic: offset for where, offset in consumer.end_offsets(partitions).items()}
    consumer.close()
    return {name: {"read": read[name], "committed": committed[name], "last": last[name]} for name in names}


def write(address: str, held: tuple[int, ...] | None, topic: str, codec: str | None, count: int) -> None:
    producer = KafkaProducer(bootstrap_servers=address, api_version=held, compression_type=codec, acks=-1, linger_ms=20)
    sent = [producer.send(topic, f"v{i}".encode(), f"k{i}".encode(), partition=0) for i in range(count)]
    assert [each.get(20).offset for each in sent] == list(range(count))
    producer.close()


def poll(consumer: KafkaConsumer, names: list[str], count: int) -> dict[str, list[tuple[int, str, str]]]:
    """So many records of all topics together, by topic."""
    read: dict[str, list[tuple[int, str, str]]] = {name: [] for name in names}
    until = time.monotonic() + 30
    while sum(map(len, read.values())) < count and time.monotonic() < until:
        for where, records in consumer.poll(200).items():
            read[where.topic] += [(each.offset, each.key.decode(), each.value.decode()) for each in records]
    return read


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], sys.argv[5:])))
