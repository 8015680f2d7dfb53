"""Batches of records that lie about themselves: the code that Kafka answers, and nothing written."""

from __future__ import annotations

import contextlib
import gzip
import random
from collections.abc import Callable, Iterator

import pytest

from ottla.records.compression import codecs
from tests.support.frames import Batch, Raw, produce_v7, record, request
from tests.support.peers import Peer
from tests.support.waiting import eventually

CORRUPT_MESSAGE, UNKNOWN_TOPIC_OR_PARTITION, MESSAGE_TOO_LARGE, INVALID_REQUIRED_ACKS, INVALID_RECORD = 2, 3, 10, 21, 87
INVALID_TIMESTAMP = 32
OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH = 45, 47
Unique = Callable[[str], str]

THREE = Batch((b"one", b"two", b"three"))
SOUND = b"".join(record(index, value) for index, value in enumerate(THREE.values))
WHOLE = THREE.encode()
LENGTH = len(WHOLE) - 12

REFUSED = {
    "wrong CRC": (THREE.lying(crc=12345).encode(), CORRUPT_MESSAGE),
    "length too large by one": (THREE.lying(length=LENGTH + 1).encode(), INVALID_RECORD),
    "length far too large": (THREE.lying(length=LENGTH + 1000).encode(), INVALID_RECORD),
    "length too small by one": (THREE.lying(length=LENGTH - 1).encode(), CORRUPT_MESSAGE),
    "length below a header": (THREE.lying(length=10).encode(), CORRUPT_MESSAGE),
    "length zero": (THREE.lying(length=0).encode(), CORRUPT_MESSAGE),
    "length negative": (THREE.lying(length=-5).encode(), CORRUPT_MESSAGE),
    "count too large": (THREE.lying(count=4).encode(), INVALID_RECORD),
    "count too small": (THREE.lying(count=2).encode(), INVALID_RECORD),
    "count zero": (THREE.lying(count=0).encode(), INVALID_RECORD),
    "count negative": (THREE.lying(count=-1).encode(), INVALID_RECORD),
    "no record": (THREE.lying(count=0, last_offset_delta=-1, body=b"").encode(), INVALID_RECORD),
    "last offset delta too large": (THREE.lying(last_offset_delta=7).encode(), INVALID_RECORD),
    "magic 0": (THREE.lying(magic=0).encode(), INVALID_RECORD),
    "magic 1": (THREE.lying(magic=1).encode(), INVALID_RECORD),
    "magic 3": (THREE.lying(magic=3).encode(), CORRUPT_MESSAGE),
    "magic -1": (THREE.lying(magic=-1).encode(), CORRUPT_MESSAGE),
    "last byte missing": (THREE.lying(cut=1).encode(), INVALID_RECORD),
    "cut off after the magic": (WHOLE[:17], INVALID_RECORD),
    "cut off in the header": (WHOLE[:60], INVALID_RECORD),
    "nothing at all": (b"", INVALID_RECORD),
    "two batches": (WHOLE + WHOLE, INVALID_RECORD),
    "control batch": (THREE.lying(attributes=0x20).encode(), INVALID_RECORD),
    "producer id without sequence": (THREE.lying(producer_id=7, producer_epoch=0).encode(), INVALID_RECORD),
    "fewer records than counted": (THREE.lying(values=THREE.values[:2], count=3, last_offset_delta=2).encode(), INVALID_RECORD),
    "more records than counted": (THREE.lying(count=2, last_offset_delta=1).encode(), INVALID_RECORD),
    "a byte behind the records": (THREE.lying(body=SOUND + b"\x00").encode(), INVALID_RECORD),
    "records of zeros": (THREE.lying(body=bytes(30)).encode(), INVALID_RECORD),
    "a record beyond the end": (THREE.lying(body=SOUND[:-1]).encode(), INVALID_RECORD),
    "compressed, fewer records than counted": (
        Batch(body=gzip.compress(SOUND), attributes=1, count=4, last_offset_delta=3).encode(),
        INVALID_RECORD,
    ),
    "compressed, more records than counted": (
        Batch(body=gzip.compress(SOUND), attributes=1, count=2, last_offset_delta=1).encode(),
        INVALID_RECORD,
    ),
    "a time too far ahead": (THREE.lying(timestamp=4_000_000_000_000).encode(), INVALID_TIMESTAMP),
    "too large for the topic": (Batch((b"x" * 1_100_000,)).encode(), MESSAGE_TOO_LARGE),
}


@pytest.fixture
def raw(broker: Peer) -> Iterator[Raw]:
    with Raw(broker.address) as connection:
        yield connection


@pytest.fixture
def topic(raw: Raw, unique: Unique) -> str:
    """A topic with three good records."""
    name = unique("batches")
    assert raw.create_topic(name) == 0
    eventually(lambda: raw.produce(name, WHOLE) == (0, 0), what="the new topic takes records")
    return name


