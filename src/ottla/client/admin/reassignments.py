"""Moves of replicas to other brokers: the settings that limit their network traffic (KIP-73), and their progress.

The progress is bytes copied, bytes to come, rate and time left. The module sends nothing; sizes and times are arguments.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ottla.client.admin.replicas import LogDir, PartitionReassignment
from ottla.client.types import TopicPartition

WINDOW_MS: Final = 30_000
"""The period, in ms, over which the copy rate is averaged."""

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
RATES: Final = (LEADER_RATE, FOLLOWER_RATE)
REPLICAS: Final = (LEADER_REPLICAS, FOLLOWER_REPLICAS)

Placed = Mapping[TopicPartition, Sequence[int]]


def throttled_replicas(before: Placed, after: Placed) -> dict[str, dict[str, str]]:
    """Return topic settings, by topic, that throttle a move: leaders on the old replicas, and followers on the new ones."""
    read: dict[str, list[str]] = {}
    written: dict[str, list[str]] = {}
    for where, replicas in sorted(after.items()):
        old = before[where]
        new = [node for node in replicas if node not in old]
        if new:
            read.setdefault(where.topic, []).extend(f"{where.partition}:{node}" for node in old)
            written.setdefault(where.topic, []).extend(f"{where.partition}:{node}" for node in new)
    return {topic: {LEADER_REPLICAS: ",".join(some), FOLLOWER_REPLICAS: ",".join(written[topic])} for topic, some in read.items()}


def throttled_brokers(before: Placed, after: Placed) -> list[int]:
    """Return the brokers that send or receive replicas in a move, sorted."""
    moving = [where for where, replicas in after.items() if set(replicas) - set(before[where])]
    return sorted({node for where in moving for node in (*before[where], *after[where])})


class HowFar(NamedTuple):
    """The progress of a move: `bytes_copied` of `bytes_in_all`. Until a replica has grown, the rate is 0 and `left_ms` is None."""

    partitions: int
    partitions_moved: int
    bytes_copied: int
    bytes_in_all: int
    bytes_per_second: int
    left_ms: int | None


class MoveProgress:
    """The measurement of how far some partitions have been moved. Other partitions that are being moved do not count."""

    def __init__(self, partitions: Sequence[TopicPartition]) -> None:
        self._partitions = list(partitions)
        self._sizes: dict[TopicPartition, tuple[int, int]] = {}
        """(bytes copied, bytes in all) of each partition, at the last update."""
        self._seen: deque[tuple[int, int]] = deque()

    def update(
        self,
        moving: Mapping[TopicPartition, PartitionReassignment],
        log_dirs: Mapping[int, Sequence[LogDir]],
        now_ms: int,
    ) -> HowFar:
        """Return the progress of the move at the monotonic time `now_ms`.

        `moving` are the unfinished reassignments, and `log_dirs` contain the replicas with their sizes.
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
