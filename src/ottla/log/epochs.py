"""The leader epochs of a log and their start offsets (KIP-101), in the format of Kafka's checkpoint."""

from __future__ import annotations

from bisect import bisect_right

from ottla.log.checkpoints import format_checkpoint, parse_checkpoint

NO_EPOCH = -1


class LeaderEpochs:
    """The leader epochs of a log: (leader_epoch, start_offset) pairs, both increasing."""

    __slots__ = ("entries",)

    def __init__(self, entries: list[tuple[int, int]] | None = None) -> None:
        self.entries = entries if entries is not None else []

    @property
    def latest(self) -> int:
        return self.entries[-1][0] if self.entries else NO_EPOCH

    def assign(self, leader_epoch: int, start_offset: int) -> bool:
        """Record that `leader_epoch` begins at `start_offset`; return False if the epoch is not newer than the latest."""
        if leader_epoch <= self.latest:
            return False
        while self.entries and self.entries[-1][1] >= start_offset:
            self.entries.pop()
        self.entries.append((leader_epoch, start_offset))
        return True

    def end_offset(self, leader_epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return (epoch, end offset) of the largest epoch not above `leader_epoch`; (-1, -1) if unknown (OffsetForLeaderEpoch)."""
        if leader_epoch == NO_EPOCH:
            return NO_EPOCH, -1
        if leader_epoch == self.latest:
            return leader_epoch, log_end_offset
        at = bisect_right(self.entries, leader_epoch, key=lambda entry: entry[0])
        if at == len(self.entries):
            return NO_EPOCH, -1
        return (self.entries[at - 1][0] if at else leader_epoch), self.entries[at][1]

    def at(self, offset: int, unknown: int) -> int:
        """Return the epoch of the batch at `offset`; `unknown` before the first epoch."""
        number = bisect_right(self.entries, offset, key=lambda entry: entry[1])
        return self.entries[number - 1][0] if number else unknown

    def truncate_end(self, offset: int) -> bool:
        """Remove the epochs that begin at or after `offset`; return True if there were any."""
        before = len(self.entries)
        while self.entries and self.entries[-1][1] >= offset:
            self.entries.pop()
        return len(self.entries) != before

    def truncate_start(self, offset: int) -> bool:
        """Remove the epochs that end at or before `offset`; the epoch that spans `offset` now begins there.

        Return True if something changed.
        """
        at = bisect_right(self.entries, offset, key=lambda entry: entry[1])
        if not at or self.entries[at - 1][1] == offset == self.entries[0][1]:
            return False
        self.entries[:at] = [(self.entries[at - 1][0], offset)]
        return True

    def encode(self) -> bytes:
        return format_checkpoint([f"{epoch} {offset}" for epoch, offset in self.entries])

    @classmethod
    def decode(cls, data: bytes) -> LeaderEpochs | None:
        """Parse a checkpoint. Return None if the data is invalid, so that the caller rebuilds the epochs from the batches."""
        lines = parse_checkpoint(data)
        if lines is None or not all(len(line) == 2 for line in lines):
            return None
        return cls([(int(epoch), int(offset)) for epoch, offset in lines])
