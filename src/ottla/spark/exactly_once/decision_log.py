"""The compacted topic with the last decision of each query and job.

Only its first partition is used, so that a name keeps its partition if partitions are added.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from typing import Final

from ottla.client.admin.topics import (
    ConfigResource,
    NewTopic,
    check_topics,
    create_topics_request,
    describe_configs_request,
    read_configs,
)
from ottla.client.connection.versions import FETCH
from ottla.client.consumer.fetch_requests import (
    NAMED_UNTIL,
    FetchedPartition,
    FetchLimits,
    FetchPosition,
    fetch_request,
    holds_nothing_more,
    read_fetch,
)
from ottla.client.consumer.list_offsets import list_offsets_request, read_list_offsets
from ottla.client.consumer.visible_batches import visible
from ottla.client.errors import BrokerError, OffsetOutOfRange, TimedOut, UnknownTopic, raise_for
from ottla.client.types import EARLIEST_TIMESTAMP, TopicPartition
from ottla.net.client.cluster import ClusterLinks, now_ms
from ottla.net.client.leaders import request_leaders
from ottla.once.decisions import BatchDecision, decode
from ottla.records.batches.columns import open_batches
from ottla.spark.errors import OptionError
from ottla.wire.api.list_offsets import ListOffsetsRequest
from ottla.wire.errors import TOPIC_ALREADY_EXISTS

logger = logging.getLogger("ottla.spark")

CONFIGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": str(4 << 20),
    "min.cleanable.dirty.ratio": "0.1",
    "compression.type": "producer",
}
"""The topic's settings. Its segments are small, so that old decisions are compacted soon, and a new process has little to read."""
REPLICAS: Final = 3
"""The number of replicas, by default as many as Kafka's own topics for groups and transactions have."""
PAUSE_S: Final = 0.005
LIMITS: Final = FetchLimits(fetch_max_wait_ms=0, max_partition_fetch_bytes=4 << 20, read_committed=True)