def test_a_new_topic_takes_records_as_soon_as_its_creation_is_answered(raw: Raw, unique: Unique, peer_name: str) -> None:
    if peer_name != "ottla":
        pytest.skip("Apache Kafka may answer that nobody leads the partition yet")
    for _ in range(20):
        topic = unique("at-once")
        assert raw.create_topic(topic) == 0
        assert raw.produce(topic, WHOLE) == (0, 0)


@pytest.mark.parametrize("lie", REFUSED)
def test_it_is_refused_and_nothing_is_written(raw: Raw, topic: str, lie: str) -> None:
    records, code = REFUSED[lie]
    assert raw.produce(topic, records)[0] == code
    assert raw.latest_offset(topic) == 3
    assert raw.produce(topic, WHOLE) == (0, 3), "good batches are taken as before"


def test_null_records_write_nothing(broker: Peer, raw: Raw, topic: str, peer_name: str) -> None:
    if peer_name != "ottla":
        pytest.skip("Apache Kafka 4.3 never answers a partition without records")
    with Raw(broker.address) as bad, contextlib.suppress(EOFError):
        assert bad.produce(topic, None)[0] != 0
    assert raw.latest_offset(topic) == 3


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_bytes_that_no_codec_can_open_are_refused(raw: Raw, topic: str, codec: int) -> None:
    """Apache Kafka answers that it does not know why (-1); a client should not try either again."""
    assert raw.produce(topic, THREE.lying(attributes=codec, body=b"not compressed at all").encode())[0] in (-1, INVALID_RECORD)
    assert raw.latest_offset(topic) == 3


CODECS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
LARGE = b"".join(record(index, bytes(700_000)) for index in range(8))
"""Records that open to more than a broker opens while others wait."""


