"""The loads, each the same for every broker: confluent-kafka with many records, and single requests over a raw socket.

A load returns named figures; lower-case units stand in the name. Each works on a topic of its own, deleted at the end.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import quantiles
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench import raw
from bench.servers import Server, cpu_s

Figures = dict[str, float]
PARTITIONS = 4
CHUNK = 1000
QUIET = {"log_level": 2}
NOTHING: Mapping[str, object] = {}
_names = itertools.count(1)


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    small_records: int = 1_000_000
    large_records: int = 200_000
    consumed: int = 500_000
    requests: int = 60_000
    in_flight: int = 50
    latencies: int = 3_000

    def divided(self, by: int) -> Sizes:
        return Sizes(
            small_records=self.small_records // by,
            large_records=self.large_records // by,
            consumed=self.consumed // by,
            requests=self.requests // by,
            latencies=self.latencies // by,
        )


@contextmanager
def topic_of(server: Server, partitions: int) -> Iterator[str]:
    """A new topic that takes records already."""
    admin, name = AdminClient({"bootstrap.servers": server.address, **QUIET}), f"bench-{next(_names)}"
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)
    while not has_leaders(admin, name, partitions):
        time.sleep(0.05)
    yield name
    admin.delete_topics([name])[name].result(30)


def has_leaders(admin: Any, name: str, partitions: int) -> bool:
    found = admin.list_topics(name, 10).topics[name].partitions.values()
    return len(found) == partitions and all(part.leader >= 0 for part in found)


def new_producer(server: Server, settings: Mapping[str, object] = NOTHING) -> Any:
    return Producer(
        {
            **QUIET,
            "bootstrap.servers": server.address,
            **settings,
            "acks": 1,
            "linger.ms": 5,
            "queue.buffering.max.messages": 4_000_000,
            "queue.buffering.max.kbytes": 1_000_000,
        }
    )


def produce(server: Server, topic: str, count: int, size: int, settings: Mapping[str, object] = NOTHING) -> float:
    """Seconds until all are acknowledged (acks=1)."""
    producer, value = new_producer(server, settings), bytes(size)
    began = time.perf_counter()
    for number in range(count):
        producer.produce(topic, value, partition=number % PARTITIONS)
        if not number & 0xFFFF:
            producer.poll(0)
    finish(producer, server)
    return time.perf_counter() - began


def produce_in_chunks(server: Server, topic: str, count: int, size: int) -> float:
    """The same, handed to the client a thousand records at a time, so that its own call per record is not what is measured."""
    producer, chunk = new_producer(server), [{"value": bytes(size)}] * CHUNK
    began = time.perf_counter()
    for number in range(count // CHUNK):
        queued = producer.produce_batch(topic, chunk, partition=number % PARTITIONS)
        if queued != CHUNK:
            raise RuntimeError(f"the client's queue took only {queued} of {CHUNK} records")
        producer.poll(0)
    finish(producer, server)
    return time.perf_counter() - began


def finish(producer: Any, server: Server) -> None:
    left = producer.flush(120)
    if left:
        raise RuntimeError(f"{server.name} did not acknowledge {left} records in 120 s")


def consume(server: Server, topic: str, count: int, more: Mapping[str, object] = NOTHING) -> float:
    """Seconds until all have come, from the beginning."""
    settings = {"bootstrap.servers": server.address, "group.id": "bench", "enable.auto.commit": False, "fetch.min.bytes": 1}
    consumer = Consumer({**settings, **QUIET, **more, "queued.max.messages.kbytes": 200_000})
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    came, began = 0, time.perf_counter()
    while came < count:
        got = consumer.consume(min(10_000, count - came), 30)
        if not got:
            raise RuntimeError(f"{server.name} sent only {came} of {count} records")
        came += len(got)
    took = time.perf_counter() - began
    consumer.close()
    return took


def records(server: Server, count: int, consumed: int, size: int, label: str, settings: Mapping[str, object] = NOTHING) -> Figures:
    """Produce `count` records of `size` bytes and consume the first `consumed`; CPU of the broker for each."""
    consumed = min(count, consumed)
    with topic_of(server, PARTITIONS) as topic:
        before = cpu_s(server)
        produced_s = produce(server, topic, count, size, settings)
        between = cpu_s(server)
        consumed_s = consume(server, topic, consumed, settings)
        after = cpu_s(server)
    cpu_in, cpu_out = (between - before) * 1e6 / count, (after - between) * 1e6 / consumed
    return {
        f"{label} produce, records/s": count / produced_s,
        f"{label} consume, records/s": consumed / consumed_s,
        f"{label} broker CPU, s per million in and out": cpu_in + cpu_out,
        f"{label} broker CPU, s per million in": cpu_in,
    }


def in_bulk(server: Server, count: int) -> Figures:
    """The same records with less and less work for the client."""
    with topic_of(server, PARTITIONS) as topic:
        handed_over = produce_in_chunks(server, topic, count, 100)
    with topic_of(server, 1) as topic:
        ready_made = raw.pipelined(server.address, topic, count // CHUNK, 5, CHUNK)
    return {
        "100 B produce by produce_batch, records/s": count / handed_over,
        "100 B produce, ready-made batches, records/s": count / ready_made,
    }


def single_requests(server: Server, sizes: Sizes) -> Figures:
    with topic_of(server, 1) as topic:
        before = cpu_s(server)
        took = raw.pipelined(server.address, topic, sizes.requests, sizes.in_flight)
        used = cpu_s(server) - before
    return {
        f"one-record requests, {sizes.in_flight} in flight, requests/s": sizes.requests / took,
        "one-record requests, broker CPU, s per million": used * 1e6 / sizes.requests,
    }


def produce_latency(server: Server, sizes: Sizes) -> Figures:
    figures: Figures = {}
    for acks, label in ((1, "acks=1"), (-1, "acks=all")):
        with topic_of(server, 1) as topic:
            figures |= percentiles(raw.one_at_a_time(server.address, topic, sizes.latencies, acks=acks), f"produce {label}")
    return figures


def round_trip(server: Server, sizes: Sizes) -> Figures:
    """From produce() in confluent-kafka until its consumer has the record, one at a time."""
    with topic_of(server, 1) as topic:
        producer = Producer({"bootstrap.servers": server.address, "linger.ms": 0, "acks": 1, **QUIET})
        settings = {"bootstrap.servers": server.address, "group.id": "latency", "enable.auto.commit": False}
        consumer = Consumer({**settings, **QUIET})
        consumer.assign([TopicPartition(topic, 0, 0)])
        took = [one_round_trip(producer, consumer, topic) for _ in range(sizes.latencies + 50)]
        producer.flush(10)
        consumer.close()
    return percentiles(took[50:], "produce → consume")


def one_round_trip(producer: Any, consumer: Any, topic: str) -> float:
    began = time.perf_counter()
    producer.produce(topic, bytes(100), partition=0)
    message = consumer.poll(30)
    took = time.perf_counter() - began
    if message is None or message.error():
        raise RuntimeError(f"no record came back: {message and message.error()}")
    producer.poll(0)
    return took


def percentiles(took_s: list[float], label: str) -> Figures:
    cuts = quantiles(took_s, n=100)
    return {f"{label}, p50 ms": cuts[49] * 1e3, f"{label}, p99 ms": cuts[98] * 1e3}


def everything(server: Server, sizes: Sizes) -> Figures:
    """One round."""
    return {
        **records(server, sizes.small_records, sizes.consumed, 100, "100 B"),
        **records(server, sizes.large_records, sizes.consumed, 1000, "1 KB"),
        **in_bulk(server, sizes.small_records),
        **single_requests(server, sizes),
        **produce_latency(server, sizes),
        **round_trip(server, sizes),
    }