class DecisionLog:
    """A reader of the decision topic. Each read continues where the last one ended. Use only on one event loop."""

    def __init__(self, cluster: ClusterLinks, topic: str) -> None:
        self.where = TopicPartition(topic, 0)
        self._cluster = cluster
        self._offset = 0
        self._last: dict[bytes, bytes] = {}
        self._is_checked = False

    async def create(self) -> None:
        """Create the topic, or check that the settings of an existing one keep decisions.

        Raises `OptionError` for a topic whose retention would delete decisions, or `KafkaError`.
        """

        async def attempt() -> None:
            await self._cluster.refresh([])
            replicas = await self._replicas()
            configs = {**CONFIGS, **({"min.insync.replicas": "2"} if replicas > 2 else {})}
            request = create_topics_request(
                [NewTopic(self.where.topic, 1, replicas, configs)], self._cluster.settings.request_timeout_ms, validate_only=False
            )
            try:
                check_topics(await self._cluster.request(self._cluster.metadata.controller_id, request))
            except BrokerError as error:
                if error.code != TOPIC_ALREADY_EXISTS:
                    raise

        try:
            await self._cluster.ensure([self.where.topic])
        except UnknownTopic:
            await self._cluster.retry(attempt)
            await self._cluster.retry(self._check_existing)
        if not self._is_checked:
            await self._cluster.retry(self._check)
            self._is_checked = True

    async def _replicas(self) -> int:
        """Return the number of replicas for the topic: as many as Kafka's own topics have, or the brokers' default if higher."""
        nodes = self._cluster.metadata.nodes
        found = await self._configs(ConfigResource.broker(min(nodes)), min(nodes))
        return max(min(REPLICAS, len(nodes)), int(found.get("default.replication.factor") or 1))

    async def _check(self) -> None:
        topic = self.where.topic
        await self._cluster.refresh([topic])
        leader = await self._cluster.leader(self.where)
        found = await self._configs(ConfigResource.topic(topic), leader)
        policy = found.get("cleanup.policy", "compact").replace(" ", "").split(",")
        if "delete" in policy and not (found.get("retention.ms") == "-1" and found.get("retention.bytes") == "-1"):
            raise OptionError(
                f"Topic {topic} keeps what was decided about each query, and its cleanup.policy={','.join(policy)} deletes that in "
                "time: set it to compact, or name another topic in option decisionTopic."
            )
        metadata = self._cluster.metadata
        replicas, most = len(metadata.topics[topic].partitions[0].replicas), min(REPLICAS, len(metadata.nodes))
        if replicas < most:
            logger.warning(
                "topic %s keeps what was decided about each query, and has %d of %d possible replicas: give it more",
                topic,
                replicas,
                most,
            )

    async def _configs(self, resource: ConfigResource, node_id: int) -> dict[str, str]:
        """Return the settings of a resource; empty if this user may not read them."""
        answer = await self._cluster.request(node_id, describe_configs_request(resource))
        try:
            return {each.name: each.value or "" for each in read_configs(answer).values()}
        except BrokerError as error:
            if error.retriable:
                raise
            return {}

    async def _check_existing(self) -> None:
        await self._cluster.refresh([self.where.topic])
        self._cluster.metadata.check([self.where.topic])

    async def last(self, name: str) -> BatchDecision | None:
        """Return the last decision about `name` that was written before this call. Wait for one that is being written.

        Raises `KafkaError`.
        """
        try:
            await self._cluster.ensure([self.where.topic])
        except UnknownTopic:
            return None
        deadline_ms = now_ms() + self._cluster.settings.default_api_timeout_ms
        end: int | None = None
        while end is None or self._offset < end:
            try:
                found = await self._cluster.retry(self._fetch, topics=[self.where.topic])
            except OffsetOutOfRange:  # the topic was recreated, or its first records were deleted
                if now_ms() > deadline_ms:
                    raise
                self._last.clear()
                self._offset, end = await self._beginning(), None
                continue
            end = found.high_watermark if end is None else end
            if not self._store(found) and self._offset < end:
                if holds_nothing_more(found, self._offset, end, read_committed=True):
                    self._offset = end
                elif now_ms() > deadline_ms:
                    raise TimedOut(
                        f"{self.where.topic} cannot be read from offset {self._offset} to {end}: a transaction is open there."
                    )
                await asyncio.sleep(PAUSE_S)
        key = name.encode()
        value = self._last.get(key)
        return None if value is None else decode(key, value)

    async def _fetch(self) -> FetchedPartition:
        link = await self._cluster.link(await self._cluster.leader(self.where))
        position = FetchPosition(self._offset, self._cluster.metadata.leader_epoch(*self.where))
        timeout_ms = self._cluster.settings.request_timeout_ms
        answer = await link.request(fetch_request({self.where: position}, LIMITS), timeout_ms, NAMED_UNTIL)
        context = f"Reading the decisions in {self.where.topic}"
        raise_for(answer.error_code, context)
        for found in read_fetch(answer, link.version(FETCH)):
            if found.error_code:
                self._cluster.metadata.forget_leader(*self.where)
            raise_for(found.error_code, context)
            return found
        raise TimedOut(f"{context}: the broker's answer leaves the partition out.")

    async def _beginning(self) -> int:
        """Return the first offset that can be read. An answer of Fetch with an error does not contain it."""

        def request(wanted: Mapping[TopicPartition, int]) -> ListOffsetsRequest:
            return list_offsets_request(wanted, read_committed=False, timeout_ms=self._cluster.settings.request_timeout_ms)

        asked = {self.where: EARLIEST_TIMESTAMP}
        found = await request_leaders(self._cluster, asked, request, read_list_offsets, "The first offset of")
        return found[self.where].offset

    def _store(self, found: FetchedPartition) -> bool:
        """Store the decisions in the records of a fetch. Return whether the fetch had any records."""
        seen = visible(found.records, found.aborted)
        for key, value in _entries(seen.pieces, self._offset):
            if value is None:
                self._last.pop(key, None)
            else:
                self._last[key] = value
        before, self._offset = self._offset, max(self._offset, seen.next_offset or 0)
        return self._offset > before


def _entries(pieces: list[memoryview], offset: int) -> Iterator[tuple[bytes, bytes | None]]:
    for piece in pieces:
        for record in open_batches(piece, from_offset=offset).records():
            if record.key is not None:
                yield bytes(record.key), None if record.value is None else bytes(record.value)
