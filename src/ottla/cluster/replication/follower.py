"""A follower of a partition: whom it follows, and what it may show of what it has. Knows offsets and ids."""

from __future__ import annotations

from ottla.cluster.replication.assigned import Assigned


class FollowerState:
    """One leader epoch after another of a partition that this broker follows.

    `topic_id` is what the controller told last with them: none before 2.8, also of a topic that has one. The leader was told the
    same, and may know no other.
    """

    __slots__ = ("adding_replicas", "leader", "leader_epoch", "partition_epoch", "removing_replicas", "replicas", "topic_id")

    def __init__(self, assigned: Assigned, topic_id: bytes) -> None:
        self.follow(assigned, topic_id)

    def follow(self, assigned: Assigned, topic_id: bytes) -> None:
        """Take in what the controller decided."""
        self.topic_id = topic_id
        self.leader = assigned.leader
        self.leader_epoch = assigned.leader_epoch
        self.partition_epoch = assigned.partition_epoch
        self.replicas = assigned.replicas
        self.adding_replicas = assigned.adding_replicas
        self.removing_replicas = assigned.removing_replicas

    @staticmethod
    def high_watermark(told: int, known: int, log_start_offset: int, log_end_offset: int) -> int:
        """Where readers of this replica stop, when the leader's high watermark is `told`.

        It never falls but with the log's end, which a leader's must reach first.
        """
        return min(max(told, known, log_start_offset), log_end_offset)
