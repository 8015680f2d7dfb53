"""Every message format and codec that today's clients can write, taken from their sockets, is read as what was sent.

The formats before 0.11 are what they write to a broker of that time: a listener that is one, and a setting that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import kafka
import pytest

from bench.apache_kafka import free_port
from ottla.records.batches.columns import Columns, open_batches
from ottla.records.compression import codecs
from ottla.records.message_sets.conversion import down_convert
from ottla.records.message_sets.legacy import open_message_set
from ottla.testing.process import BrokerProcess
from ottla.wire.api.produce import ProduceRequest
from ottla.wire.framing import decode_request
from tests.support.arrivals import accept
from tests.support.recorder import Recorder
from tests.support.waiting import eventually

PRODUCE = 0
NOW = 1_700_000_000_000
TEXT = b"flight AA1 departed from JFK on time; " * 40


class Row(NamedTuple):
    """What is sent. Older formats have no headers, the oldest no time."""

    key: bytes | None
    value: bytes | None
    time_ms: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


ROWS = [
    Row(b"JFK", TEXT, NOW),
    Row(None, TEXT[::-1], NOW + 5, (("carrier", b"AA"), ("gate", b"B22"))),
    Row(b"", b"", NOW + 3),
    Row(b"tombstone", None, NOW + 9),
    Row("Flüge".encode(), TEXT * 3, NOW + 1, (("carrier", b""),)),
]


class Broker(NamedTuple):
    address: str
    frames: list[bytes]


class Case(NamedTuple):
    """A client's setting for an old broker (empty: it asks), the release that the broker is, and the format that comes of it."""

    client: str
    version: str
    release: str
    magic: int

    def __str__(self) -> str:
        return f"{self.client} for {self.version or 'whatever answers'} at {self.release or 'today'}"


OLD_CODECS = ("none", "gzip", "snappy", "lz4")
NEW_CODECS = (*OLD_CODECS, "zstd")
CASES = [
    Case("kafka-python", "0.8.2", "0.8.2", 0),
    Case("kafka-python", "0.9", "0.9.0", 0),
    Case("kafka-python", "0.10.2", "0.10.2", 1),
    Case("kafka-python", "0.11", "0.11.0", 2),
    Case("kafka-python", "", "", 2),
    Case("librdkafka", "0.8.2.2", "0.8.2", 0),
    Case("librdkafka", "0.9.0.1", "0.9.0", 0),
    Case("librdkafka", "0.10.0.1", "0.10.0", 1),
    Case("librdkafka", "0.10.2.2", "0.10.2", 1),
    Case("librdkafka", "", "0.11.0", 2),
    Case("librdkafka", "", "", 2),
]


def codecs_of(case: Case) -> tuple[str, ...]:
    return OLD_CODECS if case.release else NEW_CODECS


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Broker]]:
    """A broker of a release, with all that its clients send written down; started when it is first asked for."""
    running: dict[str, tuple[Broker, BrokerProcess, Recorder]] = {}

    def of(release: str) -> Broker:
        if release not in running:
            port = free_port()
            name = f"RELEASE_{release.replace('.', '_')}" if release else "PLAINTEXT"
            settings = {"advertised.listeners": f"{name}://127.0.0.1:{port}"}
            data_dir: Path = tmp_path_factory.mktemp("formats") / "data"
            process = BrokerProcess(data_dir, settings, release=release or None)
            process.start()
            recorder = Recorder(port, (process.host, process.port))
            running[release] = Broker(f"127.0.0.1:{port}", recorder.frames), process, recorder
        return running[release][0]

    yield of
    for _, process, recorder in running.values():
        recorder.__exit__()
        process.stop()


def send_with_kafka_python(address: str, topic: str, case: Case, codec: str) -> None:
    settings: dict[str, Any] = {"compression_type": None if codec == "none" else codec, "acks": 1, "linger_ms": 100}
    if case.version:
        settings["api_version"] = tuple(int(part) for part in case.version.split("."))
    with closing(kafka.KafkaProducer(bootstrap_servers=address, enable_idempotence=False, **settings)) as producer:
        producer.partitions_for(
            topic
        )  # the topic is made by asking for it; while it is awaited, batches are not cut where they should be
        sent = [
            producer.send(topic, row.value, row.key, list(row.headers) if case.magic == 2 else [], 0, row.time_ms) for row in ROWS
        ]
        producer.flush(20)
        assert [future.get(20).offset for future in sent] == list(range(len(ROWS)))


