"""The repeated queries of a stream to brokers: existing partitions, their ends, and new records. Blocking.

Topics can be deleted and recreated at any time. Each attempt reads the metadata again, so that a deleted topic causes no delay.
`reader` and the pure modules interpret the answers.

Like a consumer, a stream waits for records in a Fetch that each broker holds until it has records. The Fetch can last for
several calls.

The committed offsets of a consumer group follow a stream so that tools show its lag. The group has no members. The query's
checkpoint decides what is read next, so a failed commit is logged and the query continues.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from ottla.client.connection.versions import FETCH
from ottla.client.consumer.committed_offsets import commit_request, read_commit
from ottla.client.consumer.fetch_requests import (
    NAMED_UNTIL,
    FetchedPartition,
    FetchLimits,
    FetchPosition,
    fetch_request,
    read_fetch,
)
from ottla.client.errors import KafkaError
from ottla.client.settings.clients import ConsumerSettings
from ottla.client.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from ottla.net.client.cluster import FETCH_LANE, ClusterLinks
from ottla.net.client.coordinator import GROUP, Coordinator
from ottla.net.client.link import Link
from ottla.records.batches.header import batches
from ottla.spark.brokers import Brokers
from ottla.spark.errors import OptionError
from ottla.spark.options import TopicSelection, selects
from ottla.spark.read_plan import PartitionOffsets
from ottla.spark.streams.stream_position import Position, id_text
from ottla.wire.api.fetch import FetchResponse
from ottla.wire.api.offset_commit import OffsetCommitResponse
from ottla.wire.errors import UNKNOWN_TOPIC_OR_PARTITION

KEPT_S = 5.0
"""The time, in s, for which the list of partitions is used. After it, new partitions are found."""
LOOKS = 3
"""The number of metadata reads that must miss a topic before it counts as deleted. A starting broker may not have it yet."""

logger = logging.getLogger("ottla.spark")

WAIT_MS = 5_000
"""The longest time, in ms, that a broker holds a Fetch. A stream without records then searches for new partitions."""
_SHORTEST_WAIT_S = 0.001
Positions = dict[TopicPartition, FetchPosition]

REPEAT_S, REPEAT_FAILED_S = 3600.0, 60.0
"""The times, in s, after which the same offsets are committed again, after a success and after a failure.

