"""DescribeCluster (API key 60): brokers, controller and id of the cluster.

KIP-700. Version 1 can request controllers (KIP-919), 2 also fenced brokers (KIP-1073).
"""

from __future__ import annotations

from ottla.wire.schema import Message, Struct, i8, i16, i32, since


class DescribeClusterRequest(Message, key=60, valid="0-2", flexible="0+"):
    """A request for the nodes of a cluster: its brokers, or with another endpoint type its controllers."""

    include_cluster_authorized_operations: bool = since()
    endpoint_type: i8 = since("1+", default=1)
    include_fenced_brokers: bool = since("2+")


class DescribeClusterResponse(Message, key=60, valid="0-2", flexible="0+"):
    """The nodes of the cluster, and the operations on the cluster that the client is allowed."""

    class DescribeClusterBroker(Struct):
        broker_id: i32 = since()
        host: str = since()
        port: i32 = since()
        rack: str | None = since(default=None)
        is_fenced: bool = since("2+")

    throttle_time_ms: i32 = since()
    error_code: i16 = since()
    error_message: str | None = since(default=None)
    endpoint_type: i8 = since("1+", default=1)
    cluster_id: str = since()
    controller_id: i32 = since(default=-1)
    brokers: list[DescribeClusterResponse.DescribeClusterBroker] = since()
    cluster_authorized_operations: i32 = since(default=-(1 << 31))
