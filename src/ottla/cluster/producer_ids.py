"""Blocks of producer ids: a broker reserves a block in the registry before it assigns the block's ids, as in Kafka."""

from __future__ import annotations

from ottla.cluster import layout
from ottla.ports import NEW, Change, Entry, StorageFailed

BLOCK_SIZE = 1000
"""The number of ids in the first block."""

GROWTH = 16
"""The factor by which each block is larger than the previous block. Larger blocks need fewer commits, which wait for the disk."""

LARGEST_BLOCK = 4096 * BLOCK_SIZE


LAST_ID = 2**63 - 1


def end_of(value: bytes) -> int:
    """Parse the last id of a block. Raises `StorageFailed` if the entry is invalid, or no ids are left for another block."""
    try:
        return layout.whole(int(layout.read(value)["block_end"]), highest=LAST_ID - LARGEST_BLOCK)
    except layout.NOT_UNDERSTOOD as error:
        why = f"the entry cannot be parsed ({layout.why(error)}): write the last allocated block there"
        raise StorageFailed(layout.PRODUCER_ID_BLOCK, why) from error


def allocate_block(present: Entry | None, node_id: int, size: int = BLOCK_SIZE) -> tuple[Change, range]:
    """Return the change that reserves the next block, and the block's ids. Use the ids only after a commit without conflict.

    Kafka's brokers create the entry without a value at startup. Raises `StorageFailed` if the entry is invalid.
    """
    first = 0 if present is None or not present.value else end_of(present.value) + 1
    block = range(first, first + size)
    value = layout.producer_id_block_json(node_id, block[0], block[-1])
    return Change(layout.PRODUCER_ID_BLOCK, value, NEW if present is None else present.version), block
