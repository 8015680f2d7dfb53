"""Requests about replicas and their reassignment. The module decides which broker gets a request, and what is retried."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from ottla.client.admin import replicas as asked
from ottla.client.admin.replicas import LogDir, PartitionReassignment
from ottla.client.connection.versions import DESCRIBE_LOG_DIRS, LIST_PARTITION_REASSIGNMENTS
from ottla.client.types import TopicPartition
from ottla.net.client.cluster import ClusterLinks


async def reassignments(
    cluster: ClusterLinks, partitions: Iterable[TopicPartition] | None
) -> dict[TopicPartition, PartitionReassignment]:
    """Return the reassignments of these partitions, or of all if None, from the controller."""
    wanted = None if partitions is None else list(partitions)
    request = asked.list_reassignments_request(wanted, cluster.settings.request_timeout_ms)

    async def ask() -> dict[TopicPartition, PartitionReassignment]:
        await cluster.refresh([])
        node_id = cluster.metadata.controller_id
        if node_id < 0:
            return asked.read_reassignments(await cluster.ask_any(LIST_PARTITION_REASSIGNMENTS, request))
        return asked.read_reassignments(await cluster.ask(node_id, LIST_PARTITION_REASSIGNMENTS, request))

    return await cluster.retried(ask)


async def log_dirs(
    cluster: ClusterLinks, node_ids: Iterable[int] | None, partitions: Iterable[TopicPartition] | None
) -> dict[int, list[LogDir]]:
    """Return the log directories of brokers (None: all live ones), with the replicas of these partitions (None: of all)."""
    request = asked.log_dirs_request(None if partitions is None else list(partitions))
    asked_for = None if node_ids is None else list(node_ids)

    async def ask() -> dict[int, list[LogDir]]:
        await cluster.refresh([])
        nodes = sorted(cluster.metadata.nodes) if asked_for is None else asked_for
        answers = await asyncio.gather(*(cluster.ask(node_id, DESCRIBE_LOG_DIRS, request) for node_id in nodes))
        return {node_id: asked.read_log_dirs(answer, node_id) for node_id, answer in zip(nodes, answers, strict=True)}

    return await cluster.retried(ask)