Brokers delete the offsets of a group that does not commit for long.
"""


GROUP_METADATA = "ottla-spark"
"""The metadata of committed offsets, by which tools recognise the group of a query."""


class GroupOffsets:
    """The committed offsets of one consumer group. At most one commit is in flight."""

    def __init__(self, cluster: ClusterLinks, group_id: str) -> None:
        self._cluster = cluster
        self._group_id = group_id
        self._coordinator = Coordinator(cluster, group_id, GROUP)
        self._told: PartitionOffsets | None = None
        self._repeat_s = 0.0
        self._task: asyncio.Task[None] | None = None

    async def commit(self, offsets: PartitionOffsets, *, wait: bool) -> None:
        """Commit `offsets` if they are new. Return at once, unless `wait` is set or this is the first commit.

        Only one commit is in flight. When it ends, the newest offsets are committed. Raises `OptionError` if the first commit fails
        with an error that is not retriable.
        """
        first = self._told is None
        if self._task is not None and (wait or self._task.done()):
            await self._finish()
        now_s = asyncio.get_running_loop().time()
        if offsets and self._task is None and (offsets != self._told or now_s >= self._repeat_s):
            self._told, self._repeat_s = dict(offsets), now_s + REPEAT_S
            self._task = asyncio.create_task(self._cluster.retry(self._commit))
        if self._task is not None and (wait or first):
            await self._finish(must_work=first)

    async def _finish(self, *, must_work: bool = False) -> None:
        task, self._task = self._task, None
        assert task is not None
        try:
            await task
        except KafkaError as error:
            if must_work and not error.retriable:
                raise OptionError(f"Option groupId must name a group of the query's own. {error}") from error
            self._repeat_s = asyncio.get_running_loop().time() + REPEAT_FAILED_S
            logger.warning("group %s does not show where the query stands: %s", self._group_id, error)

    async def _commit(self) -> None:
        offsets = {where: OffsetAndMetadata(offset, GROUP_METADATA) for where, offset in (self._told or {}).items()}
        request = commit_request(ConsumerGroupMetadata(self._group_id), offsets)
        answer: OffsetCommitResponse = await self._coordinator.request(request)
        for where, code in read_commit(answer):
            if code != UNKNOWN_TOPIC_OR_PARTITION:  # the stream itself handles topics that are deleted
                self._coordinator.check(code, f"Committing {where.topic}-{where.partition} for group {self._group_id}")


class Poll(NamedTuple):
    """A Fetch request in flight at one broker, which waits for new records.

    The task returns whether the answer had records, or the Fetch lasted its whole time.
    """

    positions: Positions
    begun_s: float
    task: asyncio.Task[bool]


class Polls:
    """The waiting Fetch requests of a stream, one for each broker that leads partitions.

    They have their own connections, so that no other request waits behind them.
    """

    def __init__(self, cluster: ClusterLinks, *, read_committed: bool) -> None:
        self._cluster = cluster
        self._wait_ms = min(WAIT_MS, cluster.settings.request_timeout_ms // 2)
        self._limits = FetchLimits(1, 1, fetch_max_wait_ms=self._wait_ms, read_committed=read_committed)
        self._polls: dict[int, Poll] = {}
        self._links: dict[int, Link] = {}

    async def close(self) -> None:
        for node_id in list(self._polls):
            await self._drop(node_id)

    async def wait(self, ends: PartitionOffsets, wait_s: float) -> bool:
        """Return whether a broker has answered within `wait_s`: with records after `ends`, without records, or with an error.

        After an answer without records, return only when `wait_s` is over, so that brokers with errors get no more queries.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        complete = await self._begin(ends)
        tasks = [poll.task for poll in self._polls.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=max(wait_s, _SHORTEST_WAIT_S), return_when=asyncio.FIRST_COMPLETED)
        done = [node_id for node_id, poll in self._polls.items() if poll.task.done()]
        in_time = [self._polls.pop(node_id).task.result() for node_id in done]
        if not any(in_time) and (in_time or not complete or not tasks):
            await asyncio.sleep(max(0.0, until - loop.time()))
        return bool(done) or not complete

    async def _begin(self, ends: PartitionOffsets) -> bool:
        """Begin a poll at each leader of partitions. Return False if a partition has no known leader."""
        cluster = self._cluster
        grouped, leaderless = cluster.metadata.by_leader(ends)
        now = asyncio.get_running_loop().time()
        for node_id in list(self._polls):
            late = now - self._polls[node_id].begun_s > (self._wait_ms + 1000) / 1000
            if node_id not in grouped or late:
                await self._drop(node_id)
        for node_id, group in grouped.items():
            positions = {where: FetchPosition(ends[where], cluster.metadata.leader_epoch(*where)) for where in group}
            if node_id in self._polls:
                if self._polls[node_id].positions == positions:
                    continue
                await self._drop(node_id)
            self._polls[node_id] = Poll(positions, now, asyncio.create_task(self._poll(node_id, positions)))
        return not leaderless

    async def _drop(self, node_id: int) -> None:
        """Cancel the Fetch at broker `node_id`.

        If it has no answer yet, close its connection, on which the broker would answer nothing else before.
        """
        task = self._polls.pop(node_id).task
        if task.done():
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if node_id in self._links:
            self._links.pop(node_id).close()

    async def _poll(self, node_id: int, positions: Positions) -> bool:
        begun_s = asyncio.get_running_loop().time()
        request = fetch_request(positions, self._limits)
        try:
            link = self._links[node_id] = await self._cluster.link(node_id, FETCH_LANE)
            answer: FetchResponse = await link.request(request, self._cluster.settings.request_timeout_ms, NAMED_UNTIL)
        except KafkaError as error:
            logger.debug("waiting for records: %s", error)
            return False
        parts = [(topic.topic, part) for topic in answer.responses for part in topic.partitions]
        for topic, part in parts:
            if part.error_code:
                self._cluster.metadata.forget_leader(topic, part.partition_index)
        lasted = asyncio.get_running_loop().time() - begun_s >= self._wait_ms / 2000
        return lasted or any(part.records for _, part in parts)


