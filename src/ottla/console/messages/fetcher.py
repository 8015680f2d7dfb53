"""Fetches of whole batches from partitions of a topic, over connections of their own. Each is bounded in bytes and time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ottla.client.connection.older_brokers import ISOLATION_FROM_FETCH
from ottla.client.connection.versions import FETCH
from ottla.client.consumer.fetch_requests import (
    NAMED_UNTIL,
    FetchedPartition,
    FetchLimits,
    FetchPosition,
    fetch_request,
    read_fetch,
)
from ottla.client.errors import KafkaError, UnknownTopic, broker_error, raise_for
from ottla.client.settings.clients import ConsumerSettings, parse
from ottla.client.types import TopicPartition
from ottla.net.client.cluster import FETCH_LANE, ClusterLinks
from ottla.wire.errors import OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION

LOOKS = 3
"""The number of consecutive answers without a topic after which it counts as deleted."""
FETCH_BYTES = 4 * 1024 * 1024
"""The bytes that one fetch from one broker returns at most, unless a single batch is larger."""
PARTITION_BYTES = 1024 * 1024


class TopicFetcher:
    """Fetches from the partitions of one topic. `settings` are the keyword arguments of a client."""

    def __init__(self, settings: Mapping[str, Any], topic: str) -> None:
        self._topic = topic
        self._cluster = ClusterLinks(parse(ConsumerSettings, settings))
        self._missed = 0
        self.trouble = ""
        """The sentence about a leader that did not answer the last fetch, or empty."""

    async def close(self) -> None:
        """Close the connections."""
        await self._cluster.close()

    async def fetch(
        self, wanted: Mapping[int, int], *, read_committed: bool, wait_ms: int = 0, partition_bytes: int = PARTITION_BYTES
    ) -> list[FetchedPartition]:
        """Return the batches from these offsets on, by partition. Partitions without a leader are left out.

        A result's `error_code` is 0 or OFFSET_OUT_OF_RANGE. Raises `KafkaError`, `UnknownTopic` once the topic is deleted.
        """
        leaders = await self._leaders(list(wanted))
        limits = FetchLimits(
            fetch_max_bytes=FETCH_BYTES,
            max_partition_fetch_bytes=partition_bytes,
            fetch_max_wait_ms=wait_ms,
            read_committed=read_committed,
        )
        nodes: dict[int, dict[TopicPartition, FetchPosition]] = {}
        for where, node_id in leaders.items():
            epoch = self._cluster.metadata.leader_epoch(*where)
            nodes.setdefault(node_id, {})[where] = FetchPosition(wanted[where.partition], epoch)
        asks = (self._fetch_from(node_id, some, limits) for node_id, some in nodes.items())
        answers = await asyncio.gather(*asks, return_exceptions=True)
        failures = [each for each in answers if isinstance(each, BaseException)]
        # A broker that does not answer keeps the records of others from nobody.
        self.trouble = str(failures[0]) if failures else ""
        if failures and (len(failures) == len(answers) or not isinstance(failures[0], KafkaError)):
            raise failures[0]
        return [found for some in answers if isinstance(some, list) for found in some]

    async def _leaders(self, partitions: list[int]) -> dict[TopicPartition, int]:
        """Return partitions with their leaders. Those without one are looked up, and left out while they have none."""
        metadata = self._cluster.metadata
        places = [TopicPartition(self._topic, index) for index in partitions]
        if any(metadata.leader(*where) < 0 for where in places):
            await self._refresh()
        return {where: node_id for where in places if (node_id := metadata.leader(*where)) >= 0}

    async def _refresh(self) -> None:
        await self._cluster.refresh([self._topic])
        try:
            self._cluster.metadata.check([self._topic])
        except UnknownTopic as error:
            self._missed += 1
            error.retriable = self._missed < LOOKS
            raise
        self._missed = 0

    async def _fetch_from(
        self, node_id: int, wanted: dict[TopicPartition, FetchPosition], limits: FetchLimits
    ) -> list[FetchedPartition]:
        try:
            link = await self._cluster.link(node_id, FETCH_LANE)
            if link.version(FETCH) < ISOLATION_FROM_FETCH:  # brokers without transactions
                limits = replace(limits, read_committed=False)
            timeout_ms = self._cluster.settings.request_timeout_ms + limits.fetch_max_wait_ms
            answer = await link.answer(link.send(fetch_request(wanted, limits), NAMED_UNTIL), timeout_ms)
        except KafkaError:
            for where in wanted:
                self._cluster.metadata.forget_leader(*where)
            raise
        raise_for(answer.error_code, f"Fetching from {self._topic}")
        return [found for found in read_fetch(answer, link.version(FETCH)) if self._is_usable(found)]

    def _is_usable(self, found: FetchedPartition) -> bool:
        """Return whether a partition was read, or its offset is out of range. Raises `KafkaError` for what a retry cannot help."""
        if found.error_code in (0, OFFSET_OUT_OF_RANGE):
            return True
        self._cluster.metadata.forget_leader(*found.where)
        error = broker_error(found.error_code, f"Fetching {found.where.topic}-{found.where.partition}")
        if not error.retriable and found.error_code != UNKNOWN_TOPIC_OR_PARTITION:
            raise error
        return False
