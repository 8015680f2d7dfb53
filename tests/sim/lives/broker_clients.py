"""Producers and readers in a simulated broker's life, and what they learn. Knows frames and the ledger only.

An idempotent producer (KIP-98) repeats unanswered batches, and gives up its id where it must.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ottla.broker.serving.request import Peer
from ottla.records.batches.builder import build
from ottla.records.batches.columns import open_batches
from ottla.records.batches.record import Record
from ottla.records.message_sets.legacy import write_message_set
from ottla.sim.host import Host
from ottla.sim.world import World
from ottla.wire import errors as codes
from ottla.wire.api.fetch import FetchRequest
from ottla.wire.api.init_producer_id import InitProducerIdRequest
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.schema import Message
from tests.sim.lives.broker_ledger import PartitionLedger, SentRecord
from tests.sim.lives.broker_topics import MAGIC, SimTopic
from tests.sim.seeds import Violation

PRODUCE, FETCH, INIT_PRODUCER_ID = 0, 1, 22
PRODUCE_VERSION, OLD_PRODUCE_VERSION, FETCH_VERSION = 9, 2, 11
PEER = Peer(1, "127.0.0.1", 50_000, "127.0.0.1", 9092)
KEYS = 8
FETCH_BYTES = 1 << 20
NO_ID = -1
GONE = codes.UNKNOWN_TOPIC_OR_PARTITION, codes.KAFKA_STORAGE_ERROR, codes.NOT_LEADER_OR_FOLLOWER
"""Errors expected for a batch whose topic is being deleted."""

TOO_LATE_MS = 12 * 3_600_000
"""A batch is not repeated this long after it was first sent: its producer may be forgotten, and it would be stored twice."""


@dataclass(slots=True, eq=False)
class Flight:
    """A batch that is in flight or was not answered."""

    topic: SimTopic
    index: int
    records: list[SentRecord]
    batch: bytes
    acks: int
    wall_ms: int
    producer: SimProducer | None = None

    @property
    def past(self) -> PartitionLedger:
        return self.topic.pasts[self.index]


class SimProducer:
    """A producer that writes every record once.

    `open` batches have no answer; partitions in `doubtful` may have lost batches in a power cut.
    """

    def __init__(self) -> None:
        self.id = NO_ID
        self.epoch = 0
        self.sequences: dict[PartitionLedger, int] = {}
        self.open: list[Flight] = []
        self.doubtful: set[PartitionLedger] = set()

    def begin_anew(self) -> None:
        """Give up the id and everything unanswered."""
        self.id = NO_ID
        self.sequences.clear()
        self.open.clear()
        self.doubtful.clear()


class SimClients:
    """All clients. `may_fail` says whether a disk fault explains an error; `logged` is what the broker logged last."""

    def __init__(self, world: World, host: Host, may_fail: Callable[[], bool], logged: Sequence[str]) -> None:
        self.world = world
        self.host = host
        self.producers = [SimProducer(), SimProducer()]
        self.acknowledged = 0
        self._may_fail = may_fail
        self._logged = logged
        self._serial = 0

    def ask(self, key: int, version: int, body: Message, answered: Callable[[Any], None]) -> None:
        """Send a request; `answered` gets the response, or None if the broker died first."""
        self.host.receive(key, version, body, PEER, answered)

    def check(self, error_code: int, what: str, *expected: int) -> bool:
        """Return whether it succeeded. An error that is neither expected nor caused by a disk fault is a violation."""
        if error_code and error_code not in expected and not self._may_fail():
            said = "".join(f"; the broker said: {entry}" for entry in self._logged[:1])
            raise Violation(f"no error without a fault: {what} was answered with {codes.error_name(error_code)}{said}")
        return not error_code

    # Writing

    def write(self, topic: SimTopic, index: int) -> None:
        """Write one batch of a few records, in one of many ways."""
        random = self.world.random
        producer = None if topic.kind in MAGIC or random.random() < 0.5 else random.choice(self.producers)
        if producer is not None and producer.id == NO_ID:
            self._take_id(producer)
            if producer.id == NO_ID:
                return
        acks = random.choice((-1, -1, -1, 1, 1, 0)) if producer is None else random.choice((-1, -1, 1))
        self._send(self._flight(topic, index, acks, producer))

    def _take_id(self, producer: SimProducer) -> None:
        def answered(response: Any) -> None:
            if response is not None and self.check(response.error_code, "InitProducerId"):
                producer.id, producer.epoch = response.producer_id, response.producer_epoch

        self.ask(INIT_PRODUCER_ID, 4, InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), answered)

    def _flight(self, topic: SimTopic, index: int, acks: int, producer: SimProducer | None) -> Flight:
        random, wall_ms = self.world.random, self.world.clock.now().wall_ms
        magic = MAGIC.get(topic.kind, 2)
        time_ms = self._time_ms(wall_ms)
        stored_ms = wall_ms if topic.kind == "stamped" else time_ms if magic else -1
        records = [self._record(topic, stored_ms, wall_ms) for _ in range(random.randrange(1, 5))]
        keys, values = [sent.key for sent in records], [sent.value for sent in records]
        sequence = -1 if producer is None else producer.sequences.setdefault(topic.pasts[index], 0)
        batch: bytes | bytearray = build(
            keys,
            values,
            time_ms,
            codec=random.choice((0, 0, 1, 3, 4)) if magic == 2 else 0,
            producer_id=NO_ID if producer is None else producer.id,
            producer_epoch=-1 if producer is None else producer.epoch,
            base_sequence=sequence,
        )
        if magic < 2:
            columns = open_batches(memoryview(batch))
            batch = b"".join(write_message_set(columns, run, magic) for run in columns.pieces())
        if producer is not None:
            producer.sequences[topic.pasts[index]] = sequence + len(records)
        return Flight(topic, index, records, bytes(batch), acks, wall_ms, producer)

    def _time_ms(self, wall_ms: int) -> int:
        """Mostly now; sometimes long ago."""
        return self.world.random.choice((wall_ms,) * 12 + (wall_ms - 3_600_000, wall_ms - 10 * 86_400_000, 1_000))

    def _record(self, topic: SimTopic, time_ms: int, wall_ms: int) -> SentRecord:
        random = self.world.random
        self._serial += 1
        key = b"key-%d" % random.randrange(KEYS)
        is_tombstone = topic.rules.compacts and random.random() < 0.15
        value = None if is_tombstone else b"%d:" % self._serial + bytes(random.randrange(60))
        return SentRecord(key, value, time_ms, wall_ms)

    def _send(self, flight: Flight) -> None:
        flight.past.send(flight.records)
        if flight.producer is not None:
            flight.producer.open.append(flight)
        data = ProduceRequest.PartitionProduceData(index=flight.index, records=flight.batch)
        topic = ProduceRequest.TopicProduceData(name=flight.topic.name, partition_data=[data])
        version = OLD_PRODUCE_VERSION if flight.topic.kind in MAGIC else PRODUCE_VERSION
        body = ProduceRequest(acks=flight.acks, timeout_ms=30_000, topic_data=[topic])
        self.ask(PRODUCE, version, body, partial(self._written, flight))

    def _written(self, flight: Flight, response: Any) -> None:
        if response is None:
            return
        part = response.responses[0].partition_responses[0]
        producer = flight.producer
        if producer is not None and part.error_code == codes.OUT_OF_ORDER_SEQUENCE_NUMBER and flight.past in producer.doubtful:
            producer.begin_anew()
            return
        expected = GONE if flight.topic.is_leaving else ()
        if not self.check(part.error_code, f"a batch for {flight.past.name}", *expected):
            if producer is not None:
                producer.begin_anew()
            return
        if producer is not None and flight in producer.open:
            producer.open.remove(flight)
        self.acknowledged += 1
        flight.past.acknowledge(flight.records, part.base_offset, durable=flight.acks == -1 and flight.topic.is_synced)

    def send_again(self) -> None:
        """Repeat what was not answered, in order; a producer for which that makes no sense begins anew."""
        now = self.world.clock.now().wall_ms
        for producer in self.producers:
            flights, producer.open = producer.open, []
            is_late = any(abs(now - flight.wall_ms) > TOO_LATE_MS or flight.topic.is_leaving for flight in flights)
            if is_late:
                producer.begin_anew()
                continue
            for flight in flights:
                if producer.id != NO_ID:
                    if flight.topic.kind == "stamped":
                        for sent in flight.records:
                            sent.times_ms.append(now)
                    self._send(flight)

    def forget(self, topic: SimTopic) -> None:
        """Stop writing to a deleted topic."""
        for producer in self.producers:
            if any(past in producer.sequences for past in topic.pasts):
                producer.begin_anew()

    def lost_power(self) -> None:
        """Note that batches which were not durable may be missing in the middle of a producer's sequence."""
        for producer in self.producers:
            producer.doubtful.update(producer.sequences)

    # Reading

    def read(self, topic: SimTopic, index: int, then: Callable[[list[Record]], None]) -> None:
        """Read a partition from its start."""
        past = topic.pasts[index]
        found: list[Record] = []
        offset = past.start
        while offset < past.end:
            parts: list[Any] = []
            wanted = FetchRequest.FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
            body = FetchRequest(max_bytes=FETCH_BYTES, topics=[FetchRequest.FetchTopic(topic=topic.name, partitions=[wanted])])
            self.ask(FETCH, FETCH_VERSION, body, parts.append)
            if not parts or parts[0] is None:
                return
            part = parts[0].responses[0].partitions[0]
            if not self.check(part.error_code, f"a fetch of {past.name} from offset {offset}"):
                return
            if not part.records:
                break
            columns = open_batches(memoryview(bytes(part.records)), from_offset=offset, check_crcs=True)
            found += columns.records()
            offset = columns.next_offset
        then(found)


def each(topics: Iterable[SimTopic]) -> list[tuple[SimTopic, int]]:
    """List all partitions of these topics."""
    return [(topic, index) for topic in topics for index in range(len(topic.pasts))]
