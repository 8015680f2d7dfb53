"""A live tail of a topic: the newest messages in a ring. What leaves the ring, and what is skipped to keep up, is counted."""

from __future__ import annotations

import time
from collections import deque
from typing import Final

from ottla.client.consumer.fetch_requests import FetchedPartition
from ottla.client.types import LATEST_TIMESTAMP
from ottla.console.messages.fetcher import PARTITION_BYTES, TopicFetcher
from ottla.console.messages.found_messages import FoundMessage, decide
from ottla.console.messages.schema_cache import SchemaCache
from ottla.console.messages.search import AT_ONCE
from ottla.console.messages.selection import Selection
from ottla.console.messages.topic_reading import QueriedCluster, TopicReading, is_out_of_range

FIRST_MESSAGES: Final = 20
"""The messages before its beginning that a tail shows, of each partition at most."""
MOST_BEHIND, BEHIND_AFTER_SKIP = 20_000, 1_000
"""The messages by which a tail may be behind in a partition before it skips, and the messages that it then has left."""
WAIT_MS: Final = 500
PARTITIONS_A_SECOND: Final = 2_000
"""The number of partitions whose ends a tail of a large topic requests in a second."""
COUNT_EVERY_S: Final = 10.0
"""The time, in s, after which a tail notices new partitions."""


class Tail(TopicReading):
    """A tail. `dropped` counts messages that left the ring, `skipped` those that were not looked at to keep up."""

    def __init__(self, selection: Selection, cluster: QueriedCluster, schemas: SchemaCache) -> None:
        super().__init__(selection, cluster, schemas)
        self.ring: deque[FoundMessage] = deque()
        self.dropped = self.skipped = 0
        self._paused: list[FoundMessage] | None = None
        self._taken = self._taken_at_pause = 0
        self._positions: dict[int, int] = {}
        self._counted_s = 0.0
        self._is_first = True

    def messages(self, *, is_paused: bool) -> list[FoundMessage]:
        """Return the messages of the ring, the newest first; while paused, those of the moment when the pause began."""
        if not is_paused:
            self._paused = None
        elif self._paused is None:
            self._paused, self._taken_at_pause = list(self.ring), self._taken
        return list(reversed(self.ring if self._paused is None else self._paused))

    @property
    def waiting(self) -> int:
        """Return the number of messages that arrived during the pause."""
        return 0 if self._paused is None else self._taken - self._taken_at_pause

    async def _step(self, fetcher: TopicFetcher) -> None:
        if time.monotonic() - self._counted_s > COUNT_EVERY_S:
            await self._count()
        wanted = self._positions
        if len(wanted) > AT_ONCE:
            wanted = await self._find_advanced()
        partitions = list(wanted)
        for at in range(0, len(partitions), AT_ONCE):
            some = {index: self._positions[index] for index in partitions[at : at + AT_ONCE]}
            wait_ms = WAIT_MS if len(self._positions) <= AT_ONCE and not self._is_first else 0
            for answer in await fetcher.fetch(some, read_committed=False, wait_ms=wait_ms, partition_bytes=PARTITION_BYTES):
                await self._read_answer(answer)
        self._is_first = False
        self.progress.set()

    async def _count(self) -> None:
        """Find the partitions; begin a little before their ends, and new partitions at their start. Raises `KafkaError`."""
        wanted = await self.partition_numbers()
        fresh = [index for index in wanted if index not in self._positions]
        if fresh:
            starts, ends, _ = await self.ranges(fresh)
            before = FIRST_MESSAGES if len(wanted) <= AT_ONCE else 0
            for index, end in ends.items():
                self._positions[index] = max(starts[index], end - before) if self._is_first else starts[index]
        self._positions = {index: self._positions[index] for index in wanted if index in self._positions}
        self._counted_s = time.monotonic()

    async def _find_advanced(self) -> dict[int, int]:
        """Return the partitions that have more records, of a topic with too many partitions for one fetch."""
        await self._rest(len(self._positions) / PARTITIONS_A_SECOND)
        ends = await self.offsets(self._positions, LATEST_TIMESTAMP)
        return {index: position for index, position in self._positions.items() if ends.get(index, position) != position}

    async def _read_answer(self, answer: FetchedPartition) -> None:
        index = answer.where.partition
        position = self._positions[index]
        if is_out_of_range(answer):
            # Retention has deleted the records, or the topic was created anew and is shorter.
            self._positions[index] = max(0, answer.log_start_offset)
            return
        end = max(position + 1, answer.high_watermark)
        async for batch, kept in self.batches(answer, position, end, read_committed=False):
            decide(self.ring, batch)
            for each in kept:
                self._add(each)
            self.looked_at += len(batch.records)
            self._positions[index] = max(self._positions[index], batch.header.next_offset)
        behind = answer.high_watermark - self._positions[index]
        if behind > MOST_BEHIND:
            self.skipped += behind - BEHIND_AFTER_SKIP
            self._positions[index] = answer.high_watermark - BEHIND_AFTER_SKIP

    def _add(self, found: FoundMessage) -> None:
        self.ring.append(found)
        self._taken += 1
        while len(self.ring) > self.selection.limit:
            self.dropped += 1
            self.kept_bytes -= self.ring.popleft().kept_bytes
