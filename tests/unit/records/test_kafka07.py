"""Sets of messages of Kafka 0.7: bytes by hand, offsets as its brokers and clients count them, and bytes that lie."""

from __future__ import annotations

import gzip
import random
import tracemalloc
from zlib import crc32

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.kafka07.records.messages import MOST_NESTED, Message07, message_set, messages, whole_bytes
from ottla.kafka07.wire import INVALID_MESSAGE
from ottla.records.batches.header import BadBatch
from ottla.records.compression import codecs
from ottla.records.compression.codecs import GZIP, NONE, SNAPPY, CodecFailed
from ottla.records.message_sets.legacy import BadMessage
from tests.fuzz.mutations import mutations

HELLO_CRC = crc32(b"hello").to_bytes(4, "big")
HELLO_0 = b"\x00\x00\x00\x0a" + b"\x00" + HELLO_CRC + b"hello"
HELLO_1 = b"\x00\x00\x00\x0b" + b"\x01\x00" + HELLO_CRC + b"hello"
LIMIT_BYTES = 1 << 20


def compressed(inner: bytes, attributes: int = GZIP) -> bytes:
    payload = gzip.compress(inner, mtime=0)
    body = bytes((1, attributes)) + crc32(payload).to_bytes(4, "big") + payload
    return len(body).to_bytes(4, "big") + body


def refused(view: bytes) -> BadMessage:
    with pytest.raises(BadMessage) as caught:
        list(messages(view, limit_bytes=LIMIT_BYTES))
    assert caught.value.error_code == INVALID_MESSAGE
    return caught.value


def test_both_formats_by_hand() -> None:
    assert message_set([b"hello"], magic=0) == HELLO_0
    assert message_set([b"hello"], magic=1) == HELLO_1
    assert list(messages(HELLO_0 + HELLO_1)) == [Message07(14, b"hello", 0), Message07(29, b"hello", 1)]


def test_the_next_offset_is_the_byte_after_the_message() -> None:
    """n + 9 bytes on in format 0, n + 10 in format 1, from wherever the log was read."""
    assert [found.next_offset for found in messages(HELLO_0 * 2, 1000)] == [1014, 1028]
    assert [found.next_offset for found in messages(HELLO_1 * 2, 1000)] == [1015, 1030]


@pytest.mark.parametrize("codec", [GZIP, SNAPPY])
def test_messages_compressed_together_come_again_until_the_last_is_done(codec: int) -> None:
    """All but the last say that the next to fetch is where they begin, as Kafka's own consumer did."""
    packed = message_set([b"one", b"two", b"three"], codec=codec)
    end = 24 + len(packed)
    assert [(found.next_offset, found.payload) for found in messages(packed, 24)] == [(24, b"one"), (24, b"two"), (end, b"three")]


def test_plain_and_compressed_messages_may_mix() -> None:
    view = HELLO_0 + compressed(HELLO_1 + HELLO_0) + HELLO_1
    assert [found.payload for found in messages(view)] == [b"hello"] * 4
    assert [found.magic for found in messages(view)] == [0, 1, 0, 1]
    assert [found.payload for found in messages(compressed(compressed(HELLO_1) + HELLO_0))] == [b"hello"] * 2


def test_a_compressed_set_without_messages_is_passed_over() -> None:
    assert [found.payload for found in messages(compressed(b"") + HELLO_1)] == [b"hello"]


def test_snappy_is_read_framed_and_raw() -> None:
    for payload in (codecs.compress(SNAPPY, HELLO_1), bytes(cramjam.snappy.compress_raw(HELLO_1))):
        body = bytes((1, SNAPPY)) + crc32(payload).to_bytes(4, "big") + payload
        assert [found.payload for found in messages(len(body).to_bytes(4, "big") + body)] == [b"hello"]


def test_other_attributes_are_passed_over() -> None:
    assert [found.payload for found in messages(HELLO_1[:5] + b"\xf8" + HELLO_1[6:])] == [b"hello"]


