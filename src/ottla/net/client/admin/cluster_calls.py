"""Calls of an admin client about the cluster: its brokers, its quorum, its features, and the clients that push metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Unpack

from ottla.client import arguments
from ottla.client.admin import client_metrics, quorum
from ottla.client.admin.client_metrics import PushingClient
from ottla.client.admin.cluster import ClusterDescription, cluster_request, read_cluster
from ottla.client.admin.features import (
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    ClusterFeatures,
    check_updated,
    features_request,
    read_api_versions,
    read_features,
    update_features_request,
)
from ottla.client.admin.otlp import ClientMetric
from ottla.client.admin.quorum import QuorumDescription
from ottla.client.admin.results import CallOptions, Results
from ottla.client.admin.topics import checked_ids
from ottla.net.client.admin.bulk import Outcomes, on_nodes
from ottla.net.client.admin.calls import AdminCalls


class ClusterCalls(AdminCalls):
    """The methods of `AsyncAdmin` about the cluster: its brokers, its quorum, its features, and the clients that push metrics."""

    async def describe_cluster(self, *, authorized_operations: bool = False, include_fenced: bool = False) -> ClusterDescription:
        """Return the cluster's id, its controller and its brokers.

        With `authorized_operations`, return what this client may do (KIP-700, Kafka 2.8); with `include_fenced`, also brokers that
        are registered but not active (KIP-1073, Kafka 4.0).
        """
        if authorized_operations or include_fenced:
            request = cluster_request(operations=authorized_operations, fenced=include_fenced)
            return await self._request_any(request, read_cluster)
        await self._refresh()
        found = self._cluster.metadata
        return ClusterDescription(found.cluster_id, found.controller_id, sorted(found.nodes.values()))

    async def supports_api(self, api_key: int) -> bool:
        """Return whether a broker and this client share a version of an API. All brokers of a cluster should be of one release."""
        link = await self._cluster.retry(self._cluster.any_link)
        return link.version(arguments.whole("api_key", api_key)) >= 0

    async def describe_api_versions(
        self, node_ids: Iterable[int] | None = None, **options: Unpack[CallOptions]
    ) -> Results[int, dict[int, int]]:
        """Return the highest version of each API that brokers serve, by API key and by node id. None means all live brokers."""
        request = features_request()

        async def query(node_id: int, some: list[int]) -> Outcomes[int, dict[int, int]]:
            return [(node_id, read_api_versions(await self._cluster.request(node_id, request)))]

        if node_ids is None:
            return await self._each_broker(query, options)
        nodes = arguments.several("node_ids", node_ids)
        return await self._query_items(nodes, on_nodes(self._cluster, lambda node_id: node_id), query, options)

    async def describe_client_metrics(self) -> list[PushingClient]:
        """Return the clients that ask brokers for subscriptions to metrics (KIP-714). Raises `NotSupported` for Apache Kafka."""
        request = client_metrics.pushed_request()

        async def attempt() -> list[PushingClient]:
            answers = await self._cluster.request_each(request)
            return [client for node_id, answer in answers.items() for client in client_metrics.read_clients(answer, node_id)]

        return await self._cluster.retry(attempt)

    async def read_client_metrics(self, client: PushingClient) -> list[ClientMetric]:
        """Return the metrics that a client pushed last. Raises `KafkaError` if they are not kept or cannot be read."""
        if not isinstance(client, PushingClient):
            raise TypeError(f"client is a PushingClient of describe_client_metrics(), not {arguments.short_repr(client)}.")
        request = client_metrics.pushed_request(client.instance_id)
        return await self._request_any(request, partial(client_metrics.read_pushed, client), client.node_id)

    async def describe_quorum(self) -> QuorumDescription:
        """Return the metadata quorum of a KRaft cluster (KIP-595). Raises `NotSupported` for a cluster without one."""
        return await self._request_any(quorum.quorum_request(), quorum.read_quorum)

    async def add_raft_voter(self, node_id: int, directory_id: bytes | str, endpoints: Mapping[str, str]) -> None:
        """Add a controller to the voters of a KRaft cluster (KIP-853, Kafka 3.9).

        `directory_id` is the id of its metadata directory, and `endpoints` maps names of listeners to host:port. Raises
        `BrokerError`, such as DUPLICATE_VOTER.
        """
        where = arguments.whole("node_id", node_id), checked_ids([directory_id])[0]
        await self._refresh()
        limit_ms = self._settings.request_timeout_ms
        request = quorum.add_voter_request(self._cluster.metadata.cluster_id, *where, endpoints, limit_ms)
        await self._change(request, quorum.check_added)

    async def remove_raft_voter(self, node_id: int, directory_id: bytes | str) -> None:
        """Remove a controller from the voters of a KRaft cluster (KIP-853, Kafka 3.9). Raises `BrokerError` (VOTER_NOT_FOUND)."""
        where = arguments.whole("node_id", node_id), checked_ids([directory_id])[0]
        await self._refresh()
        request = quorum.remove_voter_request(self._cluster.metadata.cluster_id, *where)
        await self._change(request, quorum.check_removed)

    async def unregister_controller(self, node_id: int) -> None:
        """Remove a controller that was stopped permanently from the registrations of a KRaft cluster (Kafka 4.4)."""
        request = quorum.unregister_controller_request(arguments.whole("node_id", node_id))
        await self._change(request, quorum.check_unregistered)

    async def unregister_broker(self, node_id: int) -> None:
        """Remove a broker that was stopped permanently from the metadata of a KRaft cluster (KIP-631).

        Raises `BrokerError`, such as BROKER_ID_NOT_REGISTERED.
        """
        request = quorum.unregister_request(arguments.whole("node_id", node_id))
        await self._change(request, quorum.check_unregistered)

    async def describe_features(self) -> ClusterFeatures:
        """Return the features of the cluster and their levels (KIP-584)."""
        return await self._request_any(features_request(), read_features)

    async def update_features(
        self, levels: Mapping[str, int], *, downgrade: bool = False, unsafe: bool = False, validate_only: bool = False
    ) -> None:
        """Set features to levels, either all of them or none (KIP-584).

        `downgrade` permits lower levels; level 0 disables a feature. An `unsafe` downgrade can lose metadata that the lower level
        cannot express. With `validate_only`, nothing changes. Raises `BrokerError` (INVALID_UPDATE_VERSION) for a level that the
        broker refuses.
        """
        kind = UPGRADE if not downgrade else UNSAFE_DOWNGRADE if unsafe else SAFE_DOWNGRADE
        request = update_features_request(levels, kind, self._settings.request_timeout_ms, validate_only=validate_only)
        await self._change(request, check_updated)
