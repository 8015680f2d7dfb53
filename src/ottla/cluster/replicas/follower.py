"""A follower's state of a partition: its leader, and its high watermark, which limits reads. It uses only offsets and ids."""

from __future__ import annotations

from ottla.cluster.replicas.partition_state import Assigned


class FollowerState:
    """The state of a partition that this broker follows, over successive leader epochs.

    `topic_id` is from the controller's last request, as for the leader. Controllers before 2.8 send zeros, even for a topic that
    has an id.
    """

    __slots__ = ("adding_replicas", "leader", "leader_epoch", "partition_epoch", "removing_replicas", "replicas", "topic_id")

    def __init__(self, assigned: Assigned, topic_id: bytes) -> None:
        self.follow(assigned, topic_id)

    def follow(self, assigned: Assigned, topic_id: bytes) -> None:
        """Set the state from the controller's decision."""
        self.topic_id = topic_id
        self.leader = assigned.leader
        self.leader_epoch = assigned.leader_epoch
        self.partition_epoch = assigned.partition_epoch
        self.replicas = assigned.replicas
        self.adding_replicas = assigned.adding_replicas
        self.removing_replicas = assigned.removing_replicas

    @staticmethod
    def high_watermark(told: int, known: int, log_start_offset: int, log_end_offset: int) -> int:
        """Return the high watermark of this replica, from the leader's high watermark `told` and the present one, `known`.

        It is limited to the log, and never decreases unless the log is truncated.
        """
        return min(max(told, known, log_start_offset), log_end_offset)
