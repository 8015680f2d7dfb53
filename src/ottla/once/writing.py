"""The side that writes: a task opens a transaction, makes sure that its batch is still undecided, writes, and hands it over open.

Transactional ids belong to one process and one run, and are used again once their transaction has ended: a process needs as many as
it writes tasks of one batch. Steps of `ottla.once.steps`. Knows no brokers.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.once.decisions import BatchDecision, Handed
from ottla.once.names import Work, transactional_id_of
from ottla.once.steps import (
    ENDLESS_MS,
    BeginId,
    DescribeIds,
    GiveUp,
    Identified,
    LookUp,
    OpenWith,
    SeenId,
    Steps,
    TakeBack,
    WriteOn,
)

_MAY_STILL_COMMIT = ("Ongoing", "PrepareCommit")


class TaskResult(NamedTuple):
    """What a task tells whoever commits. `transaction` is None if it wrote nothing: no row, or it `found_decided`."""

    transaction: Handed | None
    found_decided: bool = False


class OwnIds:
    """The transactional ids of one process in one run: those that are `free`, and those `handed` over, with their batches."""

    def __init__(self, process: str) -> None:
        self._process = process
        self.free: list[str] = []
        self.handed: dict[str, tuple[int, Handed]] = {}
        self._count = 0

    def new(self, work: Work) -> str:
        """One that was never used."""
        self._count += 1
        return transactional_id_of(work, self._process, self._count)


def writing(work: Work, ids: OwnIds, *, recorded: bool = True, looks_first: bool = True) -> Steps[TaskResult]:
    """Write a task's rows. `looks_first`: nothing is known of the batch, which may have been decided by an earlier run.

    Not `recorded` is what nobody decides. Raises what its steps raise: then its transactional id is not used again.
    """
    if recorded and looks_first and (yield from _is_decided(work)):
        return TaskResult(None, found_decided=True)
    own: str = yield from _taken(work, ids)
    if not (yield OpenWith(own)):
        ids.free.append(own)
        return TaskResult(None)
    if recorded and (yield from _is_decided(work)):
        yield GiveUp(own)  # where an abort keeps the epoch, whoever clears away could not tell its next transaction from this one
        return TaskResult(None, found_decided=True)
    handed: Handed = yield WriteOn(own)
    ids.handed[own] = work.batch_id, handed
    return TaskResult(handed)


def _is_decided(work: Work) -> Steps[bool]:
    decided: BatchDecision | None = yield LookUp()
    return decided is not None and decided.covers(work.batch_id)


def _taken(work: Work, ids: OwnIds) -> Steps[str]:
    """A transactional id that is free: one whose batch is committed, as a later one is being written, or another one.

    Until then, how the last transaction of the id ended is what tells whoever starts again that it was committed.
    """
    if ids.free:
        return ids.free.pop()
    names = tuple(name for name, (batch_id, _) in ids.handed.items() if batch_id < work.batch_id)
    seen: list[SeenId | None] = (yield DescribeIds(names)) if names else []
    for name, each in zip(names, seen, strict=True):
        if each is not None and each.state == "CompleteCommit":
            _, handed = ids.handed.pop(name)
            keeps_epoch = (each.producer_id, each.producer_epoch) == (handed.producer_id, handed.producer_epoch)
            if not keeps_epoch:
                yield TakeBack(name, Identified(each.producer_id, each.producer_epoch))
            if keeps_epoch or each.timeout_ms == ENDLESS_MS:
                # Where an end keeps the epoch, the next transaction would look like this one to whoever is to end it. And what was
                # prepared is to have its timeout again.
                yield BeginId(name)
            return name
        if each is None or each.state not in _MAY_STILL_COMMIT:
            del ids.handed[name]
    own = ids.new(work)
    yield BeginId(own)
    return own
