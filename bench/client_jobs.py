"""What one client does in one process of `bench.clients`, and how long that takes: `python -m bench.client_jobs '{"client": …}'`.

The process prints its figures as JSON. It imports only its own client. All producers have the same linger, batch size and memory,
and are idempotent with acks=all; all consumers read the same partitions from their first record.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from statistics import quantiles
from typing import Any

import psutil

Figures = dict[str, float]
LINGER_MS = 5
BATCH_BYTES = 262_144
MEMORY_BYTES = 1 << 30
WAITING_LINGER_MS = 30_000
"""Records wait this long, so that none of them is sent while memory is measured."""
PARTITIONS = 4
TIMEOUT_S = 60
CHUNK = 1_000
TAKEN = 500
"""The records that confluent-kafka and aiokafka return at once."""
WARM_UPS = 50
MB = 1e6


@dataclass(frozen=True)
class Job:
    """A task of one client. `count` records of `size` bytes are written to `topic` or read from it."""

    client: str
    task: str
    address: str
    topic: str
    count: int
    size: int = 100
    acks: str = "1"
    linger_ms: int = LINGER_MS
    broker_pid: int = 0

    def __str__(self) -> str:
        return json.dumps(asdict(self))

    @property
    def value(self) -> bytes:
        return bytes(self.size)

    @property
    def idempotent(self) -> bool:
        return self.acks == "all"


def rate(job: Job, began: tuple[float, float]) -> Figures:
    """Return records a second since `began`, and the processor's seconds for a million records."""
    wall_s, cpu_s = (now - then for now, then in zip(clocks(), began, strict=True))
    return {"records/s": job.count / wall_s, "CPU, s per million": 1e6 * cpu_s / job.count}


def clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def latencies(times_s: list[float]) -> Figures:
    cuts = quantiles(times_s[WARM_UPS:], n=100)
    return {"p50 ms": 1000 * cuts[49], "p99 ms": 1000 * cuts[98]}


# --- Ottla ---------------------------------------------------------------------------------------------------------------------


@contextmanager
def ottla_producer(job: Job) -> Iterator[Any]:
    import ottla

    with ottla.Producer(
        job.address,
        acks="all" if job.idempotent else "1",
        linger_ms=job.linger_ms,
        batch_size=BATCH_BYTES,
        buffer_memory=MEMORY_BYTES,
    ) as producer:
        producer.send(job.topic, job.value).result()
        yield producer


def ottla_send(job: Job) -> Figures:
    with ottla_producer(job) as producer:
        value, began = job.value, clocks()
        for _ in range(job.count):
            producer.send(job.topic, value)
        producer.flush()
        return rate(job, began)


def ottla_send_values(job: Job) -> Figures:
    with ottla_producer(job) as producer:
        values, began = [job.value] * CHUNK, clocks()
        for _ in range(job.count // CHUNK):
            producer.send_values(job.topic, values)
        producer.flush()
        return rate(job, began)


def ottla_send_table(job: Job) -> Figures:
    import pyarrow

    table = pyarrow.table({"value": pyarrow.array([job.value] * job.count, pyarrow.binary())})
    with ottla_producer(job) as producer:
        producer.send_table(job.topic, table.slice(0, CHUNK))
        producer.flush()
        began = clocks()
        producer.send_table(job.topic, table)
        producer.flush()
        return rate(job, began)


def ottla_latency(job: Job) -> Figures:
    with ottla_producer(job) as producer:
        times = []
        for _ in range(job.count):
            began = time.perf_counter()
            producer.send(job.topic, job.value).result()
            times.append(time.perf_counter() - began)
    return latencies(times)


def ottla_awaited(job: Job) -> Figures:
    async def awaited() -> list[float]:
        import ottla

        times = []
        async with ottla.AsyncProducer(job.address, acks="all" if job.idempotent else "1", linger_ms=0) as producer:
            for _ in range(job.count):
                began = time.perf_counter()
                await (await producer.send(job.topic, job.value))
                times.append(time.perf_counter() - began)
        return times

    return latencies(asyncio.run(awaited()))


def ottla_memory(job: Job) -> Figures:
    with ottla_producer(job) as producer:
        return grown(job, lambda value: producer.send(job.topic, value))


def ottla_consumer(job: Job) -> Any:
    import ottla

    return ottla.Consumer(job.topic, bootstrap_servers=job.address, auto_offset_reset="earliest")


def ottla_iterate(job: Job) -> Figures:
    with ottla_consumer(job) as consumer:
        return iterated(job, iter(consumer), lambda record: len(record.value))


def ottla_iterate_async(job: Job) -> Figures:
    async def iterate() -> Figures:
        import ottla

        async with ottla.AsyncConsumer(job.topic, bootstrap_servers=job.address, auto_offset_reset="earliest") as consumer:
            return await iterated_async(job, consumer)

    return asyncio.run(iterate())


def ottla_arrow(job: Job) -> Figures:
    """Read batches of Arrow. Time counts from the first one, as for records."""
    with ottla_consumer(job) as consumer:
        batches, rows, read_bytes = consumer.batches(), 0, 0
        next(batches)
        began = clocks()
        for batch in batches:
            rows += batch.num_rows
            read_bytes += batch.column("value").nbytes
            if rows >= job.count:
                break
        return rate(replace(job, count=rows), began)


# --- confluent-kafka -----------------------------------------------------------------------------------------------------------


@contextmanager
def confluent_producer(job: Job) -> Iterator[Any]:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "log_level": 2,
            "bootstrap.servers": job.address,
            "acks": job.acks,
            "enable.idempotence": job.idempotent,
            "linger.ms": job.linger_ms,
            "batch.size": BATCH_BYTES,
            "queue.buffering.max.messages": 4_000_000,
            "queue.buffering.max.kbytes": MEMORY_BYTES // 1024,
        }
    )
    producer.produce(job.topic, job.value)
    producer.flush(TIMEOUT_S)
    yield producer
    if producer.flush(TIMEOUT_S):
        raise RuntimeError("confluent-kafka has records left")


