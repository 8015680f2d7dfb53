"""A simulated disk on a machine whose power fails, or whose process is killed, before any operation."""

from __future__ import annotations

from random import Random

from ottla.ports import StorageFailed
from ottla.sim.disk import SimDisk


class PowerCut(BaseException):
    """Nothing may catch it: the machine is off."""


class CutDisk(SimDisk):
    """A simulated disk whose power fails before a chosen operation and stays off until `crash`."""

    cut_at = -1
    is_off = False

    def may(self, operation: str, path: str, size: int = 0) -> None:
        if self.is_off or self.operations == self.cut_at:
            self.is_off = True
            raise PowerCut(f"before {operation} of {path}")
        super().may(operation, path, size)

    def cut_soon(self, most: int, random: Random) -> None:
        """Let the power fail before one of the next `most` operations."""
        self.cut_at = self.operations + random.randrange(1, most)

    def crash(self, random: Random) -> None:
        self.cut_at, self.is_off = -1, False
        super().crash(random)


class FaultyDisk(CutDisk):
    """One that counts in `faults` the ordered failures that have happened, and where a kill is as good as a power cut."""

    faults = 0

    def may(self, operation: str, path: str, size: int = 0) -> None:
        try:
            super().may(operation, path, size)
        except StorageFailed:
            self.faults += 1
            raise

    def kill(self) -> None:
        self.cut_at, self.is_off = -1, False
        super().kill()
