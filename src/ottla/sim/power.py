"""Simulated disks of a machine that loses power, or whose process is killed, before any disk operation."""

from __future__ import annotations

from random import Random

from ottla.ports import StorageFailed
from ottla.sim.disk import SimDisk


class PowerCut(BaseException):
    """The machine lost power. Only the simulation may catch this exception."""


class CutDisk(SimDisk):
    """A simulated disk that loses power before a chosen operation, and stays off until `crash`."""

    cut_at = -1
    is_off = False

    def may(self, operation: str, path: str, size: int = 0) -> None:
        if self.is_off or self.operations == self.cut_at:
            self.is_off = True
            raise PowerCut(f"before {operation} of {path}")
        super().may(operation, path, size)

    def cut_soon(self, most: int, random: Random) -> None:
        """Order a power cut before a randomly chosen one of the next `most` operations."""
        self.cut_at = self.operations + random.randrange(1, most)

    def crash(self, random: Random) -> None:
        self.cut_at, self.is_off = -1, False
        super().crash(random)


class FaultyDisk(CutDisk):
    """A disk that counts in `faults` the failures that have happened. Unlike `CutDisk`, it is also turned on again by `kill`."""

    faults = 0

    def may(self, operation: str, path: str, size: int = 0) -> None:
        try:
            super().may(operation, path, size)
        except StorageFailed:
            self.faults += 1
            raise

    def kill(self, random: Random | None = None) -> None:
        self.cut_at, self.is_off = -1, False
        super().kill(random)
