"""One partition that a fetcher copies from its leader: the state beyond that of its log. Depends on no request in flight."""

from __future__ import annotations

from ottla.broker.replication.replica import Replica
from ottla.wire.api.fetch import FetchRequest

NEVER_ASKED = NO_EPOCH = -1


class FetchedReplica:
    """A replica that copies from its leader in one leader epoch. A later epoch has its own object.

    `asked_offset` is the log's end at the last fetch, and only a response from there is used. With `is_truncating`, the leader is
    first asked where to truncate. `lag` counts the records up to the leader's high watermark, or is None before a response.
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
        """Return whether the replica still follows in this leader epoch."""
        return self.replica.is_following and self.replica.leader_epoch == self.leader_epoch

    def fetch_request(self, max_bytes: int, *, by_epoch: bool) -> FetchRequest.FetchPartition:
        """Return this partition's part of the next fetch, and set `asked_offset`. `by_epoch` requests the diverging epoch."""
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
