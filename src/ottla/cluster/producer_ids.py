"""Blocks of producer ids: a broker takes a block from the registry before it gives out an id of it, as in Kafka."""

from __future__ import annotations

from ottla.cluster import layout
from ottla.ports import NEW, Change, Entry, StorageFailed

BLOCK_SIZE = 1000
"""The number of ids in the first block."""

GROWTH = 16
"""The factor by which each block is larger than the one before: every commit of a block waits for the disk."""

LARGEST_BLOCK = 4096 * BLOCK_SIZE


LAST_ID = 2**63 - 1


def end_of(value: bytes) -> int:
    """Return the last id of a block, after which there is room for another one. Raises `StorageFailed` where there is none."""
    try:
        return layout.whole(int(layout.read(value)["block_end"]), highest=LAST_ID - LARGEST_BLOCK)
    except layout.NOT_UNDERSTOOD as error:
        why = f"the entry cannot be parsed ({layout.why(error)}): write the last allocated block there"
        raise StorageFailed(layout.PRODUCER_ID_BLOCK, why) from error


def take_block(present: Entry | None, node_id: int, size: int = BLOCK_SIZE) -> tuple[Change, range]:
    """Return the change that takes the next block, and its ids. They may be used only after the commit, and not if it conflicts.

    Brokers of ZooKeeper's time create the entry, still empty, when they start. Raises `StorageFailed` if it cannot be parsed.
    """
    first = 0 if present is None or not present.value else end_of(present.value) + 1
    block = range(first, first + size)
    value = layout.producer_id_block_json(node_id, block[0], block[-1])
    return Change(layout.PRODUCER_ID_BLOCK, value, NEW if present is None else present.version), block