def confluent_send(job: Job) -> Figures:
    with confluent_producer(job) as producer:
        value, began = job.value, clocks()
        for _ in range(job.count):
            producer.produce(job.topic, value)
        producer.flush(TIMEOUT_S)
        return rate(job, began)


def confluent_send_values(job: Job) -> Figures:
    """Give a thousand records to the client in each call, which has to name a partition."""
    with confluent_producer(job) as producer:
        chunk, began = [{"value": job.value}] * CHUNK, clocks()
        for number in range(job.count // CHUNK):
            producer.produce_batch(job.topic, chunk, partition=number % PARTITIONS)
        producer.flush(TIMEOUT_S)
        return rate(job, began)


def confluent_latency(job: Job) -> Figures:
    done: list[object] = []

    def on_delivery(error: object, _: object) -> None:
        done.append(error)

    with confluent_producer(job) as producer:
        times = []
        for number in range(job.count):
            began = time.perf_counter()
            producer.produce(job.topic, job.value, on_delivery=on_delivery)
            while len(done) <= number:
                producer.poll(1)
            times.append(time.perf_counter() - began)
    return latencies(times)


def confluent_memory(job: Job) -> Figures:
    with confluent_producer(job) as producer:
        return grown(job, lambda value: producer.produce(job.topic, value))


def confluent_iterate(job: Job) -> Figures:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "log_level": 2,
            "bootstrap.servers": job.address,
            "group.id": "bench",
            "enable.auto.commit": False,
            "queued.max.messages.kbytes": 200_000,
            "fetch.queue.backoff.ms": 5,  # by default, a full queue of 100 000 records stops its fetches for a second
        }
    )
    consumer.assign([TopicPartition(job.topic, number, 0) for number in range(PARTITIONS)])

    def each() -> Iterator[Any]:
        while found := consumer.consume(TAKEN, TIMEOUT_S):
            yield from found

    try:
        return iterated(job, each(), lambda record: len(record.value()))
    finally:
        consumer.close()


# --- aiokafka ------------------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def aiokafka_producer(job: Job) -> AsyncIterator[Any]:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(
        bootstrap_servers=job.address,
        acks="all" if job.idempotent else 1,
        enable_idempotence=job.idempotent,
        linger_ms=job.linger_ms,
        max_batch_size=BATCH_BYTES,
    )
    await producer.start()
    try:
        await producer.send_and_wait(job.topic, job.value)
        yield producer
    finally:
        await producer.stop()


def aiokafka_send(job: Job) -> Figures:
    async def send() -> Figures:
        async with aiokafka_producer(job) as producer:
            value, began = job.value, clocks()
            for _ in range(job.count):
                await producer.send(job.topic, value)
            await producer.flush()
            return rate(job, began)

    return asyncio.run(send())


def aiokafka_latency(job: Job) -> Figures:
    async def awaited() -> list[float]:
        times = []
        async with aiokafka_producer(job) as producer:
            for _ in range(job.count):
                began = time.perf_counter()
                await producer.send_and_wait(job.topic, job.value)
                times.append(time.perf_counter() - began)
        return times

    return latencies(asyncio.run(awaited()))


def aiokafka_iterate(job: Job) -> Figures:
    async def iterate() -> Figures:
        from aiokafka import AIOKafkaConsumer

        consumer = AIOKafkaConsumer(job.topic, bootstrap_servers=job.address, auto_offset_reset="earliest")
        await consumer.start()
        try:
            return await iterated_async(job, consumer)
        finally:
            await consumer.stop()

    return asyncio.run(iterate())


