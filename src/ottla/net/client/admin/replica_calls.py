"""Calls of an admin client about replicas: their moves, their leaders and their log directories."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Unpack

from ottla.client import arguments
from ottla.client.admin import replicas
from ottla.client.admin.replicas import LogDir, PartitionReassignment, Replica, ReplicaDirectories, TopicPartitionReplica
from ottla.client.admin.results import CallOptions, ResultList, Results
from ottla.client.arguments import places
from ottla.client.types import Place, TopicPartition
from ottla.net.client.admin.bulk import Locate, Outcomes, on_nodes
from ottla.net.client.admin.calls import AdminCalls
from ottla.wire.errors import REPLICA_NOT_AVAILABLE
from ottla.wire.schema import Message


class ReplicaCalls(AdminCalls):
    """The methods of `AsyncAdmin` about replicas: their moves, their leaders and their log directories."""

    async def alter_partition_reassignments(
        self,
        targets: Mapping[Place, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        **options: Unpack[CallOptions],
    ) -> Results[TopicPartition, None]:
        """Move partitions, by (topic, partition), to other replicas (KIP-455).

        Replicas are node ids, the preferred leader first. None cancels a move. The move continues after the return, and
        `list_partition_reassignments` shows it until its end. `allow_replication_factor_change` False refuses another number of
        replicas (KIP-860, Kafka 4.1). Raises `UnknownTopic` and `BrokerError`, such as INVALID_REPLICA_ASSIGNMENT or
        NO_REASSIGNMENT_IN_PROGRESS.
        """
        wanted = arguments.by_place("targets", targets, replicas.checked_replicas)

        def build(some: list[TopicPartition]) -> Message:
            part = {where: wanted[where] for where in some}
            limit_ms = self._settings.request_timeout_ms
            return replicas.reassignments_request(part, limit_ms, factor_can_change=allow_replication_factor_change)

        return await self._change_items(wanted, build, replicas.read_reassigned, options)

    async def list_partition_reassignments(
        self, partitions: Iterable[tuple[str, int]] | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the partitions that are being reassigned, among the given (topic, partition) pairs or all (KIP-455)."""
        cluster, limit_ms = self._cluster, self._settings.request_timeout_ms
        request = replicas.list_reassignments_request(None if partitions is None else places(partitions), limit_ms)

        async def attempt() -> dict[TopicPartition, PartitionReassignment]:
            link = await cluster.controller()
            return replicas.read_reassignments(await link.request(request, limit_ms))

        return await cluster.retry(attempt)

    async def elect_leaders(
        self, partitions: Iterable[tuple[str, int]] | None = None, *, unclean: bool = False, **options: Unpack[CallOptions]
    ) -> ResultList[TopicPartition]:
        """Elect the preferred leaders of partitions (None: of all). Return the partitions whose leader changed (KIP-183).

        An `unclean` election is for partitions without a leader. It can make a replica leader that is not in sync, and all records
        that this replica lacks are lost (KIP-460). Raises `BrokerError`, such as PREFERRED_LEADER_NOT_AVAILABLE or
        ELIGIBLE_LEADERS_NOT_AVAILABLE.
        """
        limit_ms = self._settings.request_timeout_ms
        build: Callable[..., Message] = partial(replicas.elect_request, timeout_ms=limit_ms, unclean=unclean)
        if partitions is None:
            found = await self._change_all(build(None), replicas.read_elected, options)
        else:
            found = await self._change_items(places(partitions), build, replicas.read_elected, options)
        return ResultList((where for where, is_new in found.items() if is_new), found.errors)

    async def describe_log_dirs(
        self,
        node_ids: Iterable[int] | None = None,
        partitions: Iterable[tuple[str, int]] | None = None,
        **options: Unpack[CallOptions],
    ) -> Results[int, list[LogDir]]:
        """Return the log directories of brokers, by node id, with their replicas (KIP-113). None means all live brokers."""
        request = replicas.log_dirs_request(None if partitions is None else places(partitions))

        async def query(node_id: int, some: list[int]) -> Outcomes[int, list[LogDir]]:
            return [(node_id, replicas.read_log_dirs(await self._cluster.request(node_id, request), node_id))]

        if node_ids is None:
            return await self._each_broker(query, options)
        nodes = arguments.several("node_ids", node_ids)
        return await self._query_items(nodes, on_nodes(self._cluster, lambda node_id: node_id), query, options)

    async def describe_replica_log_dirs(
        self, wanted: Iterable[tuple[str, int, int]], **options: Unpack[CallOptions]
    ) -> Results[TopicPartitionReplica, ReplicaDirectories]:
        """Return the log directories of replicas, by (topic, partition, node id), and those to which they move (KIP-113).

        Raises `BrokerError` (REPLICA_NOT_AVAILABLE) for a broker without the replica.
        """

        async def query(node_id: int, some: list[TopicPartitionReplica]) -> Outcomes[TopicPartitionReplica, ReplicaDirectories]:
            request = replicas.log_dirs_request([TopicPartition(*replica[:2]) for replica in some])
            dirs = replicas.read_log_dirs(await self._cluster.request(node_id, request), node_id)
            return [(replica, replicas.directories_of(dirs, TopicPartition(*replica[:2]), node_id)) for replica in some]

        asked = [replicas.checked_replica(each) for each in arguments.several("wanted", wanted)]
        locate: Locate[TopicPartitionReplica] = on_nodes(self._cluster, lambda replica: replica.node_id)
        # A broker answers REPLICA_NOT_AVAILABLE, until a replica is moved to it; elsewhere this error is retriable.
        final = frozenset({REPLICA_NOT_AVAILABLE})
        return await self._query_items(asked, locate, query, options, final_codes=final)

    async def alter_replica_log_dirs(
        self, node_id: int, directories: Mapping[Place, str], **options: Unpack[CallOptions]
    ) -> Results[TopicPartitionReplica, None]:
        """Move replicas on a broker, by (topic, partition), to other log directories of that broker (KIP-113).

        The moves continue after the return: `describe_log_dirs` shows them as future replicas until they are complete. The
        directory in which a replica already is ends its move. Raises `BrokerError`, such as LOG_DIR_NOT_FOUND; the moves of
        other replicas can have begun.
        """
        node_id = arguments.whole("node_id", node_id)
        wanted = arguments.by_place("directories", directories, partial(arguments.text, "directories"))
        moved = {TopicPartitionReplica(*where, node_id): path for where, path in wanted.items()}
        return await self.alter_log_dirs_of_replicas(moved, **options)

    async def alter_log_dirs_of_replicas(
        self, directories: Mapping[Replica, str], **options: Unpack[CallOptions]
    ) -> Results[TopicPartitionReplica, None]:
        """Move replicas on several brokers, by (topic, partition, node id), as `alter_replica_log_dirs` does."""
        given = arguments.check_mapping("directories", directories).items()
        wanted = {replicas.checked_replica(each): arguments.text("directories", path) for each, path in given}

        async def query(node_id: int, some: list[TopicPartitionReplica]) -> Outcomes[TopicPartitionReplica, None]:
            request = replicas.alter_log_dirs_request({TopicPartition(*each[:2]): wanted[each] for each in some})
            read = replicas.read_altered_log_dirs(await self._cluster.request(node_id, request), node_id)
            return [(TopicPartitionReplica(*where, node_id), error) for where, error in read]

        locate: Locate[TopicPartitionReplica] = on_nodes(self._cluster, lambda replica: replica.node_id)
        return await self._query_items(wanted, locate, query, options)
