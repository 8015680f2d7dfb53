"""Mistakes with producers: every marked line is one that type checkers report."""

from __future__ import annotations

import json
import uuid

import ottla


def order(value: dict[str, int]) -> bytes:
    return json.dumps(value).encode()


def settings(address: str) -> None:
    ottla.Producer({"bootstrap.servers": address})  # mistake
    ottla.Producer(5)  # mistake
    ottla.Producer(address, linger=5)  # mistake
    ottla.Producer(address, linger_ms="5")  # mistake
    ottla.Producer(address, acks="alle")  # mistake
    ottla.Producer(address, acks=2)  # mistake
    ottla.Producer(address, compression_type="zip")  # mistake
    ottla.Producer(address, security_protocol="TLS")  # mistake
    ottla.Producer(address, enable_idempotence="true")  # mistake
    ottla.Producer(address, partitioner=7)  # mistake
    ottla.Producer(address, value_serializer="text")  # mistake
    ottla.Producer(address, group_id="g")  # mistake
    ottla.Producer(address, acks=1, linger_ms=5, compression_type="zstd", value_serializer=None)


def values(address: str) -> None:
    plain = ottla.Producer(address)
    plain.send("t", "text")  # mistake
    plain.send("t", b"v", key="JFK")  # mistake
    plain.send("t", 5)  # mistake
    plain.send("t", {"gate": 5})  # mistake
    plain.send(b"t", b"v")  # mistake
    plain.send(["t"], b"v")  # mistake
    plain.send("t", b"v", partition="0")  # mistake
    plain.send("t", b"v", headers={"source": b"tower"})  # mistake
    plain.send("t", b"v", headers=[("source", "tower")])  # mistake
    plain.send("t", b"v", timestamp_ms="now")  # mistake
    plain.send("t", b"v", on_delivery=5)  # mistake
    plain.send("t", bytearray(b"v"), key=memoryview(b"k"), headers=[("source", b"tower")])
    plain.send("t", key=b"a tombstone")
    plain.flush(timeout_ms="5")  # mistake
    ottla.Producer(address, value_serializer="str").send("t", b"v")  # mistake
    ottla.Producer(address, value_serializer="int64").send("t", "5")  # mistake
    ottla.Producer(address, key_serializer="str").send("t", b"v", key=5)  # mistake
    ottla.Producer(address, key_serializer="str", value_serializer="json").send("t", {"gate": 5}, key="JFK")
    ottla.Producer(address, value_serializer=order).send("t", {"tea": 2})
    ottla.Producer(address, value_serializer=order).send("t", ["tea"])  # mistake
    ottla.Producer(address, value_serializer=str.encode).send("t", 5)  # mistake
    ottla.Producer(address, key_serializer="uuid").send("t", b"v", key=uuid.uuid4())


def results(producer: ottla.Producer) -> None:
    delivery = producer.send("t", b"v")
    print(delivery.result().offsets)  # mistake
    number: str = delivery.result().offset  # mistake
    print(number)
    producer.send_offsets({("t", 0): "5"}, "group")  # mistake
    producer.transaction(5)  # mistake
    producer.produce("t", b"v")  # mistake


async def of_the_asynchronous_producer(address: str) -> None:
    async with ottla.AsyncProducer(address, value_serializer="str") as producer:
        producer.send("t", "v").result()  # mistake
        await producer.send("t", b"v")  # mistake
        delivery: ottla.Delivery = await producer.send("t", "v")
        await delivery


def annotated(producer: ottla.Producer[str, int]) -> None:
    producer.send("t", 5, key="k")
    producer.send("t", "5", key="k")  # mistake
    other: ottla.Producer[str, str] = producer  # mistake
    print(other)
