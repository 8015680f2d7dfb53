"""The ends of an iteration over `records(until=…)`: each partition is read up to its end, and no other partition meanwhile."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.client.consumer.cursor import Progress
from ottla.client.consumer.fetcher import UNKNOWN_OFFSET, Chunk, Fetcher
from ottla.client.types import TopicPartition


class IterationEnds:
    """The offsets before which an iteration ends, by partition. A partition at its end, or without one, is paused meanwhile.

    A partition that was revoked counts as ended; one that is not assigned yet does not.
    """

    def __init__(self, fetcher: Fetcher, progress: Progress, offsets: Mapping[TopicPartition, int]) -> None:
        self._fetcher = fetcher
        self._progress = progress
        self._offsets = offsets
        self._begun: set[TopicPartition] = set()
        self._paused: set[TopicPartition] = set()

    def unknown(self) -> list[TopicPartition]:
        """Return the partitions whose position must be looked up, because they may be at their end already."""
        assigned = self._fetcher.partitions
        return [where for where in self._offsets if where in assigned and self._progress.position(where) == UNKNOWN_OFFSET]

    def reached(self) -> bool:
        """Pause the partitions that are at their end. Return whether all are."""
        assigned = set(self._fetcher.partitions)
        for where in assigned - self._begun:
            self._begun.add(where)
            if where in self._offsets and (position := self._progress.position(where)) != UNKNOWN_OFFSET:
                self._continue_at(where, position)  # what was fetched before may go beyond the end
        at_end = {where for where in assigned if self._is_at_end(where)}
        fresh = at_end - self._fetcher.paused_partitions()
        self._paused |= fresh
        self._fetcher.pause(fresh)
        return all(where in (at_end if where in assigned else self._begun) for where in self._offsets)

    def _is_at_end(self, where: TopicPartition) -> bool:
        return where not in self._offsets or self._progress.position(where) >= self._offsets[where]

    def _continue_at(self, where: TopicPartition, offset: int) -> None:
        self._fetcher.seek(where, offset)
        self._progress.drop([where])

    def cut(self, chunk: Chunk) -> Chunk:
        """Return a chunk up to the end of its partition."""
        end = self._offsets.get(chunk.where, chunk.next_offset)
        if end >= chunk.next_offset:
            return chunk
        self._fetcher.seek(chunk.where, end)
        return chunk._replace(next_offset=end)

    def finish(self) -> None:
        """Resume the partitions that this iteration has paused."""
        self._fetcher.pause(self._paused & set(self._fetcher.partitions), paused=False)
