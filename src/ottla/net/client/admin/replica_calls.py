"""Calls of an admin client about replicas: their moves, their leaders and their log directories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from ottla.client import arguments
from ottla.client.admin import replicas
from ottla.client.admin.replicas import LogDir, PartitionReassignment
from ottla.client.arguments import places
from ottla.client.types import Place, TopicPartition
from ottla.net.client.admin.calls import AdminCalls
from ottla.net.client.admin.replicas import alter_log_dirs, log_dirs, reassignments


class ReplicaCalls(AdminCalls):
    """The methods of `AsyncAdmin` about replicas: their moves, their leaders and their log directories."""

    async def alter_partition_reassignments(self, targets: Mapping[Place, Sequence[int] | None]) -> None:
        """Move partitions, by (topic, partition), to other replicas (KIP-455).

        Replicas are node ids, the preferred leader first. None cancels a move. The move continues after the return, and
        `list_partition_reassignments` shows it until its end. Raises `UnknownTopic` and `BrokerError`, such as
        INVALID_REPLICA_ASSIGNMENT or NO_REASSIGNMENT_IN_PROGRESS.
        """
        wanted = arguments.by_place("targets", targets, replicas.checked_replicas)
        request = replicas.reassignments_request(wanted, self._settings.request_timeout_ms)
        await self._change(request, replicas.check_reassigned)

    async def list_partition_reassignments(
        self, partitions: Iterable[tuple[str, int]] | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the partitions that are being reassigned, among the given (topic, partition) pairs or all (KIP-455)."""
        wanted = None if partitions is None else places(partitions)
        return await reassignments(self._cluster, wanted)

    async def elect_leaders(
        self, partitions: Iterable[tuple[str, int]] | None = None, *, unclean: bool = False
    ) -> list[TopicPartition]:
        """Elect the preferred leaders of partitions (None: of all). Return the partitions whose leader changed (KIP-183).

        An `unclean` election is for partitions without a leader. It can make a replica leader that is not in sync, and all records
        that this replica lacks are lost (KIP-460). Raises `BrokerError`, such as PREFERRED_LEADER_NOT_AVAILABLE or
        ELIGIBLE_LEADERS_NOT_AVAILABLE.
        """
        wanted = None if partitions is None else places(partitions)
        request = replicas.elect_request(wanted, self._settings.request_timeout_ms, unclean=unclean)
        return await self._change(request, replicas.read_elected)

    async def describe_log_dirs(
        self, node_ids: Iterable[int] | None = None, partitions: Iterable[tuple[str, int]] | None = None
    ) -> dict[int, list[LogDir]]:
        """Return the log directories of brokers, by node id, with their replicas (KIP-113). None means all live brokers."""
        wanted = None if partitions is None else places(partitions)
        nodes = None if node_ids is None else arguments.several("node_ids", node_ids)
        return await log_dirs(self._cluster, nodes, wanted)

    async def alter_replica_log_dirs(self, node_id: int, directories: Mapping[Place, str]) -> None:
        """Move replicas on a broker, by (topic, partition), to other log directories of that broker (KIP-113).

        The moves continue after the return: `describe_log_dirs` shows them as future replicas until they are complete. The
        directory in which a replica already is ends its move. Raises `BrokerError`, such as LOG_DIR_NOT_FOUND; other replicas may
        then move.
        """
        wanted = arguments.by_place("directories", directories, partial(arguments.text, "directories"))
        await alter_log_dirs(self._cluster, arguments.whole("node_id", node_id), wanted)
