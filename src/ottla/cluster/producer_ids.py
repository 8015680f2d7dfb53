"""Blocks of producer ids: each broker takes a block from the registry before it gives out a single id of it, as Kafka does."""

from __future__ import annotations

from ottla.cluster import layout
from ottla.ports import NEW, Change, Entry, StorageFailed

BLOCK_SIZE = 1000
"""Of the first block."""

GROWTH = 16
"""A block that is used up is followed by one of so many times its size: a commit makes everybody wait for the disk."""

LARGEST_BLOCK = 4096 * BLOCK_SIZE


LAST_ID = 2**63 - 1


def end_of(value: bytes) -> int:
    """Return the last id of a block, after which there is room for another one. Raises `StorageFailed` where there is none."""
    try:
        return layout.whole(int(layout.read(value)["block_end"]), highest=LAST_ID - LARGEST_BLOCK)
    except layout.NOT_UNDERSTOOD as error:
        why = f"the entry can't be understood ({layout.why(error)}): write the last block there that a broker was given"
        raise StorageFailed(layout.PRODUCER_ID_BLOCK, why) from error


def take_block(present: Entry | None, node_id: int, size: int = BLOCK_SIZE) -> tuple[Change, range]:
    """The change that takes the next block, and its ids. They may be used once the change is committed, and not if it conflicts.

    A broker of ZooKeeper's days makes the entry, still empty, when it starts. Raises `StorageFailed` where it can't be understood.
    """
    first = 0 if present is None or not present.value else end_of(present.value) + 1
    block = range(first, first + size)
    value = layout.producer_id_block_json(node_id, block[0], block[-1])
    return Change(layout.PRODUCER_ID_BLOCK, value, NEW if present is None else present.version), block
