"""Producer ids: taken from the registry in blocks, given out one by one. What is left of a block is lost when the broker stops."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Protocol

from ottla.broker.failures import CONFLICTS, MOST_RACES
from ottla.cluster import layout
from ottla.cluster.producer_ids import BLOCK_SIZE, GROWTH, LARGEST_BLOCK, take_block
from ottla.ports import Registry, Steps, StorageFailed

log = logging.getLogger("ottla.broker")


class ProducerIdSource(Protocol):
    """Where producer ids come from."""

    def next(self) -> int | None:
        """An id that was never given out before; None if there is none now."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether the next id has to be waited for."""
        ...

    def awaited(self) -> Steps[None]:
        """Wait until there is an id, or none could be had."""
        ...


class ProducerIds:
    """Gives out ids, and takes another block when one is used up. No id is ever given out twice."""

    def __init__(self, registry: Registry, node_id: int) -> None:
        self._registry = registry
        self._node_id = node_id
        self._block: Iterator[int] = iter(())
        self._size = BLOCK_SIZE

    def next(self) -> int | None:
        """An id that was never given out before; None while the registry refuses a block."""
        producer_id = next(self._block, None)
        if producer_id is None and self._take_block():
            producer_id = next(self._block)
        return producer_id

    @property
    def is_empty(self) -> bool:
        """It never is: the next block is taken at once."""
        return False

    def awaited(self) -> Steps[None]:
        """Nothing to wait for."""
        yield from ()

    def _take_block(self) -> bool:
        try:
            for _ in range(MOST_RACES):
                change, block = take_block(self._registry.get(layout.PRODUCER_ID_BLOCK), self._node_id, self._size)
                try:
                    self._registry.commit((change,))
                except CONFLICTS:  # another broker took that one
                    continue
                self._block = iter(block)
                self._size = min(GROWTH * self._size, LARGEST_BLOCK)
                return True
        except StorageFailed as failure:
            log.error("no block of producer ids could be taken: %s", failure, extra={"cause": "no producer ids"})
        return False
