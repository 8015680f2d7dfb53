"""Producers of every client, each a thread that writes to its kinds of topics and notes what was acknowledged."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

import kafka
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer

import ottla
from bench.apache_kafka import java
from tests.support.java import LIGHT
from tests.torture.soak.clock import Clock
from tests.torture.soak.kinds import LONG_AGO_MS, Kind
from tests.torture.soak.ledger import Ledger, Partition

TICK_S = 0.1
MOST_IN_FLIGHT = 500
"""Of one partition: while the broker is away, nothing more is sent."""

Done = Callable[[int], None]
"""To be called with the offset of an acknowledged record, or -1 if the broker knew it already."""


class Writer(threading.Thread):
    """Sends at the rates of its kinds until `stopping` is set, then waits for what is on its way."""

    def __init__(self, name: str, address: str, ledger: Ledger, clock: Clock) -> None:
        super().__init__(name=f"writer {name}", daemon=True)
        self.address, self.clock = address, clock
        self.parts = [part for part in ledger.partitions.values() if part.kind.writer == name]
        self.stopping = threading.Event()
        self.faults: list[str] = []
        self.refused: Counter[str] = Counter()
        self._open: Counter[Partition] = Counter()
        self._owed = dict.fromkeys(self.parts, 0.0)

    def run(self) -> None:
        try:
            self._serve()
        except Exception as failure:  # each client has exceptions of its own
            self.faults.append(f"{self.name} ended with {type(failure).__name__}: {failure}")

    def _serve(self) -> None:
        self.open()
        while not self.stopping.wait(TICK_S):
            for part in self.parts:
                self._owed[part] += part.kind.rate * TICK_S
                due = int(self._owed[part] // part.kind.burst) * part.kind.burst
                self._owed[part] -= due
                self._send(part, due)
            self.tick()
        self.close()

    def _send(self, part: Partition, count: int) -> None:
        for _ in range(count):
            if self._open[part] >= MOST_IN_FLIGHT:
                return
            number, stamp_ms = part.next_number(), LONG_AGO_MS if part.kind.is_ancient else self.clock.now_ms()
            self._open[part] += 1
            try:
                self.send(part, number, stamp_ms, self._noted(part, number, stamp_ms))
            except Exception as refused:  # each client has exceptions of its own while the broker is away
                self.note_refusal(part, refused)

    def _noted(self, part: Partition, number: int, stamp_ms: int) -> Done:
        def done(offset: int) -> None:
            self._open[part] -= 1
            part.acknowledged(number, offset, stamp_ms)

        return done

    def note_refusal(self, part: Partition, refused: object) -> None:
        """A record was given up; it may be in the log all the same."""
        self._open[part] -= 1
        self.refused[f"{part.kind.writer}: {type(refused).__name__}: {str(refused)[:120]}"] += 1

    @abstractmethod
    def open(self) -> None: ...

    @abstractmethod
    def send(self, part: Partition, number: int, stamp_ms: int, done: Done) -> None: ...

    def tick(self) -> None:
        """Ten times a second, after records were sent."""

    @abstractmethod
    def close(self) -> None:
        """Wait until everything is acknowledged or given up."""


class ConfluentWriter(Writer):
    def open(self) -> None:
        settings = {"bootstrap.servers": self.address, "enable.idempotence": True, "linger.ms": 20, "message.timeout.ms": 120_000}
        self._producer = Producer({**settings, "compression.type": "lz4", "reconnect.backoff.max.ms": 200, "log_level": 0})

    def send(self, part: Partition, number: int, stamp_ms: int, done: Done) -> None:
        def delivered(error: Any, message: Any) -> None:
            if error is None:
                done(-1 if message.offset() is None else message.offset())
            else:
                self.note_refusal(part, error)

        kind = part.kind
        self._producer.produce(
            kind.name, kind.value(number), kind.key(number), part.index, timestamp=stamp_ms, on_delivery=delivered
        )

    def tick(self) -> None:
        self._producer.poll(0)

    def close(self) -> None:
        self._producer.flush(60)


class KafkaPythonWriter(Writer):
    settings: ClassVar[dict[str, Any]] = {"enable_idempotence": True, "compression_type": "gzip"}

    def open(self) -> None:
        self._producer = self._connected()

    def _connected(self) -> Any:
        while True:  # some versions look for the broker once, and give up
            try:
                settings = {"linger_ms": 20, "max_block_ms": 120_000, "reconnect_backoff_max_ms": 500, **self.settings}
                return kafka.KafkaProducer(bootstrap_servers=self.address, acks="all", **settings)
            except Exception as refused:
                self.refused[f"open: {refused}"] += 1
                time.sleep(0.5)

    def send(self, part: Partition, number: int, stamp_ms: int, done: Done) -> None:
        kind = part.kind
        future = self._producer.send(kind.name, kind.value(number), kind.key(number), partition=part.index, timestamp_ms=stamp_ms)
        future.add_callback(lambda landed: done(landed.offset))
        future.add_errback(lambda failure: self.note_refusal(part, failure))

    def close(self) -> None:
        self._producer.flush(60)
        self._producer.close(10)


class Format0Writer(KafkaPythonWriter):
    """Message sets of magic 0, as clients before 0.10 wrote them: without timestamps."""

    settings: ClassVar[dict[str, Any]] = {
        "api_version": (0, 9),
        "max_in_flight_requests_per_connection": 1,
        "retries": 1000,
        "enable_idempotence": False,
    }


class Format1Writer(KafkaPythonWriter):
    """Message sets of magic 1, as clients before 0.11 wrote them."""

    settings: ClassVar[dict[str, Any]] = {**Format0Writer.settings, "api_version": (0, 10, 2), "compression_type": "gzip"}


class AioKafkaWriter(Writer):
    def open(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="aiokafka", daemon=True)
        self._thread.start()
        self._waiting: set[asyncio.Task[None]] = set()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(60)

    async def _start(self) -> None:
        settings = {"linger_ms": 20, "enable_idempotence": True, "compression_type": "snappy", "request_timeout_ms": 60_000}
        self._producer = AIOKafkaProducer(bootstrap_servers=self.address, acks="all", **settings)
        await self._producer.start()

    def send(self, part: Partition, number: int, stamp_ms: int, done: Done) -> None:
        asyncio.run_coroutine_threadsafe(self._queue(part, number, stamp_ms, done), self._loop).result(60)

    async def _queue(self, part: Partition, number: int, stamp_ms: int, done: Done) -> None:
        kind = part.kind
        sent = await self._producer.send(kind.name, kind.value(number), kind.key(number), part.index, stamp_ms)
        task = asyncio.ensure_future(self._landed(part, sent, done))
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)

    async def _landed(self, part: Partition, sent: Any, done: Done) -> None:
        try:
            done((await sent).offset)
        except Exception as refused:
            self.note_refusal(part, refused)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._finish(), self._loop).result(90)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _finish(self) -> None:
        await self._producer.stop()
        await asyncio.gather(*self._waiting)


class OwnWriter(Writer):
    def open(self) -> None:
        self._producer = ottla.Producer(self.address, linger_ms=20, enable_idempotence=True, acks="all")

    def send(self, part: Partition, number: int, stamp_ms: int, done: Done) -> None:
        def delivered(delivery: Any) -> None:
            try:
                done(delivery.result().offset)
            except ottla.KafkaError as refused:
                self.note_refusal(part, refused)

        kind = part.kind
        value, key = kind.value(number), kind.key(number)
        delivery = self._producer.send(kind.name, value, key=key, partition=part.index, timestamp_ms=stamp_ms)
        delivery.add_done_callback(delivered)

    def close(self) -> None:
        self._producer.close(60_000)


class JavaWriter(Writer):
    """Kafka's own VerifiableProducer, which says of each record where it landed. It chooses the partitions."""

    def __init__(self, address: str, ledger: Ledger, clock: Clock, class_path: str) -> None:
        super().__init__("java", address, ledger, clock)
        self._class_path = class_path
        self._by_index = {part.index: part for part in self.parts}

    def _serve(self) -> None:
        self.open()
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._take(json.loads(line))

    def open(self) -> None:
        kind: Kind = self.parts[0].kind
        tool = [java(), *LIGHT, "-cp", self._class_path, "org.apache.kafka.tools.VerifiableProducer"]
        rate = str(round(kind.rate * kind.partitions))
        wanted = ["--bootstrap-server", self.address, "--topic", kind.name, "--throughput", rate]
        self._process = subprocess.Popen([*tool, *wanted], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def send(self, part: Partition, number: int, stamp_ms: int, done: Done) -> None:
        raise AssertionError("it sends by itself")

    def _take(self, event: dict[str, Any]) -> None:
        if event["name"] == "producer_send_success":
            self._by_index[event["partition"]].acknowledged(int(event["value"]), event["offset"], self.clock.now_ms())
        elif event["name"] == "producer_send_error":
            self.refused[f"java: {event.get('exception')}: {str(event.get('message'))[:120]}"] += 1

    def finish(self) -> None:
        """It ends by itself, and waits for what is on its way."""
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self.close()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


WRITERS: dict[str, type[Writer]] = {
    "confluent": ConfluentWriter,
    "kafka-python": KafkaPythonWriter,
    "aiokafka": AioKafkaWriter,
    "ottla": OwnWriter,
    "format-0": Format0Writer,
    "format-1": Format1Writer,
}
