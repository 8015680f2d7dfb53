"""The fate of a transaction that was handed over, concluded from its coordinator's description of the transactional id. Pure."""

from __future__ import annotations

from enum import Enum
from typing import Final

from ottla.once.decisions import Handed
from ottla.once.steps import SeenId

LAST_EPOCH: Final = 2**15 - 2
"""The last epoch of a producer id. After it the producer gets another id."""

_COMMITTED: Final = frozenset({"PrepareCommit", "CompleteCommit"})
_ABORTED: Final = frozenset({"PrepareAbort", "CompleteAbort", "PrepareEpochFence"})


class Fate(Enum):
    """The state of a transaction since its producer left the commit or abort to the committer.

    OPEN: neither committed nor aborted. MOVED_ON: its transactional id was used for another transaction. FORGOTTEN: the coordinator
    has no such transactional id.
    """

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    MOVED_ON = "overtaken by another one"
    FORGOTTEN = "forgotten"


def fate_of(handed: Handed, seen: SeenId | None) -> Fate:
    """Return the fate of the transaction `handed`.

    `seen` describes its transactional id; None means that the coordinator has no such id. When a transaction ends, its epoch can
    rise by one (KIP-890). After the last epoch, the producer gets another producer id.
    """
    if seen is None:
        return Fate.FORGOTTEN
    written_as = (handed.producer_id, handed.producer_epoch)
    if seen.state == "Ongoing":
        return Fate.OPEN if (seen.producer_id, seen.producer_epoch) == written_as else Fate.MOVED_ON
    # A prepared transaction ends under another id. During its end, the coordinator shows first the writer's id, then the other one.
    if not any(_has_ended(seen, *each) for each in {written_as, handed.ends_as}):
        return Fate.MOVED_ON
    if seen.state in _COMMITTED:
        return Fate.COMMITTED
    return Fate.ABORTED if seen.state in _ABORTED else Fate.MOVED_ON


def _has_ended(seen: SeenId, producer_id: int, producer_epoch: int) -> bool:
    rotated = producer_epoch >= LAST_EPOCH and seen.producer_epoch == 0
    return rotated or (seen.producer_id == producer_id and 0 <= seen.producer_epoch - producer_epoch <= 1)