def test_a_message_torn_anywhere_is_left_for_the_next_fetch() -> None:
    for cut in range(len(HELLO_1)):
        view = HELLO_0 + HELLO_1[:cut]
        assert [found.payload for found in messages(view)] == [b"hello"]
        assert whole_bytes(view) == len(HELLO_0)
    assert list(messages(b"")) == []


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        (HELLO_1[:-1] + b"O", "CRC-32"),
        (HELLO_1[:4] + b"\x02" + HELLO_1[5:], "magic 2"),
        (HELLO_1[:5] + b"\x03" + HELLO_1[6:], "codec 3"),
        (b"\x00\x00\x00\x04" + bytes(10), "4 bytes is impossible"),
        (b"\xff\xff\xff\xff" + bytes(10), "-1 bytes is impossible"),
        (b"\x00\x00\x00\x05\x01" + bytes(10), "cannot hold its checksum"),
        (compressed(HELLO_1[:-1]), "ends within a message"),
        (compressed(HELLO_1[:-1] + b"O"), "CRC-32"),
    ],
)
def test_what_cannot_be_is_refused(view: bytes, reason: str) -> None:
    assert reason in refused(view).sentence
    assert refused(HELLO_0 + view).position in (len(HELLO_0), 0)


def test_sets_within_sets_have_an_end() -> None:
    view = HELLO_1
    for _ in range(MOST_NESTED):
        view = compressed(view)
    assert [found.payload for found in messages(view)] == [b"hello"]
    assert "sets are nested more than" in refused(compressed(view)).sentence


@pytest.mark.parametrize("nested", [0, 1, 3])
def test_a_bomb_is_refused_in_little_memory(nested: int) -> None:
    bomb = compressed(message_set([bytes(64 << 20)]))
    for _ in range(nested):
        bomb = compressed(bomb)
    tracemalloc.start()
    with pytest.raises(CodecFailed, match="limit"):
        list(messages(bomb, limit_bytes=LIMIT_BYTES))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * LIMIT_BYTES


def test_many_bombs_share_one_limit() -> None:
    part = compressed(message_set([bytes(LIMIT_BYTES // 2)]))
    assert len(list(messages(part * 2, limit_bytes=2 * LIMIT_BYTES))) == 2
    with pytest.raises(CodecFailed, match="limit"):
        list(messages(part * 3, limit_bytes=LIMIT_BYTES))


def test_codecs_that_came_later_are_not_written() -> None:
    with pytest.raises(ValueError, match="no lz4"):
        message_set([b"x"], codec=codecs.LZ4)
    with pytest.raises(ValueError, match="no gzip in message format 0"):
        message_set([b"x"], magic=0, codec=GZIP)


@given(
    payloads=st.lists(st.binary(max_size=50), min_size=1, max_size=5),
    kind=st.sampled_from([(0, NONE), (1, NONE), (1, GZIP), (1, SNAPPY)]),
)
def test_what_is_written_is_read_again(payloads: list[bytes], kind: tuple[int, int]) -> None:
    magic, codec = kind
    view = message_set(payloads, magic=magic, codec=codec)
    found = list(messages(view, 77))
    assert [message.payload for message in found] == payloads
    assert found[-1].next_offset == 77 + len(view) == 77 + whole_bytes(view)


def opens(view: bytes) -> bool:
    try:
        found = list(messages(view, limit_bytes=LIMIT_BYTES))
    except (BadBatch, CodecFailed):
        return False
    return sum(len(message.payload) for message in found) <= len(view) + LIMIT_BYTES


def test_mutated_sets_open_or_are_refused() -> None:
    seeds = [HELLO_0 + HELLO_1, compressed(HELLO_1 * 3), message_set([b"a", b"b"], codec=SNAPPY), compressed(compressed(HELLO_1))]
    verdicts = [opens(view) for view in mutations(seeds, random.Random(7), 4000)]
    assert set(verdicts) == {True, False}
