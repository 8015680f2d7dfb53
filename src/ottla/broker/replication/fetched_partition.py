"""One partition that a fetcher copies from its leader: where it stands, beyond what its log says. Knows no request under way."""

from __future__ import annotations

from ottla.broker.replication.replica import Replica
from ottla.wire.api.fetch import FetchRequest

NEVER_ASKED = NO_EPOCH = -1


class Followed:
    """A replica in one leader epoch: a later one is followed anew.

    `topic_id` is what its leader was told, or none. `asked_offset` is from where the last fetch of it began: an answer counts only
    if the log still ends there. `is_truncating`: the leader is asked first where the log has to be cut. `lag` is how many records
    the leader showed readers beyond its end, None before the first answer.
    """

    __slots__ = ("asked_offset", "is_truncating", "lag", "leader_epoch", "replica", "rests_until_ms", "topic_id")

    def __init__(self, replica: Replica, topic_id: bytes, *, is_truncating: bool) -> None:
        self.replica = replica
        self.topic_id = topic_id
        self.leader_epoch = replica.leader_epoch
        self.is_truncating = is_truncating
        self.asked_offset = NEVER_ASKED
        self.lag: int | None = None
        self.rests_until_ms = 0

    def __str__(self) -> str:
        return str(self.replica)

    @property
    def is_current(self) -> bool:
        """Whether it is still to be copied, in this leader epoch."""
        return self.replica.is_following and self.replica.leader_epoch == self.leader_epoch

    def asked(self, max_bytes: int, *, by_epoch: bool) -> FetchRequest.FetchPartition:
        """What the next fetch asks of it; `by_epoch`: the leader is to say where the log differs from its own."""
        log = self.replica.log
        self.asked_offset = log.log_end_offset
        return FetchRequest.FetchPartition(
            partition=self.replica.index,
            current_leader_epoch=self.leader_epoch,
            fetch_offset=log.log_end_offset,
            last_fetched_epoch=log.leader_epoch if by_epoch else NO_EPOCH,
            log_start_offset=log.log_start_offset,
            partition_max_bytes=max_bytes,
        )
