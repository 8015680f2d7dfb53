"""The reader of one range of one partition. It returns whole batches as the broker stores them, and fetches ahead of its caller.

Records stay encoded for `records.batches.columns`. There is no fetch session, because a range is read once and soon. A fetch
requests about as many bytes as the rest of the range has, so that the readers of all ranges together fetch little more than the
partition.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from ottla.client.connection.connection import AnswerBody
from ottla.client.connection.older_brokers import WHOLE_FROM_FETCH
from ottla.client.connection.versions import FETCH
from ottla.client.consumer.fetch_requests import (
    NAMED_UNTIL,
    FetchedPartition,
    FetchLimits,
    FetchPosition,
    cut_short,
    fetch_request,
    holds_nothing_more,
    read_fetch,
)
from ottla.client.consumer.visible_batches import visible
from ottla.client.errors import KafkaError, TimedOut, UnknownTopic, broker_error, raise_for
from ottla.client.settings.clients import ConsumerSettings
from ottla.client.types import TopicPartition
from ottla.net.client.cluster import ClusterLinks
from ottla.net.client.link import Link
from ottla.wire.api.fetch import FetchResponse
from ottla.wire.errors import OFFSET_OUT_OF_RANGE, UNKNOWN_SERVER_ERROR

FIRST_FETCH_BYTES = 256 * 1024
"""The size of a fetch, in bytes, while the size of records is unknown."""
LEAST_FETCH_BYTES = 32 * 1024
LOOKS = 3
"""The number of consecutive lookups without a topic after which it counts as deleted. A starting broker can lack it at first."""


class FetchAhead(NamedTuple):
    """A Fetch request in flight for the records after the current ones.

    Its timeout begins when a caller waits for the answer, because the event loop does not run before that.
    """

    link: Link
    answer: asyncio.Future[AnswerBody]


class RangeReader:
    """A reader of the records of one partition from offset `start` up to `end`, which is excluded. It skips compacted offsets."""

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
        """Return runs of whole batches from one answer of up to `max_partition_fetch_bytes`; None at the end of the range.

        The first and last records can lie outside the range. The list is empty if the answer held nothing visible. Raises
        `OffsetOutOfRange` if the next record was deleted, `UnknownTopic` if the topic was, and `TimedOut` if no records arrive
        although `end` is not reached. Raises other `KafkaError`s, too.
        """
        if self._offset >= self._end:
            return None
        found = await self._cluster.retry(self._fetch, topics=[self._where.topic])
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
            self._request_ahead()
        return seen.pieces

    async def _fetch(self) -> FetchedPartition | None:
        """Return the partition's part of an answer; None if a throttle of this client made the answer empty (KIP-219)."""
        ahead, self._ahead = self._ahead, None
        link, answer = ahead or self._request(await self._cluster.link(await self._leader()))
        return self._read(await link.answer(answer, self._settings.request_timeout_ms), link.version(FETCH))

    async def _leader(self) -> int:
        """Return the leader's node id.

        If the topic is still missing after `LOOKS` lookups, raise an error that is not retriable.
        """
        try:
            node_id = await self._cluster.leader(self._where)
        except UnknownTopic as error:
            self._missed += 1
            error.retriable = self._missed < LOOKS
            raise
        self._missed = 0
        return node_id

    def _request(self, link: Link) -> FetchAhead:
        self._link = link
        wanted = {self._where: FetchPosition(self._offset, self._cluster.metadata.leader_epoch(*self._where))}
        return FetchAhead(link, link.send(fetch_request(wanted, self._limits_of_next(link.version(FETCH))), NAMED_UNTIL))

    def _limits_of_next(self, version: int) -> FetchLimits:
        """Return the limits of the next fetch: about the size of the unread part of the range, within the settings.

        A broker returns at least one batch, however small the limits are.
        """
        if version < WHOLE_FROM_FETCH:
            return self._limits
        wanted = FIRST_FETCH_BYTES
        if self._passed_offsets:
            left = (self._end - self._offset) * self._fetched_bytes // self._passed_offsets
            wanted = max(LEAST_FETCH_BYTES, left + left // 10)
        return replace(self._limits, max_partition_fetch_bytes=min(self._limits.max_partition_fetch_bytes, wanted))

    def _request_ahead(self) -> None:
        """Request the next answer while the caller reads this one. Ignore an error, because the fetch is then sent again."""
        with suppress(KafkaError):
            self._ahead = self._request(self._link)

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
            return None  # the broker answers the next fetch after the throttle time
        raise broker_error(UNKNOWN_SERVER_ERROR, context, "The broker's answer leaves the partition out.")

    def _stuck(self, found: FetchedPartition) -> TimedOut:
        return TimedOut(
            f"{self._where.topic}-{self._where.partition} gave no record from offset {self._offset} on, "
            f"and the range ends at {self._end}: the high watermark is {found.high_watermark}, "
            f"the log begins at {found.log_start_offset}."
        )
