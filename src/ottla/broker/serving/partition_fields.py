"""Leaders and replicas of partitions for Metadata and DescribeTopicPartitions. Depends on the cluster image and on partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ottla.broker.identity import BrokerIdentity
from ottla.broker.partitions.partitions import Partitions
from ottla.cluster.image import NO_LEADER, ClusterImage, PartitionImage
from ottla.wire.api.metadata import MetadataResponse
from ottla.wire.errors import LEADER_NOT_AVAILABLE, NONE, REPLICA_NOT_AVAILABLE

P = TypeVar("P")


class PartitionDescriber:
    """The fields that both responses share. A partition whose leader's log is offline, or whose leader is dead, has no leader."""

    def __init__(self, identity: BrokerIdentity, partitions: Partitions, cluster: ClusterImage) -> None:
        self._node_id = identity.node_id
        self._partitions = partitions
        self._brokers = cluster.brokers
        self._elsewhere = cluster.offline_replicas

    def describe(self, topic: str, image: PartitionImage, make: Callable[..., P]) -> P:
        """Return `make` called with the fields of a partition that both responses have."""
        held = self._partitions.get(topic, image.index)
        is_offline = held is not None and held.offline is not None
        leader = image.leader
        if is_offline if leader == self._node_id else leader not in self._brokers:
            leader = NO_LEADER
        epoch = image.leader_epoch
        if held is not None and held.leader_epoch > epoch and image.replicas == (self._node_id,):
            epoch = held.leader_epoch  # a log without other replicas continues in its newest epoch
        offline = [self._node_id] if is_offline else []
        if self._elsewhere:
            offline = sorted({*offline, *self._elsewhere.get((topic, image.index), ())})
        return make(
            error_code=LEADER_NOT_AVAILABLE if leader == NO_LEADER else NONE,
            partition_index=image.index,
            leader_id=leader,
            leader_epoch=epoch,
            replica_nodes=list(image.replicas),
            isr_nodes=list(image.isr),
            offline_replicas=offline,
        )

    def only_living(self, described: MetadataResponse.MetadataResponsePartition) -> None:
        """Remove replicas of dead brokers and set an error, for version 0, whose clients need every replica's address."""
        living = [node for node in described.replica_nodes if node == self._node_id or node in self._brokers]
        if len(living) < len(described.replica_nodes):
            described.error_code = described.error_code or REPLICA_NOT_AVAILABLE
            described.isr_nodes = [node for node in described.isr_nodes if node in living]
            described.replica_nodes = living
