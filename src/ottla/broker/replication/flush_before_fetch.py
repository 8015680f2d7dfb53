"""Where flush.messages wants it, copies are on stable storage before the next fetch tells the leader that they are there.

So a leader counts them only then: with flush.messages=1 a record that is acknowledged with acks=all is on the disks of all that
are in sync. One wait serves all partitions of a fetch. Knows followed partitions, and nothing of fetches.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from ottla.broker.replication.fetched_partition import Followed
from ottla.ports import Done, Steps


class Flushed:
    """What one fetcher waits for."""

    def __init__(self) -> None:
        self._owing: dict[Followed, None] = {}
        self._waiting: Done | None = None

    def steps(self, named: Iterable[Followed]) -> Steps[None]:
        """Wait for the syncs that these partitions owe."""
        while owing := [followed for followed in named if followed.replica.owes_sync and followed.is_current]:
            self._owing = dict.fromkeys(owing)
            for followed in owing:
                replica = followed.replica
                replica.when_synced(replica.log.log_end_offset, partial(self._is_over, followed))
            if self._owing:
                yield self._wait

    def forget(self, followed: Followed) -> None:
        """It is not copied any more: its log may be cut before it is synced."""
        self._is_over(followed, 0)

    def _wait(self, done: Done) -> None:
        self._waiting = done

    def _is_over(self, followed: Followed, error_code: int) -> None:
        if followed not in self._owing:
            return
        del self._owing[followed]
        if not self._owing and self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            waiting(None)
