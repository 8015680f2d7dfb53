"""What has become of a transaction that was handed over, by what its coordinator tells of the transactional id. Pure."""

from __future__ import annotations

from enum import Enum
from typing import Final

from ottla.once.decisions import Handed
from ottla.once.steps import SeenId

LAST_EPOCH: Final = 2**15 - 2
"""After this epoch, a producer goes on with another id."""

_COMMITTED: Final = frozenset({"PrepareCommit", "CompleteCommit"})
_ABORTED: Final = frozenset({"PrepareAbort", "CompleteAbort", "PrepareEpochFence"})


class Fate(Enum):
    """OPEN: as it was handed over. MOVED_ON: its id has been used again since. FORGOTTEN: its id is not known any more."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    MOVED_ON = "overtaken by another one"
    FORGOTTEN = "forgotten"


def fate_of(handed: Handed, seen: SeenId | None) -> Fate:
    """An end may raise the epoch by one (KIP-890), and where epochs have run out it brings another producer id."""
    if seen is None:
        return Fate.FORGOTTEN
    same = seen.producer_id == handed.producer_id
    if seen.state == "Ongoing":
        return Fate.OPEN if same and seen.producer_epoch == handed.producer_epoch else Fate.MOVED_ON
    rotated = handed.producer_epoch >= LAST_EPOCH and seen.producer_epoch == 0
    if not rotated and not (same and 0 <= seen.producer_epoch - handed.producer_epoch <= 1):
        return Fate.MOVED_ON
    if seen.state in _COMMITTED:
        return Fate.COMMITTED
    return Fate.ABORTED if seen.state in _ABORTED else Fate.MOVED_ON
