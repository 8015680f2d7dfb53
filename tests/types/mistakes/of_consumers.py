"""Mistakes with consumers: every marked line is one that type checkers report."""

from __future__ import annotations

import ottla


def length(data: bytes) -> int:
    return len(data)


def of_text(data: str) -> int:
    return len(data)


def settings(address: str) -> None:
    ottla.Consumer({"bootstrap.servers": address})  # mistake
    ottla.Consumer(["t"])  # mistake
    ottla.Consumer(None)  # mistake
    ottla.Consumer("t", bootstrap_server=address)  # mistake
    ottla.Consumer("t", bootstrap_servers=5)  # mistake
    ottla.Consumer("t", group_id=5)  # mistake
    ottla.Consumer("t", auto_offset_reset="smallest")  # mistake
    ottla.Consumer("t", isolation_level="committed")  # mistake
    ottla.Consumer("t", group_protocol="new")  # mistake
    ottla.Consumer("t", partition_assignment_strategy=["rang"])  # mistake
    ottla.Consumer("t", session_timeout_ms="10000")  # mistake
    ottla.Consumer("t", value_deserializer=of_text)  # mistake
    ottla.Consumer("t", value_deserializer="int")  # mistake
    ottla.Consumer("t", on_bad_record=None, value_deserializer=int)  # mistake
    ottla.Consumer("t", on_assigned=5)  # mistake
    ottla.Consumer("t", linger_ms=5)  # mistake
    ottla.Consumer("t", group_id="g", group_protocol="auto", partition_assignment_strategy=["range", "sticky"])


def records(consumer: ottla.Consumer) -> None:
    for record in consumer:
        record.value.decode()  # mistake
        text: str = record.key  # mistake
        record.headers["source"]  # mistake
        if record.value is not None:
            text = record.value.decode()
        print(text)
    consumer.poll(timeout="5")  # mistake
    consumer.poll("5")  # mistake
    consumer.subscribe(["t"])  # mistake
    consumer.subscribe(None)  # mistake
    consumer.assign("t")  # mistake
    consumer.assign([("t", "0")])  # mistake
    consumer.seek("t", 5)  # mistake
    consumer.seek(("t", 0), "5")  # mistake
    consumer.commit({"t": 5})  # mistake
    consumer.list_topics()  # mistake
    for batch in consumer:
        print(batch.num_rows)  # mistake


def inferred(address: str) -> None:
    with ottla.Consumer("t", key_deserializer="str", value_deserializer="int64") as consumer:
        record = consumer.poll()[0]
        if record.key is not None and record.value is not None:
            print(record.key.upper(), record.value + 1)
            record.key + 1  # mistake
            record.value.upper()  # mistake
    with ottla.Consumer("t", value_deserializer=length) as consumer:
        print(consumer.poll())
    with ottla.Consumer("t", value_deserializer=length) as lengths:
        wrong: list[ottla.ConsumerRecord[bytes, str]] = lengths.poll()  # mistake
        print(wrong)
        anything: list[ottla.ConsumerRecord[bytes, int]] = lengths.poll()
        print(anything)


def listener(partitions: list[ottla.TopicPartition]) -> None: ...


def wrong_listener(partition: ottla.TopicPartition) -> None: ...


def listeners() -> None:
    ottla.Consumer("t", on_assigned=listener, on_revoked=listener)
    ottla.Consumer("t", on_assigned=wrong_listener)  # mistake


async def of_the_asynchronous_consumer() -> None:
    async with ottla.AsyncConsumer("t", value_deserializer="str") as consumer:
        for _record in consumer:  # mistake
            break
        consumer.poll(5)[0]  # mistake
        async for _record in consumer.records(until=5):  # mistake
            break
        for read in await consumer.poll():
            number: int | None = read.value  # mistake
            print(number)
