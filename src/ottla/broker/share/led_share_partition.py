"""One share partition that this broker leads: the machine of its records, the partition with its log, and the waiting sessions."""

from __future__ import annotations

from ottla.broker.partitions.partition import Partition
from ottla.share.cells import ACQUIRED
from ottla.share.partition import SharePartition
from ottla.share.sessions import SharedPlace, ShareSession

LedKey = tuple[str, bytes, int]
"""(group id, topic id, partition)"""


class LedSharePartition:
    """A share partition of a group at the leader of its partition.

    `watchers` are the sessions that fetch it. `writes` counts writes of its state that the share coordinator has not answered.
    `lock_timer_ms` is the deadline of its timer of acquisition locks. `failure` is the error of a load that failed.
    `releasing` are the members of ended sessions whose records are being released, and whether they asked for records meanwhile.
    """

    __slots__ = ("failure", "is_dropped", "key", "lock_timer_ms", "machine", "partition", "releasing", "watchers", "writes")

    def __init__(self, key: LedKey, partition: Partition, machine: SharePartition) -> None:
        self.key = key
        self.partition = partition
        self.machine = machine
        self.watchers: dict[SharedPlace, ShareSession] = {}
        self.writes = 0
        self.releasing: dict[str, bool] = {}
        self.lock_timer_ms: int | None = None
        self.failure: tuple[int, str | None] | None = None
        self.is_dropped = False

    def __str__(self) -> str:
        return f"{self.key[0]}:{self.partition}"

    @property
    def is_unused(self) -> bool:
        """Return whether no session fetches the share partition, no record is acquired, and no write is in flight."""
        if self.watchers or self.writes:
            return False
        return not any(cell.state == ACQUIRED for _, _, cell in self.machine.runs())
