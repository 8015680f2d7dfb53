"""`make torture-07`: whatever happens to a topic, a position that a client of Kafka 0.7 was given means the same message for ever.

    python -m tests.torture.positions07 --rounds 400 --seed 7

Messages come from clients of 0.7 (both magics, gzip, snappy as a raw block and as a stream, sets within sets, all mixed) and from a
client of today (all codecs, transactions that are committed or aborted, records without a value). In between the broker is stopped,
killed, keeps too little, deletes records up to an offset, and stores in other codecs. After each round one reader of 0.7 and one of
today read everything: both see the same values in the same order, those that were written; and each position that the first one
ever saw still stands for the same bytes, unless it is before the start now.
"""

from __future__ import annotations

import argparse
import random
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import cramjam
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.apache_kafka import free_port
from ottla.client.admin.topics import ConfigResource
from ottla.kafka07 import wire as kafka07
from ottla.kafka07.records.messages import message_set, messages, whole_bytes
from ottla.kafka07.wire import FetchRequest07, FetchResponse07, OffsetsRequest07, OffsetsResponse07, ProduceRequest07
from ottla.net.client.admin.admin import Admin
from ottla.records.compression.codecs import GZIP, SNAPPY
from ottla.testing.process import BrokerProcess
from tests.support.watched import served

TOPIC = "tortured"
SEGMENT_BYTES = 12_000
PATIENCE_S = 60
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LATEST, EARLIEST = -1, -2


class Judged(NamedTuple):
    """What happened how often, how many positions were looked at in all, and what was wrong."""

    done: dict[str, int]
    positions: int
    faults: list[str]


class Old:
    """A client of 0.7: it reconnects for each conversation, as the broker may have died meanwhile."""

    def __init__(self, address: str) -> None:
        self._address = address

    def ask(self, request: kafka07.Request) -> bytes:
        """The answer to a request, without its size."""
        return self._talk([request])

    def produce(self, data: bytes) -> None:
        """Returns once the broker has taken it in, which the answer to a question behind it shows."""
        self._talk([ProduceRequest07(TOPIC, 0, data), OffsetsRequest07(TOPIC, 0, LATEST, 1)])

    def offset(self, time: int) -> int:
        (found,) = kafka07.decode_response(OffsetsResponse07, self.ask(OffsetsRequest07(TOPIC, 0, time, 1))).offsets
        return found

    def fetch(self, offset: int, max_bytes: int) -> FetchResponse07:
        return kafka07.decode_response(FetchResponse07, self.ask(FetchRequest07(TOPIC, 0, offset, max_bytes)))

    def _talk(self, requests: Sequence[kafka07.Request]) -> bytes:
        host, _, port = self._address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
            for request in requests:
                body = kafka07.encode_request(request)
                connection.sendall(struct.pack(">i", len(body)) + body)
            stream = connection.makefile("rb")
            head = stream.read(4)
            if len(head) < 4:
                raise AssertionError(f"the broker closed the connection upon {requests!r:.300}")
            return stream.read(struct.unpack(">i", head)[0])


