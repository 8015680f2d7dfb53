"""Blocks of producer ids: how many commits they take."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.broker.topics.producer_ids import ProducerIds
from ottla.cluster.producer_ids import BLOCK_SIZE, GROWTH, take_block
from ottla.ports import Change, Entry, StorageFailed
from ottla.sim.registry import MemoryRegistry


class CountedRegistry(MemoryRegistry):
    commits = 0

    def commit(self, changes: Sequence[Change]) -> None:
        self.commits += 1
        super().commit(changes)


def test_who_asks_for_many_producer_ids_has_ever_fewer_commits_made() -> None:
    registry = CountedRegistry()
    ids = ProducerIds(registry, 1)
    count = GROWTH * GROWTH * BLOCK_SIZE
    assert [ids.next() for _ in range(count)] == list(range(count))
    assert registry.commits == 3


def test_a_broker_that_restarts_leaves_out_no_more_than_a_block_that_it_used_up() -> None:
    registry = MemoryRegistry()
    for life in range(20):
        assert ProducerIds(registry, 1).next() == life * BLOCK_SIZE


@pytest.mark.parametrize("value", [b"[[", b"{}", b'{"block_end":"many"}', b'{"block_end":"9223372036854775807"}'])
def test_no_block_is_taken_after_one_that_can_not_be_understood(value: bytes) -> None:
    with pytest.raises(StorageFailed, match=r"can't be understood"):
        take_block(Entry(value, 7), node_id=1)


def test_the_first_block_is_taken_from_an_entry_that_a_starting_broker_made_empty() -> None:
    change, block = take_block(Entry(b"", 7), node_id=1)
    assert (block[0], change.version) == (0, 7)
