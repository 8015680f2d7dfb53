"""Blocks of producer ids, as entries of the registry."""

from __future__ import annotations

import pytest

from ottla.cluster.producer_ids import allocate_block
from ottla.ports import Entry, StorageFailed


@pytest.mark.parametrize("value", [b"[[", b"{}", b'{"block_end":"many"}', b'{"block_end":"9223372036854775807"}'])
def test_no_block_is_taken_after_one_that_can_not_be_understood(value: bytes) -> None:
    with pytest.raises(StorageFailed, match=r"cannot be parsed"):
        allocate_block(Entry(value, 7), node_id=1)


def test_the_first_block_is_taken_from_an_entry_that_a_starting_broker_made_empty() -> None:
    change, block = allocate_block(Entry(b"", 7), node_id=1)
    assert (block[0], change.version) == (0, 7)
