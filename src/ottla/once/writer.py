"""The writer of a batch.

Each task opens a transaction, checks that its batch is undecided, writes, and leaves the transaction open.

Transactional ids belong to one process and one run, and are used again when their transaction has ended. A process needs as many
ids as the tasks of one batch that it writes. The module yields steps of `ottla.once.steps`, and uses no brokers.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.once.decisions import BatchDecision, Handed
from ottla.once.names import Work, transactional_id_of
from ottla.once.steps import (
    ENDLESS_MS,
    AbortOwn,
    BeginId,
    ContinueId,
    DescribeIds,
    Identified,
    OpenWith,
    ReadDecision,
    SeenId,
    Steps,
    WriteOn,
)

_MAY_STILL_COMMIT = ("Ongoing", "PrepareCommit")


class TaskResult(NamedTuple):
    """A task's report to the committer. `transaction` is None if the task wrote nothing.

    `found_decided` means that the task wrote nothing because the batch was already decided.
    """

    transaction: Handed | None
    found_decided: bool = False


class OwnIds:
    """The transactional ids of one process in one run.

    `free` are ids without an open transaction. `handed` maps ids to (batch id, transaction that the committer must end).
    """

    def __init__(self, process: str) -> None:
        self._process = process
        self.free: list[str] = []
        self.handed: dict[str, tuple[int, Handed]] = {}
        self._count = 0

    def new(self, work: Work) -> str:
        """Return a transactional id that this process has not used before in the run of `work`."""
        self._count += 1
        return transactional_id_of(work, self._process, self._count)


def write_batch(work: Work, ids: OwnIds, *, recorded: bool = True, looks_first: bool = True) -> Steps[TaskResult]:
    """Write a task's rows in a transaction, and return the task's report.

    `recorded` means that decisions are stored. With `looks_first`, read the last decision before writing, because an earlier run
    may have decided the batch. Raises exceptions of the executed steps. After an exception, the transactional id is not used again.
    """
    if recorded and looks_first and (yield from _is_decided(work)):
        return TaskResult(None, found_decided=True)
    own: str = yield from _reserve_id(work, ids)
    if not (yield OpenWith(own)):
        ids.free.append(own)
        return TaskResult(None)
    if recorded and (yield from _is_decided(work)):
        yield AbortOwn(own)  # where an abort keeps the epoch, a committer could not distinguish its next transaction from this one
        return TaskResult(None, found_decided=True)
    handed: Handed = yield WriteOn(own)
    ids.handed[own] = work.batch_id, handed
    return TaskResult(handed)


def _is_decided(work: Work) -> Steps[bool]:
    decided: BatchDecision | None = yield ReadDecision()
    return decided is not None and decided.covers(work.batch_id)


def _reserve_id(work: Work, ids: OwnIds) -> Steps[str]:
    """Return a transactional id to use: a free one, one whose last transaction is committed, or a new one.

    An id is used again only for a later batch. Until then, a restarted committer can see from the id that its batch was committed.
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
                yield ContinueId(name, Identified(each.producer_id, each.producer_epoch))
            if keeps_epoch or each.timeout_ms == ENDLESS_MS:
                # If a commit keeps the epoch, a committer could not distinguish the next transaction from the last one.
                # A prepared transaction has lost its timeout, so the id must get one again.
                yield BeginId(name)
            return name
        if each is None or each.state not in _MAY_STILL_COMMIT:
            del ids.handed[name]
    own = ids.new(work)
    yield BeginId(own)
    return own
