"""Offsets, sizes and lag of the whole cluster, sampled while pages are viewed: rates and charts, and columns to sort by.

A sample of a large cluster takes long, so that samples are the rarer the longer they take.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

from ottla.client.admin.groups import CLASSIC, CONSUMER, SHARE, STREAMS, ShareOffset
from ottla.client.connection.metadata import TopicInfo
from ottla.client.types import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from ottla.console.broker_watch import now_ms
from ottla.errors import KafkaError
from ottla.net.client.admin.async_admin import AsyncAdmin

ENDS_EVERY_S, REST_EVERY_S = 5.0, 20.0
MOST_OF_TIME = 0.1
"""The part of its time that the sampler works at most."""
POINTS = 72
"""The points of a chart: six minutes at full pace."""
RATE_POINTS = 6
"""The last points that a rate is computed from: half a minute at full pace."""
MOST_GROUPS = 2_000
"""The number of groups whose offsets are sampled."""


class EndPoint(NamedTuple):
    """The sum of end offsets at a time (ms since 1970)."""

    time_ms: int
    end: int


class ClusterSamples:
    """The last samples. Each dictionary is replaced as a whole. `troubles` has a sentence for each kind that failed."""

    def __init__(self) -> None:
        self.ends: Mapping[TopicPartition, int] = {}
        self.starts: Mapping[TopicPartition, int] = {}
        self.sizes: Mapping[str, int] = {}
        """topic -> bytes of all its replicas"""
        self.disk_bytes: dict[int, tuple[int, int]] = {}
        """node id -> bytes of replicas, usable bytes of its log directories (-1 from older brokers)"""
        self.committed: Mapping[str, Mapping[TopicPartition, int]] = {}
        """group -> offsets"""
        self.metadata: Mapping[str, str] = {}
        """group -> the metadata of one of its offsets, if that has any"""
        self.topics: dict[str, deque[EndPoint]] = {}
        self.total: deque[EndPoint] = deque(maxlen=POINTS)
        self.troubles: dict[str, str] = {}
        self.sampled = asyncio.Event()
        """Set once everything has been sampled."""
        self._next_s = {"ends": 0.0, "rest": 0.0}

    async def sample(self, admin: AsyncAdmin, topics: Mapping[str, TopicInfo]) -> None:
        """Take the samples that are due."""
        if time.monotonic() >= self._next_s["ends"]:
            await self._sample_if_due("ends", ENDS_EVERY_S, lambda: self._sample_ends(admin, topics))
        if time.monotonic() >= self._next_s["rest"]:
            await self._sample_if_due("rest", REST_EVERY_S, lambda: self._sample_rest(admin, topics))
            self.sampled.set()

    async def _sample_if_due(self, kind: str, every_s: float, take: Callable[[], Awaitable[None]]) -> None:
        began = time.monotonic()
        await take()
        ended = time.monotonic()
        self._next_s[kind] = ended + max(every_s, (ended - began) / MOST_OF_TIME)

    async def _sample_ends(self, admin: AsyncAdmin, topics: Mapping[str, TopicInfo]) -> None:
        ends = await self._offsets(admin, topics, LATEST_TIMESTAMP, "ends")
        if ends is None:
            return
        self.ends = ends
        sums: defaultdict[str, int] = defaultdict(int)
        for where, end in ends.items():
            sums[where.topic] += end
        at = now_ms()
        for name, end in sums.items():
            self.topics.setdefault(name, deque(maxlen=POINTS)).append(EndPoint(at, end))
        for name in self.topics.keys() - topics.keys():
            del self.topics[name]
        self.total.append(EndPoint(at, sum(sums.values())))

    async def _sample_rest(self, admin: AsyncAdmin, topics: Mapping[str, TopicInfo]) -> None:
        starts = await self._offsets(admin, topics, EARLIEST_TIMESTAMP, "starts")
        if starts is not None:
            self.starts = starts
        await self._sample_sizes(admin)
        await self._sample_groups(admin)

    async def _offsets(
        self, admin: AsyncAdmin, topics: Mapping[str, TopicInfo], timestamp: int, kind: str
    ) -> dict[TopicPartition, int] | None:
        wanted = dict.fromkeys(partitions_with_leaders(topics.values()), timestamp)
        try:
            found = await admin.list_offsets(wanted, check=False) if wanted else {}
        except KafkaError as error:
            self.troubles[kind] = str(error)
            return None
        self.troubles.pop(kind, None)
        return {where: each.offset for where, each in found.items()}

    async def _sample_sizes(self, admin: AsyncAdmin) -> None:
        try:
            found = await admin.describe_log_dirs(check=False)
        except KafkaError as error:
            self.troubles["sizes"] = str(error)
            return
        sizes: defaultdict[str, int] = defaultdict(int)
        for node_id, directories in found.items():
            own = 0
            for directory in directories:
                for where, replica in directory.replicas.items():
                    sizes[where.topic] += replica.size_bytes
                    own += replica.size_bytes
            usable = [each.usable_bytes for each in directories if not each.error_code]
            self.disk_bytes[node_id] = own, (min(usable, default=-1) if -1 in usable else sum(usable))
        self.sizes = sizes
        self._record_errors("sizes", found.errors.values())

    async def _sample_groups(self, admin: AsyncAdmin) -> None:
        try:
            listed = await admin.list_groups(check=False)
            ids = [group.group_id for group in listed if group.group_type in ("", CLASSIC, CONSUMER, STREAMS)]
            found = await admin.list_offsets_of_groups(*ids[:MOST_GROUPS], require_stable=False, check=False)
            queues = [group.group_id for group in listed if group.group_type == SHARE][:MOST_GROUPS]
            shared = await admin.list_share_group_offsets(*queues, check=False) if queues else {}
        except KafkaError as error:
            self.troubles["groups"] = str(error)
            return
        committed = {name: {where: each.offset for where, each in offsets.items()} for name, offsets in found.items()}
        self.committed = {**committed, **{name: self._equal_offsets(positions) for name, positions in shared.items()}}
        notes = {name: next((each.metadata for each in offsets.values() if each.metadata), "") for name, offsets in found.items()}
        self.metadata = {name: note for name, note in notes.items() if note}
        self._record_errors("groups", (*listed.errors.values(), *found.errors.values()))

    def _equal_offsets(self, positions: Mapping[TopicPartition, ShareOffset]) -> dict[TopicPartition, int]:
        """Return the offsets at which a consumer group would be as far behind as a share group."""
        return {where: self.ends[where] - each.lag for where, each in positions.items() if each.lag >= 0 and where in self.ends}

    def _record_errors(self, kind: str, errors: Iterable[KafkaError]) -> None:
        self.troubles.pop(kind, None)
        for error in errors:
            self.troubles[kind] = str(error)
            break

    def lag(self, group_id: str, topic: str | None = None) -> int | None:
        """Return the records that a group is behind, in one topic or in all; None if it has committed no offset there."""
        offsets = self.committed.get(group_id, {})
        behind = [max(self.ends[where] - offset, 0) for where, offset in offsets.items() if self._counts(where, topic)]
        return sum(behind) if behind else None

    def _counts(self, where: TopicPartition, topic: str | None) -> bool:
        return where in self.ends and topic in (None, where.topic)

    def groups_of(self, topic: str) -> list[str]:
        """Return the groups that have committed offsets in a topic, sorted."""
        return sorted(name for name, offsets in self.committed.items() if any(where.topic == topic for where in offsets))


def partitions_with_leaders(topics: Iterable[TopicInfo]) -> list[tuple[str, int]]:
    """Return the partitions of topics that have a leader."""
    return [
        TopicPartition(topic.name, each.partition) for topic in topics for each in topic.partitions.values() if each.leader >= 0
    ]


def rate(points: Iterable[EndPoint]) -> float | None:
    """Return the records a second over the last points, or None with fewer than two points. A recreated topic counts from zero."""
    some = list(points)[-RATE_POINTS:]
    if len(some) < 2 or some[-1].time_ms <= some[0].time_ms:
        return None
    return max(some[-1].end - some[0].end, 0) * 1000 / (some[-1].time_ms - some[0].time_ms)


def rates(points: Iterable[EndPoint]) -> list[float]:
    """Return the records a second between each two points."""
    some = list(points)
    return [max(after.end - before.end, 0) * 1000 / max(after.time_ms - before.time_ms, 1) for before, after in pairwise(some)]
