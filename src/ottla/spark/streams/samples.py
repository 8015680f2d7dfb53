"""Samples of the record sizes in topics: fetch the first batches of each partition, and read their headers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ottla.client.connection.versions import FETCH
from ottla.client.consumer.fetch_requests import (
    NAMED_UNTIL,
    FetchedPartition,
    FetchLimits,
    FetchPosition,
    fetch_request,
    read_fetch,
)
from ottla.client.settings.clients import ConsumerSettings
from ottla.client.types import TopicPartition
from ottla.net.client.cluster import ClusterLinks
from ottla.records.batches.header import batches


async def record_bytes(
    cluster: ClusterLinks, settings: ConsumerSettings, begin: Mapping[TopicPartition, int], bytes_each: int
) -> dict[TopicPartition, float]:
    """Return the stored bytes per offset in each partition, from a sample of `bytes_each` bytes after `begin`.

    A partition without records in its sample is left out. Raises `KafkaError`.
    """
    limits = FetchLimits(bytes_each * len(begin), bytes_each, fetch_max_wait_ms=0, read_committed=settings.read_committed)
    grouped, _ = cluster.metadata.by_leader(begin)

    async def ask(node_id: int, group: list[TopicPartition]) -> list[FetchedPartition]:
        positions = {where: FetchPosition(begin[where], cluster.metadata.leader_epoch(*where)) for where in group}
        link = await cluster.link(node_id)
        answer = await link.request(fetch_request(positions, limits), settings.request_timeout_ms, NAMED_UNTIL)
        return list(read_fetch(answer, link.version(FETCH)))

    answers = await asyncio.gather(*(ask(node_id, group) for node_id, group in grouped.items()))
    found = ((part.where, _mean(part)) for parts in answers for part in parts)
    return {where: mean for where, mean in found if mean is not None}


def _mean(part: FetchedPartition) -> float | None:
    headers = [header for _, header in batches(part.records)]
    if not headers:
        return None
    offsets = headers[-1].base_offset + headers[-1].last_offset_delta + 1 - headers[0].base_offset
    return sum(header.size for header in headers) / offsets
