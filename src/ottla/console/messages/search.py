"""A search of a topic: it finds one page of messages, and the positions from which the next page goes on.

Forward, partitions are read in groups of `AT_ONCE`, each from its position on. Backward, from the newest message, each partition is
read in windows before its position, which grow until the page is full.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from typing import Final

from ottla.client.consumer.fetch_requests import FetchedPartition
from ottla.client.errors import NotSupported, raise_for
from ottla.console.messages.fetcher import PARTITION_BYTES, TopicFetcher
from ottla.console.messages.found_messages import FoundMessage, decide
from ottla.console.messages.schema_cache import SchemaCache
from ottla.console.messages.selection import OFFSET, TIME, Selection
from ottla.console.messages.topic_reading import QueriedCluster, TopicReading, is_out_of_range
from ottla.wire.errors import LEADER_NOT_AVAILABLE

AT_ONCE: Final = 64
"""The number of partitions that are read at once."""
FIRST_WINDOW, MOST_WINDOW, GROWTH = 1_000, 100_000, 4
"""The offsets of a partition that a selective search reads backward at first, at most, and how much the windows grow."""
WINDOW_BYTES: Final = 256 * 1024
MOST_IDLE: Final = 3
"""The number of empty answers after which a part of a partition counts as read: compaction has left nothing there."""


class PartitionReading:
    """The state of a search in one partition, between `start` and `end`. It reads from `position` to `window_end`."""

    def __init__(self, start: int, end: int, stable: int, selection: Selection) -> None:
        self.start, self.end, self.stable = start, end, stable
        self.lower = end
        """The offset down to which windows have begun."""
        self.position, self.window_end = (end, end) if selection.is_backward else (start, end)
        self.idle = 0
        self.matches: list[FoundMessage] = []
        """The matches in the direction of the search."""
        self.window: deque[FoundMessage] = deque(maxlen=selection.limit)
        """The last matches of the window that is being read."""


class Search(TopicReading):
    """A search for a page of messages."""

    def __init__(self, selection: Selection, cluster: QueriedCluster, schemas: SchemaCache) -> None:
        super().__init__(selection, cluster, schemas)
        self._groups: list[list[int]] | None = None
        self._readings: dict[int, PartitionReading] = {}
        self._window = FIRST_WINDOW if selection.is_selective else selection.limit

    async def _step(self, fetcher: TopicFetcher) -> None:
        if self._groups is None:
            await self._prepare()
        elif not await self._read(fetcher):
            await self._end_round()

    def found(self) -> list[FoundMessage]:
        """Return the page's messages, by time in the direction of the search."""
        return list(self._merge_matches())[: self.selection.limit]

    def _merge_matches(self) -> Iterator[FoundMessage]:
        sign = -1 if self.selection.is_backward else 1
        return heapq.merge(*(each.matches for each in self._readings.values()), key=lambda each: sign * each.timestamp)

    def next_positions(self) -> dict[int, int]:
        """Return the positions from which the next page goes on; none after the last page."""
        if not self.is_finished:
            return {}
        shown = {(each.partition, each.offset) for each in self.found()}
        found = {}
        for index, reading in self._readings.items():
            rest = next((each.offset for each in reading.matches if (index, each.offset) not in shown), None)
            if self.selection.is_backward:
                position = reading.lower if rest is None else rest + 1
                if position > reading.start:
                    found[index] = position
            else:
                position = reading.position if rest is None else rest
                if position < reading.end:
                    found[index] = position
        return found

    # --- preparing

    async def _prepare(self) -> None:
        """Divide the partitions into groups, and begin with the first. Raises `KafkaError`."""
        wanted = await self.partition_numbers()
        given = dict(self.selection.positions)
        if self.selection.is_backward:
            wanted = [index for index in wanted if index in given] if given else await self._newest(wanted)
            self._groups = [wanted]
        else:
            groups = [wanted[at : at + AT_ONCE] for at in range(0, len(wanted), AT_ONCE)]
            if given:
                first = min(given)
                groups = [group for group in groups if group[-1] >= first]
                groups[:1] = [[index for index in group if index in given] for group in groups[:1]]
            self._groups = groups
            if len(groups) > 1:
                self.note = f"The {len(wanted)} partitions are read {AT_ONCE} at a time, and counted as they are."
        await self._begin_group()

    async def _newest(self, wanted: list[int]) -> list[int]:
        """Return the partitions with the newest messages, if there are too many to read the ends of all."""
        if len(wanted) <= AT_ONCE:
            return wanted
        try:
            times = await self.latest_times(wanted)
        except NotSupported:
            times = dict.fromkeys(wanted, 0)
        chosen = sorted(heapq.nlargest(AT_ONCE, times, key=lambda index: times[index]))
        if len(times) > AT_ONCE:
            self.note = f"Of {len(wanted)} partitions, the {AT_ONCE} with the newest messages are read: name others to see them."
        return chosen

    async def _begin_group(self) -> None:
        """Add the readings of the next group, or finish."""
        if not self._groups:
            self.is_finished = True
            return
        group = self._groups[0]
        starts, ends, stable = await self.ranges(group)
        if self.selection.start == TIME:
            at = await self.offsets(group, self.selection.number)
            starts |= {index: at[index] if at.get(index, -1) >= 0 else end for index, end in ends.items()}
        elif self.selection.start == OFFSET:
            starts |= {index: min(max(self.selection.number, starts[index]), end) for index, end in ends.items()}
        for index, position in self.selection.positions:
            bound = ends if self.selection.is_backward else starts
            if index in ends:
                bound[index] = min(max(position, starts[index]), ends[index])
        for index, end in ends.items():
            self._readings[index] = PartitionReading(starts[index], end, stable[index], self.selection)
            self.total += max(0, end - starts[index])
        self._groups.pop(0)

    # --- reading

    async def _read(self, fetcher: TopicFetcher) -> bool:
        """Fetch once, and look at the records. Return False if nothing is left to read in this round."""
        limit = self.selection.limit
        open_ones = {
            index: each
            for index, each in self._readings.items()
            if each.position < each.window_end and (self.selection.is_backward or len(each.matches) < limit)
        }
        decided = {index: each.position for index, each in open_ones.items() if each.position < each.stable}
        undecided = {index: each.position for index, each in open_ones.items() if each.position >= each.stable}
        size = PARTITION_BYTES if self.selection.is_selective else WINDOW_BYTES
        answers: list[tuple[bool, FetchedPartition]] = []
        for wanted, read_committed in ((decided, True), (undecided, False)):
            if wanted:
                found = await fetcher.fetch(wanted, read_committed=read_committed, partition_bytes=size)
                answers += [(read_committed, each) for each in found]
        for read_committed, answer in answers:
            await self._read_answer(self._readings[answer.where.partition], answer, read_committed=read_committed)
        if open_ones and not answers:
            raise_for(LEADER_NOT_AVAILABLE, f"Reading {self.selection.topic}")
        return bool(open_ones)

    async def _read_answer(self, reading: PartitionReading, answer: FetchedPartition, *, read_committed: bool) -> None:
        before = reading.position
        if is_out_of_range(answer):
            reading.position = min(max(answer.log_start_offset, before), reading.window_end)
            if reading.position == before:  # the log has become shorter: the topic was created anew
                reading.position = reading.window_end
        else:
            reading.stable = max(reading.stable, answer.last_stable_offset)
            await self._collect_matches(reading, answer, read_committed=read_committed)
            self._note_idle(reading, before, answer, read_committed=read_committed)
        reading.position = min(reading.position, reading.window_end)
        self.looked_at += reading.position - before

    async def _collect_matches(self, reading: PartitionReading, answer: FetchedPartition, *, read_committed: bool) -> None:
        start, end = reading.position, reading.window_end
        if self.selection.is_backward:
            async for batch, kept in self.batches(answer, start, end, read_committed=read_committed):
                decide(reading.window, batch)
                reading.window.extend(kept)
                reading.position = max(reading.position, batch.header.next_offset)
            return
        left = self.selection.limit - len(reading.matches)
        async for batch, kept in self.batches(answer, start, end, read_committed=read_committed, most=left):
            decide(reading.matches, batch)
            reading.matches.extend(kept)
            is_full = len(reading.matches) >= self.selection.limit
            reading.position = reading.matches[-1].offset + 1 if is_full else max(reading.position, batch.header.next_offset)

    def _note_idle(self, reading: PartitionReading, before: int, answer: FetchedPartition, *, read_committed: bool) -> None:
        """Go on after offsets that compaction has emptied."""
        if reading.position > before:
            reading.idle = 0
            return
        reading.idle += 1
        readable = answer.last_stable_offset if read_committed else answer.high_watermark
        if readable >= reading.window_end or reading.idle >= MOST_IDLE:
            reading.position = reading.window_end
        elif read_committed and readable > before and not len(answer.records):
            reading.position = readable

    # --- rounds

    async def _end_round(self) -> None:
        """Begin the next windows or the next group, unless the page is full or everything is read."""
        for reading in self._readings.values():
            reading.matches.extend(reversed(reading.window))
            reading.window.clear()
        if sum(len(each.matches) for each in self._readings.values()) >= self.selection.limit:
            self.is_finished = True
        elif self.selection.is_backward:
            self._begin_windows()
        else:
            await self._begin_group()

    def _begin_windows(self) -> None:
        """Read further back in each partition that has not given a whole page yet, or finish."""
        self.is_finished = True
        for reading in self._readings.values():
            if reading.lower > reading.start and len(reading.matches) < self.selection.limit:
                self.is_finished = False
                reading.window_end = reading.lower
                reading.lower = reading.position = max(reading.start, reading.lower - self._window)
        self._window = min(self._window * GROWTH, MOST_WINDOW)
