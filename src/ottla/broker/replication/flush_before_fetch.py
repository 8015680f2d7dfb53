"""Syncs before fetches: with flush.messages, copied records are on stable storage before the next fetch confirms them.

The leader therefore counts copied records only once they are on stable storage. With flush.messages=1, a record acknowledged with
acks=all is on the disks of all in-sync replicas. One wait serves all partitions of a fetch. Depends on followed partitions, and
not on fetches.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from ottla.broker.replication.fetched_replica import FetchedReplica
from ottla.ports import Done, Steps


class FlushWaits:
    """The syncs of copied records that one fetcher waits for."""

    def __init__(self) -> None:
        self._owing: dict[FetchedReplica, None] = {}
        self._waiting: Done | None = None

    def steps(self, named: Iterable[FetchedReplica]) -> Steps[None]:
        """Wait until the records of these partitions that must be flushed are synced."""
        while owing := [followed for followed in named if followed.replica.owes_sync and followed.is_current]:
            self._owing = dict.fromkeys(owing)
            for followed in owing:
                replica = followed.replica
                replica.when_synced(replica.log.log_end_offset, partial(self._is_over, followed))
            if self._owing:
                yield self._wait

    def remove(self, followed: FetchedReplica) -> None:
        """End the wait for a partition that is no longer copied, because its log can be truncated before the sync."""
        self._is_over(followed, 0)

    def _wait(self, done: Done) -> None:
        self._waiting = done

    def _is_over(self, followed: FetchedReplica, error_code: int) -> None:
        if followed not in self._owing:
            return
        del self._owing[followed]
        if not self._owing and self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            waiting(None)