# --- kafka-python --------------------------------------------------------------------------------------------------------------


@contextmanager
def kafka_python_producer(job: Job) -> Iterator[Any]:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=job.address,
        acks="all" if job.idempotent else 1,
        enable_idempotence=job.idempotent,
        linger_ms=job.linger_ms,
        batch_size=BATCH_BYTES,
    )
    producer.send(job.topic, job.value).get(TIMEOUT_S)
    yield producer
    producer.close()


def kafka_python_send(job: Job) -> Figures:
    with kafka_python_producer(job) as producer:
        value, began = job.value, clocks()
        for _ in range(job.count):
            producer.send(job.topic, value)
        producer.flush()
        return rate(job, began)


def kafka_python_latency(job: Job) -> Figures:
    with kafka_python_producer(job) as producer:
        times = []
        for _ in range(job.count):
            began = time.perf_counter()
            producer.send(job.topic, job.value).get(TIMEOUT_S)
            times.append(time.perf_counter() - began)
    return latencies(times)


def kafka_python_iterate(job: Job) -> Figures:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(job.topic, bootstrap_servers=job.address, auto_offset_reset="earliest")
    try:
        return iterated(job, consumer, lambda record: len(record.value))
    finally:
        consumer.close()


# --- all -----------------------------------------------------------------------------------------------------------------------


def iterated(job: Job, records: Iterator[Any], size_of: Callable[[Any], int]) -> Figures:
    """Return the rate of a loop over `count` records. Time counts from the first one, which waits for the connection."""
    read_bytes, left = size_of(next(records)), job.count
    began = clocks()
    for record in records:
        read_bytes += size_of(record)
        left -= 1
        if not left:
            break
    figures = rate(job, began)
    if read_bytes < job.count * job.size:
        raise RuntimeError(f"{job.client} read only {read_bytes} bytes")
    return figures


async def iterated_async(job: Job, consumer: Any) -> Figures:
    records, left = aiter(consumer), job.count
    read_bytes = len((await anext(records)).value)
    began = clocks()
    async for record in records:
        read_bytes += len(record.value)
        left -= 1
        if not left:
            break
    return rate(job, began)


def grown(job: Job, send: Callable[[bytes], object]) -> Figures:
    """Return by how much the process grows while `count` values of its own wait, as a multiple of their bytes.

    The broker is stopped, so that a full batch waits too.
    """
    broker, own = psutil.Process(job.broker_pid), psutil.Process()
    size = job.size
    broker.suspend()
    try:
        before = own.memory_info().rss
        for number in range(job.count):
            send(number.to_bytes(size))
        after = own.memory_info().rss
    finally:
        broker.resume()
    return {"growth ÷ bytes": (after - before) / (job.count * size)}


STARTS = {"ottla": "ottla", "confluent-kafka": "confluent_kafka", "kafka-python": "kafka"}


def start(job: Job) -> Figures:
    """Return the time from the import of a client to its first producer, without the start of Python."""
    began = time.perf_counter()
    module = import_module(STARTS[job.client])
    if job.client == "ottla":
        producer = module.Producer(job.address)
    elif job.client == "confluent-kafka":
        producer = module.Producer({"bootstrap.servers": job.address})
    else:
        producer = module.KafkaProducer(bootstrap_servers=job.address)
    took_s = time.perf_counter() - began
    if hasattr(producer, "close"):
        producer.close()
    return {"ms": 1000 * took_s}


TASKS: dict[str, dict[str, Callable[[Job], Figures]]] = {
    "ottla": {
        "send": ottla_send,
        "send_values": ottla_send_values,
        "send_table": ottla_send_table,
        "latency": ottla_latency,
        "latency, asyncio": ottla_awaited,
        "memory": ottla_memory,
        "iterate": ottla_iterate,
        "iterate, asyncio": ottla_iterate_async,
        "arrow": ottla_arrow,
        "start": start,
    },
    "confluent-kafka": {
        "send": confluent_send,
        "send_values": confluent_send_values,
        "latency": confluent_latency,
        "memory": confluent_memory,
        "iterate": confluent_iterate,
        "start": start,
    },
    "aiokafka": {"send": aiokafka_send, "latency, asyncio": aiokafka_latency, "iterate, asyncio": aiokafka_iterate},
    "kafka-python": {
        "send": kafka_python_send,
        "latency": kafka_python_latency,
        "iterate": kafka_python_iterate,
        "start": start,
    },
}


def main() -> int:
    job = Job(**json.loads(sys.argv[1]))
    print(json.dumps(TASKS[job.client][job.task](job)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
