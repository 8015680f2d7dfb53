"""Whatever lies in `__consumer_offsets`, its replay comes to the state and the words of a slow one, record by record."""

from __future__ import annotations

from collections.abc import Iterator
from struct import pack
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.coordination.replay import Replay
from ottla.coord.group_machine import GroupMachine
from ottla.coord.offset_reader import OffsetReader, Replayed
from ottla.coord.records import OffsetCommitted, OffsetPending, TransactionEnded, decode_record
from ottla.coord.runtime.record_reader import UnreadableRecord
from ottla.coord.settings import GroupSettings
from ottla.log.segments.transaction_index import ABORT, COMMIT
from ottla.records.batches.builder import build
from ottla.records.batches.header import stamp
from ottla.records.compression.codecs import NAMES
from tests.support.coordinator_records import PAIRS, Pair, state

PRODUCERS = st.sampled_from([11, 12])


class Plain(NamedTuple):
    """A batch of records: `producer_id` is that of its transaction, if it is part of one."""

    pairs: list[Pair]
    codec: int
    producer_id: int | None

    def build(self) -> bytearray:
        keys, values = zip(*self.pairs, strict=True)
        if self.producer_id is None:
            return build(keys, values, 0, codec=self.codec)
        producer_id, codec = self.producer_id, self.codec
        return build(keys, values, 0, codec=codec, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)


class End(NamedTuple):
    """The batch that ends a transaction."""

    producer_id: int
    kind: int

    def build(self) -> bytearray:
        key, value = pack(">hh", 0, self.kind), pack(">hi", 0, 0)
        return build([key], [value], 0, producer_id=self.producer_id, producer_epoch=0, transactional=True, control=True)


Batch = Plain | End
BATCHES = st.lists(
    st.builds(
        Plain,
        st.lists(PAIRS, min_size=1, max_size=8),
        st.just(0) | st.integers(0, len(NAMES) - 1),
        st.none() | st.none() | PRODUCERS,
    )
    | st.builds(End, PRODUCERS, st.sampled_from([ABORT, COMMIT])),
    max_size=8,
)


class Heard(Replay[Replayed]):
    """A replay that keeps its words."""

    def __init__(self) -> None:
        super().__init__("__consumer_offsets-0", OffsetReader())
        self.words: list[tuple[str, int, str]] = []

    def pass_over(self, what: str, offset: int, reason: object) -> None:
        self.words.append((what, offset, str(reason)))


def lying(batches: list[Batch]) -> memoryview:
    """The batches one behind the other, as a log has them."""
    log = bytearray()
    offset = 0
    for batch in batches:
        built = batch.build()
        stamp(built, 0, offset, 0)
        log += built
        offset += len(batch.pairs) if isinstance(batch, Plain) else 1
    return memoryview(bytes(log))


def slowly(batches: list[Batch], from_offset: int, words: list[tuple[str, int, str]]) -> Iterator[Replayed]:
    offset = -1
    for batch in batches:
        if isinstance(batch, End):
            offset += 1
            if offset >= from_offset:
                yield TransactionEnded(batch.producer_id, batch.kind == COMMIT)
            continue
        for key, value in batch.pairs:
            offset += 1
            if offset < from_offset:
                continue
            try:
                record = decode_record(key or b"", value)
            except UnreadableRecord as unreadable:
                words.append(("record", offset, str(unreadable)))
                continue
            if isinstance(record, OffsetCommitted) and batch.producer_id is not None:
                yield OffsetPending(batch.producer_id, record)
            elif record is not None:
                yield record


def after(records: Iterator[Replayed]) -> object:
    machine = GroupMachine(GroupSettings(), lambda: "id")
    for record in records:
        machine.apply(record)
    return state(machine)


@pytest.mark.slow
@given(BATCHES, st.integers(0, 5))
def test_a_replay_comes_to_the_same_as_a_slow_one(batches: list[Batch], from_offset: int) -> None:
    replay, words = Heard(), list[tuple[str, int, str]]()
    found, _ = replay.read(lying(batches), from_offset)
    assert after(iter(found)) == after(slowly(batches, from_offset, words))
    assert replay.words == words


@pytest.mark.slow
@given(BATCHES.filter(bool), st.data())
def test_a_batch_that_cannot_be_opened_costs_only_its_own_records(batches: list[Batch], data: st.DataObject) -> None:
    bad = data.draw(st.integers(0, len(batches) - 1))
    log = bytearray(lying(batches))
    end = len(lying(batches[: bad + 1]))
    log[end - 1] ^= 0xFF
    replay, words = Heard(), list[tuple[str, int, str]]()
    found, following = replay.read(memoryview(bytes(log)), 0)
    sizes = [len(batch.pairs) if isinstance(batch, Plain) else 1 for batch in batches]
    before = sum(sizes[:bad])
    good = [*slowly(batches[:bad], 0, words), *slowly(batches, before + sizes[bad], words)]
    assert after(iter(found)) == after(iter(good))
    assert [word for word in replay.words if word[0] == "record"] == words
    assert [word[1] for word in replay.words if word[0] == "batch"] == [before]
    assert following == sum(sizes)
