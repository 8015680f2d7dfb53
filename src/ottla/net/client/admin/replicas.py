"""Requests about replicas and their reassignment. The module decides which broker gets a request, and what is retried."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.client.admin import replicas as asked
from ottla.client.admin.replicas import LogDir, PartitionReassignment
from ottla.client.types import TopicPartition
from ottla.net.client.cluster import ClusterLinks


async def reassignments(
    cluster: ClusterLinks, partitions: Iterable[TopicPartition] | None
) -> dict[TopicPartition, PartitionReassignment]:
    """Return the reassignments of these partitions, or of all if None, from the controller."""
    wanted = None if partitions is None else list(partitions)
    request = asked.list_reassignments_request(wanted, cluster.settings.request_timeout_ms)

    async def attempt() -> dict[TopicPartition, PartitionReassignment]:
        link = await cluster.controller()
        return asked.read_reassignments(await link.request(request, cluster.settings.request_timeout_ms))

    return await cluster.retry(attempt)


async def log_dirs(
    cluster: ClusterLinks, node_ids: Iterable[int] | None, partitions: Iterable[TopicPartition] | None
) -> dict[int, list[LogDir]]:
    """Return the log directories of brokers (None: all live ones), with the replicas of these partitions (None: of all)."""
    request = asked.log_dirs_request(None if partitions is None else list(partitions))
    asked_for = None if node_ids is None else list(node_ids)

    async def attempt() -> dict[int, list[LogDir]]:
        answers = await cluster.request_each(request, asked_for)
        return {node_id: asked.read_log_dirs(answer, node_id) for node_id, answer in answers.items()}

    return await cluster.retry(attempt)


async def alter_log_dirs(cluster: ClusterLinks, node_id: int, directories: Mapping[TopicPartition, str]) -> None:
    """Begin to move replicas on a broker to other log directories. Raises `BrokerError`, also if only some moves have begun."""
    request = asked.alter_log_dirs_request(directories)

    async def attempt() -> None:
        answers = await cluster.request_each(request, [node_id])
        asked.read_altered_log_dirs(answers[node_id], node_id)

    await cluster.retry(attempt)