async def _record_bytes(
    cluster: ClusterLinks, settings: ConsumerSettings, begin: Mapping[TopicPartition, int], bytes_each: int
) -> dict[TopicPartition, float]:
    """Return the stored bytes per offset in each partition, from a sample of `bytes_each` bytes after `begin`.

    A partition without records in its sample is left out. Raises `KafkaError`.
    """
    limits = FetchLimits(bytes_each * len(begin), bytes_each, fetch_max_wait_ms=0, read_committed=settings.read_committed)
    grouped, _ = cluster.metadata.by_leader(begin)

    async def sample(node_id: int, group: list[TopicPartition]) -> list[FetchedPartition]:
        positions = {where: FetchPosition(begin[where], cluster.metadata.leader_epoch(*where)) for where in group}
        link = await cluster.link(node_id)
        answer = await link.request(fetch_request(positions, limits), settings.request_timeout_ms, NAMED_UNTIL)
        return list(read_fetch(answer, link.version(FETCH)))

    answers = await asyncio.gather(*(sample(node_id, group) for node_id, group in grouped.items()))
    found = ((part.where, _mean(part)) for parts in answers for part in parts)
    return {where: mean for where, mean in found if mean is not None}


def _mean(part: FetchedPartition) -> float | None:
    headers = [header for _, header in batches(part.records)]
    if not headers:
        return None
    offsets = headers[-1].base_offset + headers[-1].last_offset_delta + 1 - headers[0].base_offset
    return sum(header.size for header in headers) / offsets


class Watch(Brokers):
    """The requests of a stream to brokers. If the settings have a group, `commit` commits the group's offsets."""

    def __init__(self, settings: ConsumerSettings, selection: TopicSelection) -> None:
        super().__init__(settings)
        self._selection = selection
        self._seen_s = -KEPT_S
        self._partitions: list[TopicPartition] = []
        self._polls = Polls(self._cluster, read_committed=settings.read_committed)
        self._group = GroupOffsets(self._cluster, settings.group_id) if settings.group_id else None

    def close(self) -> None:
        self._runner.run(self._polls.close())
        super().close()

    def topic_ids(self, partitions: Iterable[TopicPartition]) -> dict[str, str]:
        """Return the topic ids of partitions, without topics for which brokers return no id."""
        topics = self._cluster.metadata.topics
        found = {name: id_text(topics[name].topic_id) for name in {where.topic for where in partitions}}
        return {name: topic_id for name, topic_id in found.items() if topic_id}

    def ends(self, before: Collection[TopicPartition] = (), *, fresh: bool = False) -> Position:
        """Return the ends of the selected partitions that exist.

        A topic of `before`, the former partitions, counts as deleted after several reads have missed it. Raises `KafkaError`.
        """
        return self._retry(lambda: self._now(LATEST_TIMESTAMP, before, fresh=fresh))

    def begins(self, before: Collection[TopicPartition]) -> Position:
        """Return the starts of the selected partitions that exist. Topics count as deleted, and errors are raised, as by `ends`."""
        return self._retry(lambda: self._now(EARLIEST_TIMESTAMP, before, fresh=True))

    async def _now(self, timestamp: int, before: Collection[TopicPartition], *, fresh: bool) -> Position:
        if fresh or time.monotonic() - self._seen_s > KEPT_S:
            await self._refresh(before)
        try:
            offsets = await self._list_offsets(dict.fromkeys(self._partitions, timestamp), timeout_ms=0)
        except KafkaError:
            self._seen_s = -KEPT_S  # the next attempt begins with a read of metadata
            raise
        return Position(offsets, self.topic_ids(offsets))

    async def _refresh(self, before: Collection[TopicPartition]) -> None:
        expected = {where.topic for where in (*before, *self._partitions) if selects(self._selection, where)}
        for look in range(LOOKS):
            if look:
                await asyncio.sleep(self._settings.retry_backoff_ms / 1000)
            found = await self._list_partitions(self._selection)
            if expected <= {where.topic for where in found}:
                break
        self._partitions = [where for where in found if selects(self._selection, where)]
        self._seen_s = time.monotonic()

    def wait_for_records(self, ends: PartitionOffsets, wait_ms: float) -> bool:
        """Wait up to `wait_ms` for records after `ends`. Return whether there may be some, so that `ends` must be queried again."""
        return self._runner.run(self._polls.wait(ends, wait_ms / 1000))

    def record_bytes(self, begin: Mapping[TopicPartition, int], bytes_each: int) -> dict[TopicPartition, float]:
        """Return the mean record size in each partition, from a sample of `bytes_each` bytes after `begin`. Raises `KafkaError`."""
        return self._retry(lambda: _record_bytes(self._cluster, self._settings, begin, bytes_each))

    def commit(self, offsets: PartitionOffsets, *, wait: bool = False) -> None:
        """Commit `offsets` for the group. Without `wait`, the commit runs in the background. Raises `OptionError`."""
        if self._group is not None:
            self._runner.run(self._group.commit(offsets, wait=wait))
