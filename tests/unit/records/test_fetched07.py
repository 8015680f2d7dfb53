"""Fetched messages of Kafka 0.7 as a batch: offsets are the bytes where messages stand; it ends where the last one does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.kafka07.records.fetched_messages import as_batch
from ottla.kafka07.records.messages import message_set
from ottla.records.batches.columns import open_batches
from ottla.records.batches.header import crc_is_valid, read_header
from ottla.records.compression import codecs
from ottla.records.message_sets.legacy import BadMessage

PAYLOADS = st.lists(st.binary(max_size=40), min_size=1, max_size=6)
SETS = st.lists(
    st.one_of(
        st.tuples(PAYLOADS, st.sampled_from([0, 1]), st.just(codecs.NONE)),
        st.tuples(PAYLOADS, st.just(1), st.sampled_from([codecs.GZIP, codecs.SNAPPY])),
    ),
    min_size=1,
    max_size=5,
)


def read(batch: bytearray) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for record in open_batches(batch).records()]


@given(sets=SETS, position=st.integers(0, 1 << 40), cut=st.integers(0, 60))
def test_every_whole_message_has_the_place_where_it_stands(
    sets: list[tuple[list[bytes], int, int]], position: int, cut: int
) -> None:
    data, expected, ends = b"", [], [0]
    for payloads, magic, codec in sets:
        pieces = [message_set(payloads, codec=codec)] if codec else [message_set([one], magic=magic) for one in payloads]
        for index, piece in enumerate(pieces):
            values = payloads if codec else [payloads[index]]
            expected += [(position + len(data), value, len(data) + len(piece)) for value in values]
            data += piece
            ends.append(len(data))
    held = data[: max(0, len(data) - cut)]
    whole = max(end for end in ends if end <= len(held))
    batch = as_batch(held, position)
    if not whole:
        assert not batch
        return
    header = read_header(batch)
    assert (header.base_offset, header.next_offset) == (position, position + whole)
    assert crc_is_valid(memoryview(batch))
    assert read(batch) == [(at, value) for at, value, end in expected if end <= whole]


def test_messages_before_a_broken_one_are_read_and_a_broken_first_one_is_told() -> None:
    good, broken = message_set([b"one", b"two"]), bytearray(message_set([b"three"]))
    broken[-1] ^= 1
    batch = as_batch(good + broken, 100)
    assert [value for _, value in read(batch)] == [b"one", b"two"]
    assert read_header(batch).next_offset == 100 + len(good)
    with pytest.raises(BadMessage):
        as_batch(broken, 100)


def test_a_compressed_set_of_nothing_is_passed_by() -> None:
    data = message_set([], codec=codecs.GZIP)
    batch = as_batch(data, 7)
    assert (read(batch), read_header(batch).next_offset) == ([], 7 + len(data))
