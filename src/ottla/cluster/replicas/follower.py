"""A follower's state of a partition: its leader, its high watermark, which limits reads, and the truncation of its log.

A follower's log is truncated to agree with its leader's (KIP-101, KIP-279). The module uses only epochs, offsets and ids.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.cluster.replicas.partition_state import Assigned

UNKNOWN = -1


class EpochEnd(NamedTuple):
    """A leader epoch and the offset at which it ends in a log. Either number is -1 if unknown."""

    epoch: int
    end_offset: int


class Cut(NamedTuple):
    """The offset to which a follower truncates its log.

    Unless `is_final`, the logs can still differ after that, and the follower queries the leader again.
    """

    offset: int
    is_final: bool


def cut(leaders: EpochEnd, own: EpochEnd, log_end_offset: int, high_watermark: int) -> Cut:
    """Return where to truncate the follower's log, from the leader's answer `leaders` about the follower's last epoch.

    `leaders` is the leader's largest epoch up to the follower's last one. `own` is the follower's largest epoch up to
    `leaders.epoch`. If the leader has no epochs, the log is truncated to the high watermark. An OffsetForLeaderEpoch response of
    version 0 has no epoch, and its end offset belongs to the follower's last epoch.
    """
    if leaders.end_offset == UNKNOWN:
        return Cut(high_watermark, is_final=True)
    if leaders.epoch == UNKNOWN or own.epoch == UNKNOWN:
        return Cut(min(leaders.end_offset, log_end_offset), is_final=True)
    if own.epoch != leaders.epoch:
        return Cut(min(own.end_offset, log_end_offset), is_final=False)
    return Cut(min(own.end_offset, leaders.end_offset, log_end_offset), is_final=True)


class FollowerState:
    """The state of a partition that this broker follows, over successive leader epochs.

    `topic_id` is from the controller's last request, as for the leader. Controllers before 2.8 send zeros, even for a topic that
    has an id.
    """

    __slots__ = ("adding_replicas", "leader", "leader_epoch", "partition_epoch", "removing_replicas", "replicas", "topic_id")

    def __init__(self, assigned: Assigned, topic_id: bytes) -> None:
        self.follow(assigned, topic_id)

    def follow(self, assigned: Assigned, topic_id: bytes) -> None:
        """Set the leader, the epochs and the replicas that the controller has assigned."""
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
