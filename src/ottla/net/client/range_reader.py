"""Reads one range of one partition: whole batches as the broker stored them, the next answer fetched while one is read.

Records stay closed, for `ottla.records.columns` to open. Uses no fetch session: a range is short-lived. Asks for about as many
bytes as the rest of the range takes, so that the pieces of a partition together fetch little more than the partition.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from ottla.client.connection import AnswerBody
from ottla.client.errors import KafkaError, TimedOut, UnknownTopic, broker_error, raise_for
from ottla.client.fetching import (
    NAMED_UNTIL,
    FetchedPartition,
    FetchLimits,
    FetchPosition,
    cut_short,
    fetch_request,
    holds_nothing_more,
    read_fetch,
)
from ottla.client.older import WHOLE_FROM_FETCH
from ottla.client.settings import ConsumerSettings
from ottla.client.types import TopicPartition
from ottla.client.versions import FETCH
from ottla.client.visible import visible
from ottla.net.client.cluster import ClusterLinks
from ottla.net.client.link import Link
from ottla.wire.api.fetch import FetchResponse
from ottla.wire.errors import OFFSET_OUT_OF_RANGE, UNKNOWN_SERVER_ERROR

FIRST_FETCH_BYTES = 256 * 1024
"""Asked for while it is not known what a record takes."""
LEAST_FETCH_BYTES = 32 * 1024
LOOKS = 3
"""How many looks in a row must miss a topic before it counts as deleted: a broker that starts may not know it yet."""


class FetchAhead(NamedTuple):
    """A fetch under way. Its timeout begins when somebody waits for it: until then the loop may not run."""

    link: Link
    answer: asyncio.Future[AnswerBody]


class RangeReader:
    """Reads from offset `start` up to, not including, `end`. Offsets that compaction or transactions left empty are skipped."""

    def __init__(self, settings: ConsumerSettings, where: TopicPartition, start: int, end: int) -> None:
        self._settings = settings
        self._where, self._offset, self._end = where, start, end
        self._limits = FetchLimits(
            fetch_max_bytes=settings.fetch_max_bytes,
            max_partition_fetch_bytes=settings.max_partition_fetch_bytes,
            fetch_max_wait_ms=settings.fetch_max_wait_ms,
            read_committed=settings.read_committed,
        )
        self._cluster = ClusterLinks(settings, whole_tries=True)
        self._ahead: FetchAhead | None = None
        self._fetched_bytes = self._passed_offsets = 0
        self._idle_answers = self._missed = 0
        self._max_idle_answers = max(2, settings.request_timeout_ms // max(1, settings.fetch_max_wait_ms))

    async def close(self) -> None:
        """Close all connections."""
        await self._cluster.close()

    async def next_batches(self) -> list[memoryview] | None:
        """Runs of whole batches from one answer, as large as `max_partition_fetch_bytes` allows; None when all was read.

        Their first and last records may lie outside the range. The list is empty where the answer held nothing visible. Raises
        `OffsetOutOfRange` if the next offset is gone, `UnknownTopic` if the topic is, `TimedOut` if `end` is not reached, and other
        `KafkaError`s.
        """
        if self._offset >= self._end:
            return None
        found = await self._cluster.retried(self._fetch, topics=[self._where.topic])
        if found is None:
            return []
        seen = visible(found.records, found.aborted)
        before, self._offset = self._offset, max(self._offset, seen.next_offset or 0)
        self._passed_offsets += self._offset - before
        self._fetched_bytes += len(found.records)
        self._idle_answers = self._idle_answers + 1 if self._offset == before else 0
        if self._idle_answers > 1 and holds_nothing_more(
            found, self._offset, self._end, read_committed=self._limits.read_committed
        ):
            self._offset = self._end
        elif self._idle_answers > self._max_idle_answers:
            raise self._stuck(found)
        if self._offset < self._end:
            self._ask_ahead()
        return seen.pieces

    async def _fetch(self) -> FetchedPartition | None:
        """The partition's part of an answer; None where the broker held the answer back to slow its client down (KIP-219)."""
        ahead, self._ahead = self._ahead, None
        link, answer = ahead or self._ask(await self._cluster.link(await self._leader()))
        return self._read(await link.answer(answer, self._settings.request_timeout_ms), link.version(FETCH))

    async def _leader(self) -> int:
        """The node to ask. A topic that several looks in a row have missed is deleted: trying on would not bring it back."""
        try:
            node_id = await self._cluster.leader(self._where)
        except UnknownTopic as error:
            self._missed += 1
            error.retriable = self._missed < LOOKS
            raise
        self._missed = 0
        return node_id

    def _ask(self, link: Link) -> FetchAhead:
        self._link = link
        wanted = {self._where: FetchPosition(self._offset, self._cluster.metadata.leader_epoch(*self._where))}
        return FetchAhead(link, link.send(FETCH, fetch_request(wanted, self._limits_of_next(link.version(FETCH))), NAMED_UNTIL))

    def _limits_of_next(self, version: int) -> FetchLimits:
        """As many bytes as the rest of the range probably takes, within what the settings allow; one batch comes at least."""
        if version < WHOLE_FROM_FETCH:
            return self._limits
        wanted = FIRST_FETCH_BYTES
        if self._passed_offsets:
            left = (self._end - self._offset) * self._fetched_bytes // self._passed_offsets
            wanted = max(LEAST_FETCH_BYTES, left + left // 10)
        return replace(self._limits, max_partition_fetch_bytes=min(self._limits.max_partition_fetch_bytes, wanted))

    def _ask_ahead(self) -> None:
        """Have the broker send the next answer while this one is read. What fails here is tried again when it is needed."""
        with suppress(KafkaError):
            self._ahead = self._ask(self._link)

    def _read(self, answer: FetchResponse, version: int) -> FetchedPartition | None:
        context = f"Fetching {self._where.topic}-{self._where.partition}"
        raise_for(answer.error_code, context)
        for found in read_fetch(answer, version):
            if found.where == self._where:
                if found.error_code not in (0, OFFSET_OUT_OF_RANGE):
                    self._cluster.metadata.forget_leader(*self._where)
                raise_for(found.error_code, context)
                if found.cut_short:
                    raise cut_short(self._where, self._offset, self._limits)
                return found
        if answer.throttle_time_ms and not answer.responses:
            return None  # the next answer comes when the time is over
        raise broker_error(UNKNOWN_SERVER_ERROR, context, "The broker's answer leaves the partition out.")

    def _stuck(self, found: FetchedPartition) -> TimedOut:
        return TimedOut(
            f"{self._where.topic}-{self._where.partition} gave no record from offset {self._offset} on, "
            f"and the range ends at {self._end}: the high watermark is {found.high_watermark}, "
            f"the log begins at {found.log_start_offset}."
        )
