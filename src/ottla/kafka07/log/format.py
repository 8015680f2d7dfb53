"""The sidecar format of positions for clients of Kafka 0.7, through which a log calls this package.

Every broker imports this module. The code that reads positions is imported when a log has some, or a client asks for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ottla.kafka07.log.names import KEPT_07, bases_07
from ottla.log.names import file_name
from ottla.log.reads import ReadableLog
from ottla.log.sidecars import SidecarFault
from ottla.ports import Disk

if TYPE_CHECKING:
    from ottla.kafka07.log.positions import Positions07


class PositionsFormat07:
    """The format of `*.positions07` and `*.kept07`; implements `ottla.log.sidecars.SidecarFormat`."""

    unserved = "Clients of Kafka 0.7 are not served from it."

    def bases(self, names: Iterable[str]) -> list[int]:
        return bases_07(names)

    def leftovers(self, names: Iterable[str]) -> list[str]:
        """Return the names of kept messages without positions."""
        bases = bases_07(names)
        return [file_name(base, KEPT_07) for base in bases_07(names, KEPT_07) if base not in bases]

    def recover(self, disk: Disk, path: str, bases: Sequence[int], log_end_offset: int) -> list[int]:
        from ottla.kafka07.log.recovery import recover

        return recover(disk, path, bases, log_end_offset)

    def open(self, disk: Disk, path: str, readable: ReadableLog, bases: Sequence[int], *, is_whole: bool) -> Positions07:
        from ottla.kafka07.log.positions import Positions07

        return Positions07(disk, path, readable, bases, is_whole=is_whole)

    def check(self, disk: Disk, path: str, names: Sequence[str]) -> Iterator[SidecarFault]:
        from ottla.kafka07.log.check import check_positions

        return check_positions(disk, path, names)

    def renew(self, disk: Disk, path: str, names: Sequence[str]) -> str:
        from ottla.kafka07.log.check import renew_positions

        return renew_positions(disk, path, names)
