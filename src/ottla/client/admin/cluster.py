"""What an admin client reports about a cluster. The module sends nothing."""

from __future__ import annotations

from typing import NamedTuple

from ottla.client.admin.acls import operation_words
from ottla.client.errors import raise_for
from ottla.client.types import Node
from ottla.wire.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse


class ClusterDescription(NamedTuple):
    """The brokers of a cluster. `controller_id` is the id that brokers report as the controller's, or -1 while they report none.

    If they were requested, `authorized_operations` are the words of what this client may do with the cluster, and `fenced` are the
    ids of nodes that are registered but not active.
    """

    cluster_id: str | None
    controller_id: int
    nodes: list[Node]
    authorized_operations: frozenset[str] | None = None
    fenced: frozenset[int] = frozenset()


def cluster_request(*, operations: bool, fenced: bool) -> DescribeClusterRequest:
    """Build the request for a cluster with permitted operations (KIP-700, Kafka 2.8) or fenced brokers (KIP-1073, Kafka 4.0)."""
    return DescribeClusterRequest(include_cluster_authorized_operations=operations, include_fenced_brokers=fenced)


def read_cluster(answer: DescribeClusterResponse) -> ClusterDescription:
    """Return the cluster. Raises `BrokerError`."""
    raise_for(answer.error_code, "Describing the cluster", answer.error_message)
    nodes = sorted(Node(each.broker_id, each.host, each.port, each.rack) for each in answer.brokers)
    allowed = operation_words(answer.cluster_authorized_operations)
    fenced = frozenset(each.broker_id for each in answer.brokers if each.is_fenced)
    return ClusterDescription(answer.cluster_id, answer.controller_id, nodes, allowed, fenced)