def send_with_librdkafka(address: str, topic: str, case: Case, codec: str) -> None:
    settings: dict[str, Any] = {"bootstrap.servers": address, "compression.type": codec, "linger.ms": 100, "acks": 1}
    if case.version:
        settings |= {"api.version.request": False, "broker.version.fallback": case.version}
    producer = confluent_kafka.Producer(settings)
    offsets: list[int] = []
    failures: list[str] = []

    def delivered(error: Any, message: Any) -> None:
        failures.append(str(error)) if error else offsets.append(message.offset())

    eventually(lambda: producer.list_topics(topic).topics[topic].error is None)
    for row in ROWS:
        more: dict[str, Any] = {"headers": list(row.headers)} if case.magic == 2 else {}
        if case.magic:
            more["timestamp"] = row.time_ms
        producer.produce(topic, row.value, row.key, 0, delivered, **more)
    assert producer.flush(20) == 0
    assert (failures, sorted(offsets)) == ([], list(range(len(ROWS))))


SEND = {"kafka-python": send_with_kafka_python, "librdkafka": send_with_librdkafka}


def produced(frames: list[bytes], topic: str) -> Iterator[memoryview]:
    """The records of each Produce request for a topic."""
    for frame in frames:
        if int.from_bytes(frame[4:6], "big") != PRODUCE:
            continue
        _, request = decode_request(frame[4:])
        assert isinstance(request, ProduceRequest)
        for of_topic in request.topic_data:
            if of_topic.name == topic:
                yield from (memoryview(part.records or b"") for part in of_topic.partition_data)


def opened(records: memoryview | bytes, magic: int) -> Columns:
    return open_batches(records, check_crcs=True) if magic == 2 else open_message_set(records)


def rows_of(columns: Columns) -> list[Row]:
    return [Row(record.key, record.value, record.timestamp, record.headers) for record in columns.records()]


def expected(magic: int, *, through: int = 2) -> list[Row]:
    """What is left of the rows in a format, after they went through another."""
    with_time, with_headers = min(magic, through) >= 1, min(magic, through) == 2
    return [row._replace(time_ms=row.time_ms if with_time else -1, headers=row.headers if with_headers else ()) for row in ROWS]


@pytest.mark.parametrize(("case", "codec"), [(case, codec) for case in CASES for codec in codecs_of(case)], ids=str)
@pytest.mark.rows(8, seconds=0.5)
def test_what_they_send_is_what_is_read(
    case: Case, codec: str, brokers: Callable[[str], Broker], unique: Callable[[str], str], peer_name: str
) -> None:
    if peer_name != "ottla":
        pytest.skip("this is about what clients send; which broker takes it makes no difference")
    # librdkafka has too little room for the answer of version 0 that a topic of fewer than ten letters is being made.
    broker, topic = brokers(case.release), unique("formats-of-clients")
    SEND[case.client](broker.address, topic, case, codec)
    pieces = list(produced(broker.frames, topic))
    assert {piece[16] for piece in pieces} == {case.magic}
    assert {codec_of(piece) for piece in pieces} == {codec}
    assert [row for piece in pieces for row in rows_of(opened(piece, case.magic))] == expected(case.magic)
    for piece in pieces if case.magic < 2 else ():
        check_that_it_comes_up(piece, codec)
    for magic in (0, 1) if case.magic == 2 and codec != "zstd" else ():
        check_that_it_goes_down(pieces, magic, codec)


def codec_of(piece: memoryview) -> str:
    return codecs.NAMES[(piece[22] if piece[16] == 2 else piece[17]) & 7]


def check_that_it_comes_up(piece: memoryview, codec: str) -> None:
    code, sentence, view, headers = accept(piece)
    assert (code, sentence) == (0, "")
    assert {codecs.NAMES[header.codec] for header in headers} == {codec}
    assert rows_of(open_batches(view)) == rows_of(open_message_set(piece))


def check_that_it_goes_down(pieces: list[memoryview], magic: int, codec: str) -> None:
    down = [piece for batch in pieces for piece in down_convert(batch, magic) if piece]
    assert {(piece[16], codec_of(memoryview(piece))) for piece in down} == {(magic, codec)}
    assert [row for piece in down for row in rows_of(open_message_set(piece))] == expected(2, through=magic)