@pytest.mark.parametrize("codec", CODECS)
def test_a_large_batch_is_taken(raw: Raw, topic: str, codec: str) -> None:
    body = codecs.compress(CODECS[codec], LARGE)
    assert raw.produce(topic, Batch(body=body, attributes=CODECS[codec], count=8, last_offset_delta=7).encode()) == (0, 3)
    assert raw.latest_offset(topic) == 11


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("lie", ["one more", "one less", "a byte behind", "cut off", "in another order", "zeros at the end"])
def test_a_large_batch_that_lies_is_refused(raw: Raw, topic: str, codec: str, lie: str) -> None:
    records = {
        "a byte behind": LARGE + b"\x00",
        "cut off": LARGE[:-1],
        "in another order": LARGE[: -len(LARGE) // 8] + record(8, bytes(700_000)),
        "zeros at the end": LARGE[:-700_002] + bytes(700_002),
    }.get(lie, LARGE)
    count = 8 + {"one more": 1, "one less": -1}.get(lie, 0)
    body = codecs.compress(CODECS[codec], records)
    batch = Batch(body=body, attributes=CODECS[codec], count=count, last_offset_delta=count - 1).encode()
    unknown = -1 if lie == "in another order" else INVALID_RECORD  # Apache Kafka finds out, and cannot say why
    assert raw.produce(topic, batch)[0] in (unknown, INVALID_RECORD)
    assert raw.latest_offset(topic) == 3


@pytest.mark.parametrize("codec", CODECS)
def test_a_large_batch_that_is_broken_at_its_end_is_refused(raw: Raw, topic: str, codec: str) -> None:
    """Apache Kafka answers that it does not know why (-1), where its codec finds out at all."""
    body = codecs.compress(CODECS[codec], random.Random(1).randbytes(4000) + LARGE)
    batch = Batch(body=body[: len(body) * 2 // 3], attributes=CODECS[codec], count=8, last_offset_delta=7).encode()
    assert raw.produce(topic, batch)[0] in (-1, INVALID_RECORD)
    assert raw.latest_offset(topic) == 3


def test_a_record_without_a_key_in_a_large_batch_is_refused_where_the_log_is_compacted(raw: Raw, unique: Unique) -> None:
    name = unique("compacted-large")
    assert raw.create_topic(name, configs={"cleanup.policy": "compact"}) == 0
    keyed = Batch(body=record(0, b"value", b"key")).encode()
    eventually(lambda: raw.produce(name, keyed) == (0, 0), what="the new topic takes records")
    body = codecs.compress(4, LARGE)
    assert raw.produce(name, Batch(body=body, attributes=4, count=8, last_offset_delta=7).encode())[0] == INVALID_RECORD


def test_a_batch_that_opens_to_very_much_is_refused(raw: Raw, topic: str, peer_name: str) -> None:
    """Apache Kafka takes it, however much it is: whoever reads it has to open it too."""
    body = codecs.compress(4, record(0, bytes(200_000_000)))
    expected = MESSAGE_TOO_LARGE if peer_name == "ottla" else 0
    assert raw.produce(topic, Batch(body=body, attributes=4).encode())[0] == expected


def test_a_greatest_timestamp_that_is_not_is_put_right(raw: Raw, topic: str) -> None:
    lying = THREE.lying(max_timestamp=4_000_000_000_000).encode()
    assert raw.produce(topic, lying) == (0, 3)
    assert raw.fetch(topic, 3)[2][16:] == WHOLE[16:]


@pytest.mark.parametrize("body", [SOUND, gzip.compress(SOUND)], ids=["uncompressed", "gzip"])
def test_a_record_without_a_key_is_refused_where_the_log_is_compacted(raw: Raw, unique: Unique, body: bytes) -> None:
    name = unique("compacted")
    assert raw.create_topic(name, configs={"cleanup.policy": "compact"}) == 0
    keyed = Batch(body=record(0, b"value", b"key")).encode()
    eventually(lambda: raw.produce(name, keyed) == (0, 0), what="the new topic takes records")
    attributes = 0 if body is SOUND else 1
    assert raw.produce(name, THREE.lying(attributes=attributes, body=body).encode())[0] == INVALID_RECORD
    assert raw.latest_offset(name) == 1


def test_an_unknown_codec_is_refused(raw: Raw, topic: str) -> None:
    assert raw.produce(topic, THREE.lying(attributes=5).encode())[0] != 0
    assert raw.latest_offset(topic) == 3


def test_an_unknown_partition_is_refused(raw: Raw, topic: str) -> None:
    assert raw.produce(topic, WHOLE, partition=5)[0] == UNKNOWN_TOPIC_OR_PARTITION
    assert raw.produce(topic, WHOLE, partition=-1)[0] == UNKNOWN_TOPIC_OR_PARTITION
    assert raw.produce(f"{topic}-missing", WHOLE)[0] == UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("acks", [2, -2, 5])
def test_acks_that_mean_nothing_are_refused(raw: Raw, topic: str, acks: int) -> None:
    assert raw.produce(topic, WHOLE, acks=acks)[0] == INVALID_REQUIRED_ACKS
    assert raw.latest_offset(topic) == 3


def test_without_acks_a_good_batch_has_no_reply(raw: Raw, topic: str) -> None:
    raw.send(request(0, 7, 77, produce_v7(topic, 0, WHOLE, acks=0)))
    assert raw.latest_offset(topic) == 6, "the next reply on the connection is that of ListOffsets"


def test_without_acks_a_bad_batch_closes_the_connection(broker: Peer, raw: Raw, topic: str) -> None:
    with Raw(broker.address) as bad:
        bad.send(request(0, 7, 77, produce_v7(topic, 0, REFUSED["wrong CRC"][0], acks=0)))
        assert bad.is_closed()
    assert raw.latest_offset(topic) == 3


def test_bytes_behind_the_batch_are_not_written(raw: Raw, topic: str) -> None:
    """Apache Kafka takes the batch and drops the rest; refusing both is as good."""
    code, _ = raw.produce(topic, WHOLE + bytes(5))
    assert code in (0, INVALID_RECORD)
    written = raw.latest_offset(topic) // 3
    assert len(raw.fetch(topic, 0)[2]) == written * len(WHOLE)


def test_a_repeated_sequence_is_written_once(raw: Raw, topic: str) -> None:
    first = THREE.lying(producer_id=4001, producer_epoch=0, base_sequence=0).encode()
    assert raw.produce(topic, first) == (0, 3)
    assert raw.produce(topic, first) == (0, 3)
    assert raw.latest_offset(topic) == 6


def test_a_gap_in_the_sequence_or_an_old_epoch_is_refused(raw: Raw, topic: str) -> None:
    mine = THREE.lying(producer_id=4002, producer_epoch=1, base_sequence=0)
    assert raw.produce(topic, mine.encode()) == (0, 3)
    assert raw.produce(topic, mine.lying(base_sequence=30).encode())[0] == OUT_OF_ORDER_SEQUENCE_NUMBER
    assert raw.produce(topic, mine.lying(producer_epoch=0, base_sequence=3).encode())[0] == INVALID_PRODUCER_EPOCH
    assert raw.latest_offset(topic) == 6


def test_what_is_fetched_is_what_was_written_but_for_offset_and_epoch(raw: Raw, topic: str) -> None:
    code, high_watermark, records = raw.fetch(topic, 0)
    assert (code, high_watermark, len(records)) == (0, 3, len(WHOLE))
    assert records[16:] == WHOLE[16:]
    assert records[:8] == bytes(8)


@pytest.mark.parametrize("offset", [-1, 4, 10**12])
def test_a_fetch_outside_the_log_is_out_of_range(raw: Raw, topic: str, offset: int) -> None:
    assert raw.fetch(topic, offset)[0] == 1


def test_a_fetch_in_the_middle_of_a_batch_gives_the_whole_batch(raw: Raw, topic: str) -> None:
    assert raw.fetch(topic, 2)[2] == raw.fetch(topic, 0)[2]


def test_a_fetch_gives_one_batch_even_beyond_its_limit(raw: Raw, topic: str) -> None:
    raw.produce(topic, WHOLE)
    assert len(raw.fetch(topic, 0, max_bytes=1)[2]) == len(WHOLE)
