"""Replicas that have moved to other brokers, found by comparison with the metadata.

A controller may fail after it recorded the end of a reassignment, and before it notified the former replica's broker; later
controllers do not notify that broker. A topic without an id is skipped, because it can be a
recreated topic of the same name, whose epochs begin anew.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.partitions.partitions import Partitions
from ottla.broker.replication.controller_messages import NO_EPOCH
from ottla.broker.replication.replica import Replica
from ottla.cluster.image import NO_TOPIC_ID, ClusterImage, PartitionImage
from ottla.cluster.metadata import ReplicaRole, ReplicaStop, TopicUpdate
from ottla.cluster.metadata_updates import TAKEN_AT_ONCE, has_left
from ottla.ports import Steps


class MovedReplicas:
    """Finds the replicas of one broker that have moved. It neither stops nor deletes them."""

    def __init__(self, node_id: int, partitions: Partitions, image: ClusterImage) -> None:
        self._node_id = node_id
        self._partitions = partitions
        self._image = image

    def find_moved(self, told: Iterable[TopicUpdate]) -> Steps[list[ReplicaStop]]:
        """Return the replicas with a role here that have moved, by the metadata of these topics."""
        found: list[ReplicaStop] = []
        for topic in told:
            for number, one in enumerate(topic.partitions, 1):
                if self._is_left(topic, one.image):
                    found.append(ReplicaStop(topic.name, one.image.index, NO_EPOCH, is_deleted=True))
                if number % TAKEN_AT_ONCE == 0:
                    yield None
        return found

    def _is_left(self, topic: TopicUpdate, told: PartitionImage) -> bool:
        replica = self._partitions.get(topic.name, told.index)
        if not isinstance(replica, Replica) or not replica.has_role or replica.offline is not None:
            return False
        is_the_same = topic.topic_id == replica.topic_id != NO_TOPIC_ID
        return is_the_same and has_left(self._node_id, replica.leader_epoch, told)

    def is_outdated(self, role: ReplicaRole) -> bool:
        """Return whether a role is outdated, because the metadata shows that the replica has moved to other brokers."""
        topic = self._image.topics.get(role.topic)
        if topic is None or topic.topic_id != role.topic_id or role.topic_id == NO_TOPIC_ID or role.index >= len(topic.partitions):
            return False
        return has_left(self._node_id, role.assigned.leader_epoch, topic.partitions[role.index])