class World:
    """One topic, what was written to it, and what was seen of it."""

    def __init__(self, home: Path, rng: random.Random) -> None:
        self.rng = rng
        old = f"127.0.0.1:{free_port()}"
        self.broker = BrokerProcess(home / "data", served({}), arguments=["--listen", f"{old},release=0.7"])
        self.broker.start()
        self.old = Old(old)
        self.written: list[bytes] = []
        self.seen: dict[int, bytes] = {}
        self.faults: list[str] = []
        self.done: dict[str, int] = {}
        self.looked_at = 0
        self._start = self._end = 0
        self._number = 0
        settings = {
            "internal.segment.bytes": str(SEGMENT_BYTES),
            "index.interval.bytes": "200",
            "retention.ms": "-1",
            "file.delete.delay.ms": "0",
        }
        with Admin(self.broker.address) as admin:
            admin.create_topic(TOPIC, 1, 1, settings)

    def close(self) -> None:
        self.broker.stop()

    # --- what happens

    def values(self, most: int = 12) -> list[bytes]:
        """New values, of which some are empty and some long."""
        found = []
        for _ in range(self.rng.randint(1, most)):
            self._number += 1
            size = self.rng.choice((0, 1, 20, 100, self.rng.randint(0, 300)))
            found.append((b"%d " % self._number).ljust(size, b".") if size else b"")
        return found

    def old_writes(self) -> None:
        """One to three sets, of which each is of another kind."""
        data = b""
        for _ in range(self.rng.randint(1, 3)):
            values = self.values()
            self.written += values
            data += self._set(values)
        if self.rng.random() < 0.2:
            data += message_set([b"this one is cut off"])[: self.rng.randint(1, 15)]
        self.old.produce(data)

    def _set(self, values: list[bytes]) -> bytes:
        kind = self.rng.choice(("magic 0", "magic 1", "gzip", "stream", "block", "nested"))
        if kind == "magic 0":
            return message_set(values, magic=0)
        if kind == "magic 1":
            return message_set(values)
        if kind == "gzip":
            return message_set(values, codec=GZIP)
        if kind == "stream":
            return message_set(values, codec=SNAPPY)
        if kind == "block":
            return wrapped(SNAPPY, bytes(cramjam.snappy.compress_raw(message_set(values, magic=self.rng.randint(0, 1)))))
        cut = self.rng.randint(0, len(values))
        inner = message_set(values[:cut], codec=self.rng.choice((GZIP, SNAPPY))) if cut else b""
        return wrapped(SNAPPY, bytes(cramjam.snappy.compress_raw(inner + message_set(values[cut:]))))

    def today_writes(self) -> None:
        self._write({"enable.idempotence": self.rng.random() < 0.5})

    def today_commits(self) -> None:
        self._write({"transactional.id": "torturer"}, lambda producer: producer.commit_transaction(PATIENCE_S))

    def today_aborts(self) -> None:
        """Readers of 0.7 see what is aborted too, as those of read_uncommitted do."""
        self._write({"transactional.id": "torturer"}, lambda producer: producer.abort_transaction(PATIENCE_S))

    def _write(self, settings: dict[str, object], end: Callable[[Producer], None] | None = None) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.broker.address,
                "compression.type": self.rng.choice(CODECS),
                "linger.ms": self.rng.choice((0, 20)),
                "log_level": 0,
                **settings,
            }
        )
        if end is not None:
            producer.init_transactions(PATIENCE_S)
            producer.begin_transaction()
        values = self.values(30)
        self.written += values
        refused: list[object] = []
        for value in values:
            told = value or self.rng.choice((None, b""))
            producer.produce(TOPIC, told, key=b"k", partition=0, on_delivery=lambda error, _: refused.append(error))
        assert producer.flush(PATIENCE_S) == 0, "everything is written"
        self._expect(not any(refused), f"today's client could not write: {refused[:1]}")
        if end is not None:
            end(producer)

    def restart(self) -> None:
        self.broker.restart()

    def kill(self) -> None:
        self.broker.restart(kill=True)

    def kill_at_once(self) -> None:
        """While what was written last may not be on the disk."""
        self.old_writes()
        self.broker.restart(kill=True)

    def delete_records(self) -> None:
        low, high = self.offsets()
        before = self.rng.randint(low, high)
        with Admin(self.broker.address) as admin:
            admin.delete_records({(TOPIC, 0): before})

    def keep_little(self) -> None:
        """Have the oldest segments deleted, if there are some, and wait until they are."""
        self._alter("retention.bytes", str(SEGMENT_BYTES))
        eventually_true(lambda: len(self._segments()) <= 2, "old segments are deleted")
        self._alter("retention.bytes", "-1")

    def _segments(self) -> list[Path]:
        return list((self.broker.data_dir / f"{TOPIC}-0").glob("*.log"))

    def change_codec(self) -> None:
        self._alter("compression.type", self.rng.choice(("producer", "uncompressed", *CODECS[1:])))

    def _alter(self, name: str, value: str) -> None:
        with Admin(self.broker.address) as admin:
            admin.alter_configs(ConfigResource.topic(TOPIC), set={name: value})

    def offsets(self) -> tuple[int, int]:
        """The first and the next offset, as today's clients know them."""
        consumer = Consumer({"bootstrap.servers": self.broker.address, "group.id": "torturer", "log_level": 0})
        low, high = consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=PATIENCE_S)
        consumer.close()
        return low, high

    # --- what must be true

    def judge(self, what: str) -> None:
        start, end = self.old.offset(EARLIEST), self.old.offset(LATEST)
        self._expect(start >= self._start, f"{what}: the start went back from {self._start} to {start}")
        self._expect(end >= self._end, f"{what}: the end went back from {self._end} to {end}")
        there = dict(self._read_old(start, end))
        known = {position: data for position, data in self.seen.items() if position >= start}
        for position, data in known.items():
            now = there.get(position)
            self._expect(now == data, f"{what}: at {position} stood {data!r:.80}, and now {now!r:.80}")
        new = sorted(position for position in there if position not in known)
        self._expect(not new or not known or new[0] > max(known), f"{what}: {new[:3]} came between what was known")
        self.looked_at += len(there)
        self.seen, self._start, self._end = there, start, end
        self._same_values([found.payload for position in sorted(there) for found in messages(there[position])], what)

    def _same_values(self, old: list[bytes], what: str) -> None:
        today = self._read_today()
        self._expect(
            today == self.written[len(self.written) - len(today) :], f"{what}: a reader of today sees others than were written"
        )
        is_whole = not self.done.keys() & {"delete records", "keep little"}
        self._expect(
            not is_whole or len(today) == len(self.written), f"{what}: {len(today)} values of {len(self.written)} are there"
        )
        # Where records were deleted up to within a compressed set, which has one position, readers of 0.7 see all of it or nothing.
        shorter = min(len(old), len(today))
        self._expect(old[len(old) - shorter :] == today[len(today) - shorter :], f"{what}: both readers see different values")
        self._expect(abs(len(old) - len(today)) <= 40, f"{what}: a reader of 0.7 sees {len(old)} values, one of today {len(today)}")
        self._expect(not is_whole or len(old) == len(today), f"{what}: a reader of 0.7 sees {len(old)} values of {len(today)}")

    def _expect(self, holds: bool, fault: str) -> None:
        if not holds:
            self.faults.append(fault)

    def _read_old(self, position: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Where each message stands, compressed ones as one, and its bytes."""
        most = self.rng.choice((50, 500, 5000, 1 << 20))
        while position < end:
            found = self.old.fetch(position, most)
            if found.error_code:
                self.faults.append(f"at {position} of {end} error {found.error_code} was answered")
                return
            data = bytes(found.messages)
            whole = whole_bytes(data)
            if not whole and len(data) < most:
                position = self._next_segment(position)
                continue
            most = most if whole else 2 * most
            for at, size in sizes(data[:whole]):
                yield position + at, data[at : at + size]
            position += whole

    def _next_segment(self, position: int) -> int:
        """Behind a gap, which is where a segment was deleted before anybody saw it, the next begins a byte later."""
        self.faults.append(f"at {position} nothing was answered, and the end is later")
        return 1 << 62

    def _read_today(self) -> list[bytes]:
        low, high = self.offsets()
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.address,
                "group.id": "torturer",
                "isolation.level": "read_uncommitted",
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(TOPIC, 0, low)])
        found: list[bytes] = []
        while low < high and (message := consumer.poll(PATIENCE_S)) is not None:
            if message.error() is not None:  # the end
                break
            found.append(message.value() or b"")
        consumer.close()
        return found


def sizes(data: bytes) -> Iterator[tuple[int, int]]:
    """Where each message of a set begins, and how many bytes it takes."""
    at = 0
    while at < len(data):
        size = 4 + struct.unpack_from(">i", data, at)[0]
        yield at, size
        at += size


def wrapped(codec: int, payload: bytes) -> bytes:
    """A compressed message around what was compressed."""
    body = bytes((1, codec)) + struct.pack(">I", crc32(payload)) + payload
    return struct.pack(">i", len(body)) + body


def eventually_true(probe: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while not probe():
        if time.monotonic() > until:
            raise AssertionError(f"it did not happen that {what}")
        time.sleep(0.2)


HAPPENINGS: dict[str, tuple[int, Callable[[World], None]]] = {
    "0.7 writes": (10, World.old_writes),
    "today writes": (6, World.today_writes),
    "today commits": (2, World.today_commits),
    "today aborts": (2, World.today_aborts),
    "restart": (1, World.restart),
    "kill": (2, World.kill),
    "kill at once": (2, World.kill_at_once),
    "delete records": (1, World.delete_records),
    "keep little": (1, World.keep_little),
    "change codec": (1, World.change_codec),
}
"""How often, and what."""


def torture(home: Path, rounds: int, seed: int, *, tell: Callable[[str], None] = lambda line: None) -> Judged:
    """Have things happen, and judge after one to four of them each time."""
    rng = random.Random(seed)
    world = World(home, rng)
    names = list(HAPPENINGS)
    try:
        for number in range(rounds):
            chosen = rng.choices(names, [HAPPENINGS[name][0] for name in names], k=rng.randint(1, 4))
            for name in chosen:
                world.done[name] = world.done.get(name, 0) + 1
                HAPPENINGS[name][1](world)
            what = f"round {number} ({', '.join(chosen)})"
            world.judge(what)
            tell(f"{what}: {len(world.seen)} messages from {world._start} to {world._end}")
            if world.faults:
                break
    finally:
        world.close()
    return Judged(world.done, world.looked_at, world.faults)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.positions07", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="ottla-positions-") as home:
        judged = torture(Path(home), options.rounds, options.seed, tell=lambda line: print(line, flush=True))
    print("\n".join(judged.faults))
    print(f"{judged.done}; {judged.positions} positions looked at, {len(judged.faults)} faults")
    return 1 if judged.faults else 0


if __name__ == "__main__":
    sys.exit(main())
