"""The committed offsets of a consumer group, which follow a stream so that tools show its lag.

The group has no members. The query's checkpoint decides what is read next, so a failed commit is logged and the query continues.
"""

from __future__ import annotations

import asyncio
import logging

from ottla.client.consumer.committed_offsets import commit_request, read_commit
from ottla.client.errors import KafkaError
from ottla.client.types import ConsumerGroupMetadata, OffsetAndMetadata
from ottla.net.client.cluster import ClusterLinks
from ottla.net.client.coordinator import GROUP, Coordinator
from ottla.spark.errors import OptionError
from ottla.spark.read_plan import PartitionOffsets
from ottla.wire.api.offset_commit import OffsetCommitResponse
from ottla.wire.errors import UNKNOWN_TOPIC_OR_PARTITION

logger = logging.getLogger("ottla.spark")

REPEAT_S, REPEAT_FAILED_S = 3600.0, 60.0
"""The times, in s, after which the same offsets are committed again, after a success and after a failure.

Brokers delete the offsets of a group that does not commit for long.
"""


class GroupOffsets:
    """The offsets of one group; at most one commit is in flight."""

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
            self._task = asyncio.create_task(self._cluster.retried(self._commit))
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
        offsets = {where: OffsetAndMetadata(offset) for where, offset in (self._told or {}).items()}
        request = commit_request(ConsumerGroupMetadata(self._group_id), offsets)
        answer: OffsetCommitResponse = await self._coordinator.request(request)
        for where, code in read_commit(answer):
            if code != UNKNOWN_TOPIC_OR_PARTITION:  # the stream itself handles topics that are deleted
                self._coordinator.check(code, f"Committing {where.topic}-{where.partition} for group {self._group_id}")
