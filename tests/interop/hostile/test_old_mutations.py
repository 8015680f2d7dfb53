"""Ten thousand mutations of frames as clients before 0.11 send them, to today's listener and to listeners of old releases.

The broker serves on, in bounded memory; what its log holds can be read, by old and new clients alike, and survives a kill.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.apache_kafka import free_port
from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import batches, crc_is_valid
from ottla.records.compression import codecs
from ottla.records.message_sets.legacy import open_message_set, wrapper
from ottla.testing import BrokerProcess
from ottla.wire.framing import FrameHeader, encode_request
from tests.interop.hostile.test_mutations import mutations, throw
from tests.old.message_sets import batch, plain
from tests.support.frames import FETCH, Raw, array, string
from tests.support.memory import resident_mb
from tests.support.messages import request

SEED = 8_09
EACH, ROUNDS = 250, 7
GROWTH_MB = 150
RELEASES = ("0.8.2", "0.9.0", "0.10.2", "0.11.0", "2.8")
TOPICS = ("first", "second")


def frames() -> list[bytes]:
    """Frames of every old version that carries or asks for much, each of them good."""
    bodies = [*produced(), *fetched(), *others()]
    return [b"".join(map(bytes, encode_request(FrameHeader(key, version, 7, "old"), body))) for key, version, body in bodies]  # type: ignore[arg-type]  # requests are buffers only


def produced() -> Iterator[tuple[int, int, object]]:
    sets = [plain(b"a", b"b", magic=magic) for magic in (0, 1)] + [batch(b"c", b"d")]
    for magic in (0, 1):
        for codec in (codecs.GZIP, codecs.SNAPPY, codecs.LZ4):
            inner = codecs.compress(codec, plain(b"e" * 50, b"f" * 50, magic=magic), magic=magic)
            sets.append(wrapper(1, magic, codec, 1_500_000_000_000, inner))
    for version in range(3):
        for number, records in enumerate(sets):
            data = [{"name": TOPICS[number % 2], "partition_data": [{"index": 0, "records": records}]}]
            yield 0, version, request(0, version, acks=1, timeout_ms=100, topic_data=data)


def fetched() -> Iterator[tuple[int, int, object]]:
    for version in range(4):
        part = {"partition": 0, "fetch_offset": 1, "partition_max_bytes": 500}
        asked = [{"topic": topic, "partitions": [part]} for topic in TOPICS]
        yield 1, version, request(1, version, max_wait_ms=0, min_bytes=0, max_bytes=900, topics=asked)


def others() -> Iterator[tuple[int, int, object]]:
    part = {"partition_index": 0, "timestamp": -1, "max_num_offsets": 5}
    for version in range(2):
        yield 2, version, request(2, version, replica_id=-1, topics=[{"name": "first", "partitions": [part]}])
        yield 3, version, request(3, version, topics=[{"name": "first"}])
        kept = {"partition_index": 0, "committed_offset": 3, "commit_timestamp": -1, "committed_metadata": "m"}
        yield 8, version, request(8, version, group_id="g", topics=[{"name": "first", "partitions": [kept]}])
        yield 9, version, request(9, version, group_id="g", topics=[{"name": "first", "partition_indexes": [0]}])
    yield 10, 0, request(10, 0, key="g")
    joined = [{"name": "range", "metadata": b"m"}]
    yield 11, 0, request(11, 0, group_id="g", session_timeout_ms=6000, protocol_type="consumer", protocols=joined)
    yield 7, 0, request(7, 0, broker_id=1)
    yield 17, 0, request(17, 0, mechanism="PLAIN")
    yield 19, 0, request(19, 0, topics=[{"name": "made", "num_partitions": 1, "replication_factor": 1}], timeout_ms=100)


class Listener:
    """One of several listeners of a broker, as `throw` wants it."""

    def __init__(self, port: int) -> None:
        self.address = f"127.0.0.1:{port}"


@pytest.mark.full(seconds=8)
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_mutated_frames_of_old_formats_leave_the_broker_serving_and_the_log_unharmed(tmp_path: Path, peer_name: str) -> None:
    if peer_name != "ottla":
        pytest.skip("Apache Kafka of today has no old versions")
    ports = {release: free_port() for release in RELEASES}
    listen = [text for release, port in ports.items() for text in ("--listen", f"127.0.0.1:{port},release={release}")]
    with BrokerProcess(tmp_path / "data", arguments=listen) as broker, Raw(broker.address) as good:
        for topic in TOPICS:
            assert good.create_topic(topic) == 0
        listeners = [Listener(broker.port), *(Listener(port) for port in ports.values())]
        wrong = mutations(frames(), random.Random(SEED))
        throw(broker, wrong, EACH)
        before = resident_mb(broker.pid)
        for _ in range(ROUNDS):
            for listener in listeners:
                throw(listener, wrong, EACH)  # type: ignore[arg-type]  # only the address is looked at
            assert good.is_served()
            assert resident_mb(broker.pid) < before + GROWTH_MB
        stored = {topic: everything(good, topic) for topic in TOPICS}
        assert "Traceback" not in broker.log, "a frame found a bug"
        broker.restart(kill=True)
        with Raw(broker.address) as again:
            for topic, values in stored.items():
                assert values, "some mutations are still good messages"
                kept = everything(again, topic)
                assert kept[: len(values)] == values  # what was still on its way when they were read may have come after them
                assert everything_old(again, topic) == kept
        assert "Traceback" not in broker.log


def everything(raw: Raw, topic: str) -> list[bytes | None]:
    """All values, read as a client of today reads them, each batch with a right checksum."""
    found: list[bytes | None] = []
    offset = 0
    while offset < raw.latest_offset(topic):
        code, _, records = raw.fetch(topic, offset)
        assert code == 0
        view = memoryview(records)
        for pos, header in batches(view):
            assert crc_is_valid(view[pos : pos + header.size])
            offset = header.next_offset
        found += [record.value for record in open_batches(records).records()]
    return found


def everything_old(raw: Raw, topic: str) -> list[bytes | None]:
    """The same as a client of 0.9 reads them."""
    found: list[bytes | None] = []
    while len(found) < raw.latest_offset(topic):
        part = len(found).to_bytes(8, "big") + (1 << 20).to_bytes(4, "big")
        body = b"\xff\xff\xff\xff" + bytes(4) + bytes(4) + array(string(topic) + array(bytes(4) + part))
        reply = raw.ask(FETCH, 1, body)
        reply.next_records("ii")
        reply.string()
        assert reply.next_records("iihq")[2] == 0
        records = [record for record in open_message_set(reply.blob()).records() if record.offset >= len(found)]
        assert records
        found += [record.value for record in records]
    return found


def test_unmutated_frames_are_good_ones(own_broker: BrokerProcess, peer_name: str) -> None:
    if peer_name != "ottla":
        pytest.skip("Apache Kafka of today has no old versions")
    with Raw(own_broker.address) as raw:
        for topic in TOPICS:
            assert raw.create_topic(topic) == 0
        for frame in frames():
            raw.send(frame)
            assert raw.frame()
