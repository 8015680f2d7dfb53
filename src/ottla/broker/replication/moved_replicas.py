"""Replicas that have moved to other brokers: found by what all brokers are told, for who held one may hear nothing else of it.

A controller may end after it has noted that a move is over, and before it has told so to who held the replica; those after it do
not know of that one. Without an id a topic may be another one of the same name, with epochs of its own: nothing is said of those.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.broker.partitions.partitions import Partitions
from ottla.broker.replication.controller_words import NO_EPOCH, RoleTold, StopTold
from ottla.broker.replication.replica import Replica
from ottla.cluster.image import NO_TOPIC_ID, ClusterImage, PartitionImage
from ottla.cluster.metadata_updates import TAKEN_AT_ONCE, ToldTopic, has_left
from ottla.ports import Steps


class MovedReplicas:
    """Those of one broker. Nothing here is stopped or deleted: it says what is to be."""

    def __init__(self, node_id: int, partitions: Partitions, image: ClusterImage) -> None:
        self._node_id = node_id
        self._partitions = partitions
        self._image = image

    def left(self, told: Iterable[ToldTopic]) -> Steps[list[StopTold]]:
        """What has a role here, and has moved by what is told of these topics."""
        found: list[StopTold] = []
        for topic in told:
            for number, one in enumerate(topic.partitions, 1):
                if self._is_left(topic, one.image):
                    found.append(StopTold(topic.name, one.image.index, NO_EPOCH, is_deleted=True))
                if number % TAKEN_AT_ONCE == 0:
                    yield None
        return found

    def _is_left(self, topic: ToldTopic, told: PartitionImage) -> bool:
        replica = self._partitions.get(topic.name, told.index)
        if not isinstance(replica, Replica) or not replica.has_role or replica.offline is not None:
            return False
        is_the_same = topic.topic_id == replica.topic_id != NO_TOPIC_ID
        return is_the_same and has_left(self._node_id, replica.leader_epoch, told)

    def knows_better(self, role: RoleTold) -> bool:
        """Whether a role comes late, on a connection that was given up: the replica has moved meanwhile."""
        topic = self._image.topics.get(role.topic)
        if topic is None or topic.topic_id != role.topic_id or role.topic_id == NO_TOPIC_ID or role.index >= len(topic.partitions):
            return False
        return has_left(self._node_id, role.assigned.leader_epoch, topic.partitions[role.index])
