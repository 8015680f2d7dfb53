"""The progress of moving replicas: bytes copied, bytes to come, rate and time left. Sizes and times are arguments."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ottla.client.admin.replicas import LogDir, PartitionReassignment
from ottla.client.types import TopicPartition

WINDOW_MS: Final = 30_000
"""The period, in ms, over which the copy rate is averaged."""


class HowFar(NamedTuple):
    """Progress: `bytes_copied` of `bytes_in_all`. Until a replica has grown, the rate is 0, and `left_ms` None."""

    partitions: int
    partitions_moved: int
    bytes_copied: int
    bytes_in_all: int
    bytes_per_second: int
    left_ms: int | None


class MoveProgress:
    """The progress of moving some partitions. Other partitions that are being moved do not count."""

    def __init__(self, partitions: Sequence[TopicPartition]) -> None:
        self._partitions = list(partitions)
        self._sizes: dict[TopicPartition, tuple[int, int]] = {}
        """(bytes copied, bytes in all) of each partition, at the last update."""
        self._seen: deque[tuple[int, int]] = deque()

    def look(
        self,
        moving: Mapping[TopicPartition, PartitionReassignment],
        log_dirs: Mapping[int, Sequence[LogDir]],
        now_ms: int,
    ) -> HowFar:
        """Return the progress at the monotonic time `now_ms`.

        `moving` are the unfinished reassignments, and `log_dirs` contain the replicas.
        """
        held = _sizes(log_dirs)
        for where, move in moving.items():
            whole = max((held.get((where, node), 0) for node in move.replicas if node not in move.adding), default=0)
            there = sum(min(held.get((where, node), 0), whole) for node in move.adding)
            self._sizes[where] = there, whole * len(move.adding)
        for where in self._partitions:
            if where not in moving:
                in_all = self._sizes.get(where, (0, 0))[1]
                self._sizes[where] = in_all, in_all
        copied = sum(there for there, _ in self._sizes.values())
        in_all = sum(whole for _, whole in self._sizes.values())
        rate = self._rate(copied, now_ms)
        left_ms = (in_all - copied) * 1000 // rate if rate else None
        moved = sum(where not in moving for where in self._partitions)
        return HowFar(len(self._partitions), moved, copied, in_all, rate, left_ms)

    def _rate(self, copied: int, now_ms: int) -> int:
        self._seen.append((now_ms, copied))
        while self._seen[0][0] < now_ms - WINDOW_MS:
            self._seen.popleft()
        first_ms, first = self._seen[0]
        return max(copied - first, 0) * 1000 // (now_ms - first_ms) if now_ms > first_ms else 0


def _sizes(log_dirs: Mapping[int, Sequence[LogDir]]) -> dict[tuple[TopicPartition, int], int]:
    return {
        (where, node_id): replica.size_bytes
        for node_id, directories in log_dirs.items()
        for directory in directories
        for where, replica in directory.replicas.items()
        if not replica.is_future
    }
