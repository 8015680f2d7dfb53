"""Waiting for records, as consumers wait: each broker holds a Fetch until it has records. The Fetch can last for several calls."""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple

from ottla.client.consumer.fetch_requests import NAMED_UNTIL, FetchLimits, FetchPosition, fetch_request
from ottla.client.errors import KafkaError
from ottla.client.types import TopicPartition
from ottla.net.client.cluster import FETCH_LANE, ClusterLinks
from ottla.net.client.link import Link
from ottla.spark.read_plan import PartitionOffsets
from ottla.wire.api.fetch import FetchResponse

logger = logging.getLogger("ottla.spark")

WAIT_MS = 5_000
"""The longest time, in ms, that a broker holds a Fetch. A stream without records then searches for new partitions."""
_SHORTEST_WAIT_S = 0.001
Positions = dict[TopicPartition, FetchPosition]


class Poll(NamedTuple):
    """A Fetch in flight at one broker. The task returns whether the answer had records, or the Fetch lasted its whole time."""

    positions: Positions
    begun_s: float
    task: asyncio.Task[bool]


class Polls:
    """A `Poll` for each broker that leads partitions. Polls have their own connections, so that no request waits behind them."""

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
            self._polls[node_id] = Poll(positions, now, asyncio.create_task(self._ask(node_id, positions)))
        return not leaderless

    async def _drop(self, node_id: int) -> None:
        """End a poll. If it is not answered, close its connection, on which the broker would answer nothing else before."""
        task = self._polls.pop(node_id).task
        if task.done():
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if node_id in self._links:
            self._links.pop(node_id).close()

    async def _ask(self, node_id: int, positions: Positions) -> bool:
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
