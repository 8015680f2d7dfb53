"""Who leads a partition and who replicates it, as Metadata and DescribeTopicPartitions tell it. Knows the image and partitions."""

from __future__ import annotations

from typing import Protocol, TypeVar

from ottla.broker.identity import BrokerIdentity
from ottla.broker.partitions.partitions import Partitions
from ottla.cluster.image import NO_LEADER, PartitionImage
from ottla.wire.errors import LEADER_NOT_AVAILABLE, NONE


class PartitionFields(Protocol):
    """The fields that both responses have for a partition."""

    error_code: int
    partition_index: int
    leader_id: int
    leader_epoch: int
    replica_nodes: list[int]
    isr_nodes: list[int]
    offline_replicas: list[int]


F = TypeVar("F", bound=PartitionFields)


class PartitionDescriber:
    """Fills in these fields. A leader whose log is offline is none."""

    def __init__(self, identity: BrokerIdentity, partitions: Partitions) -> None:
        self._node_id = identity.node_id
        self._partitions = partitions

    def describe(self, topic: str, image: PartitionImage, fields: F) -> F:
        """Fill in what is known of a partition, and return `fields`."""
        held = self._partitions.get(topic, image.index)
        is_offline = held is not None and held.offline is not None
        leader = NO_LEADER if is_offline and image.leader == self._node_id else image.leader
        fields.error_code = LEADER_NOT_AVAILABLE if leader == NO_LEADER else NONE
        fields.partition_index = image.index
        fields.leader_id = leader
        fields.leader_epoch = image.leader_epoch
        fields.replica_nodes = list(image.replicas)
        fields.isr_nodes = list(image.isr)
        fields.offline_replicas = [self._node_id] if is_offline else []
        return fields
