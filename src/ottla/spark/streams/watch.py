"""The repeated queries of a stream to brokers: existing partitions, their ends, and new records. Blocking.

Topics can be deleted and recreated at any time. Each attempt reads the metadata again, so that a deleted topic causes no delay.
`reader` and the pure modules interpret the answers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Mapping

from ottla.client.errors import KafkaError
from ottla.client.settings.clients import ConsumerSettings
from ottla.client.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from ottla.spark.brokers import Brokers
from ottla.spark.options import TopicSelection, selects
from ottla.spark.read_plan import PartitionOffsets
from ottla.spark.streams.group import GroupOffsets
from ottla.spark.streams.polls import Polls
from ottla.spark.streams.samples import record_bytes
from ottla.spark.streams.stream_position import Position, id_text

KEPT_S = 5.0
"""The time, in s, for which the list of partitions is used. After it, new partitions are found."""
LOOKS = 3
"""The number of metadata reads that must miss a topic before it counts as deleted. A starting broker may not have it yet."""


class Watch(Brokers):
    """A stream's queries to brokers. If the settings have a group, `commit` commits its offsets."""

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
        return self._retried(lambda: self._now(LATEST_TIMESTAMP, before, fresh=fresh))

    def begins(self, before: Collection[TopicPartition]) -> Position:
        """Return the starts of the selected partitions that exist. Topics count as deleted, and errors are raised, as by `ends`."""
        return self._retried(lambda: self._now(EARLIEST_TIMESTAMP, before, fresh=True))

    async def _now(self, timestamp: int, before: Collection[TopicPartition], *, fresh: bool) -> Position:
        if fresh or time.monotonic() - self._seen_s > KEPT_S:
            await self._look(before)
        try:
            offsets = await self._listed(dict.fromkeys(self._partitions, timestamp), timeout_ms=0)
        except KafkaError:
            self._seen_s = -KEPT_S  # the next attempt begins with a read of metadata
            raise
        return Position(offsets, self.topic_ids(offsets))

    async def _look(self, before: Collection[TopicPartition]) -> None:
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
        return self._retried(lambda: record_bytes(self._cluster, self._settings, begin, bytes_each))

    def commit(self, offsets: PartitionOffsets, *, wait: bool = False) -> None:
        """Commit `offsets` for the group. Without `wait`, the commit runs in the background. Raises `OptionError`."""
        if self._group is not None:
            self._runner.run(self._group.commit(offsets, wait=wait))
