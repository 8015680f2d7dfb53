"""The committer of a batch.

It checks that the transactions are open, decides, ends them, and aborts transactions left by other runs.

It yields steps of `ottla.once.steps`. The package's docstring explains why this is safe. The committer uses no brokers, and its
clock is an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final

from ottla.client.errors import KafkaError
from ottla.once.decisions import BatchDecision, BatchVerdict, Handed
from ottla.once.fates import Fate, fate_of
from ottla.once.names import Work, prefix_of, run_prefix_of
from ottla.once.steps import (
    ENDLESS_MS,
    Decide,
    DescribeIds,
    EndHanded,
    FenceCommitters,
    FenceWriter,
    ListOpen,
    NoteFinished,
    PrepareHanded,
    ReadBrokerClock,
    ReadDecision,
    SeenId,
    Steps,
)

MOST_MARGIN_MS: Final = 60_000
"""When a batch is decided, at least this time (in ms) must be left before a transaction times out; for short timeouts, a quarter.

A committer that must restart then has time to end the transactions.
"""

Clock = Callable[[], int]
"""Returns the time of the committer's wall clock in ms, which can differ from the brokers' clocks."""


class CommitOutcome(Enum):
    """The result of committing a batch."""

    WRITTEN = "written"
    WRITTEN_BEFORE = "an earlier attempt had written it"
    EMPTY = "no task wrote a row"


class NotCommitted(KafkaError):
    """No record of the batch is visible, so that the batch can be written again."""


class SetBack(KafkaError):
    """The batch is older than the last decision. Writing it could repeat rows, and skipping it could lose rows."""


class Torn(KafkaError):
    """Timeouts aborted a part of a decided batch, or coordinators have forgotten its transactional ids."""


class Overtaken(KafkaError):
    """Another run continues the batches that this run has to finish. Only one of them may run."""


def commit_batch(
    work: Work, handed: Sequence[Handed], clock: Clock, *, found_decided: bool, has_decided: bool = False
) -> Steps[CommitOutcome]:
    """Commit a batch, whose open transactions are `handed`, and return how it was written.

    `found_decided`: a task found that the batch was already decided, so it wrote nothing. `has_decided`: this process has decided
    an earlier batch of the run. If another run has decided a batch since then, `Overtaken` is raised.

    Raises `NotCommitted`, `SetBack`, `Torn`, `Overtaken`, and exceptions of the executed steps. After an exception of a step, it is
    unknown whether the batch was decided.
    """
    if not handed and not found_decided:
        return CommitOutcome.EMPTY
    decided: BatchDecision | None = yield FenceCommitters()
    if has_decided and decided is not None and decided.run_id != work.run_id:
        raise _overtaken(work)
    if decided is not None and decided.batch_id > work.batch_id:
        raise _set_back(work, decided)
    if decided is not None and decided.covers(work.batch_id):
        yield from _abort_stray(_find_undecided(handed, decided))
        yield from _finish(work, decided, clock)
        # Older transactions that are not in the decision belong to a dead run, or to an attempt that lost a race.
        yield from _abort_others(work, decided.transactions, decided.decided_ms)
        return CommitOutcome.WRITTEN_BEFORE
    if found_decided:
        raise NotCommitted(f"Batch {work.batch_id} of {work.name} was decided and voided meanwhile: it must be written again.")
    seen = yield from _all_open(work, handed)
    prepared = yield from _prepare(work, handed)
    now_ms = yield from _in_time(work, prepared, seen, clock)
    decision = BatchDecision(work.run_id, work.batch_id, BatchVerdict.WRITTEN, prepared, now_ms)
    yield Decide(decision)
    if all((yield EndHanded(prepared, committed=True))):
        yield NoteFinished(decision._replace(is_finished=True))
    else:
        yield from _finish(work, decision, clock)
    # At every batch, because a task of a dead run may open its transaction after this run's first batch.
    yield from _abort_others(work, prepared, _begun_ms(seen, now_ms))
    return CommitOutcome.WRITTEN


def committing_unrecorded(work: Work, handed: Sequence[Handed], clock: Clock) -> Steps[CommitOutcome]:
    """Commit a batch of a job without a name.

    No decision is stored, so a later attempt cannot find out whether the batch was written. Raises `NotCommitted`, `Torn`.
    """
    if not handed:
        return CommitOutcome.EMPTY
    seen = yield from _all_open(work, handed)
    now_ms = yield from _in_time(work, handed, seen, clock)
    yield from _commit(work, tuple(handed))
    yield from _abort_others(work, handed, _begun_ms(seen, now_ms), others=False)
    return CommitOutcome.WRITTEN


def abort_batch(work: Work, handed: Sequence[Handed], clock: Clock, *, recorded: bool) -> Steps[None]:
    """Abort the transactions `handed` of a failed batch, or commit them if the batch was decided after all.

    `recorded` means that decisions are stored. Raises `Torn`.
    """
    decided: BatchDecision | None = (yield FenceCommitters()) if recorded and handed else None
    if decided is not None and decided.batch_id == work.batch_id and decided.covers(work.batch_id):
        yield from _abort_stray(_find_undecided(handed, decided))
        yield from _finish(work, decided, clock)
    else:
        yield from _abort_stray(tuple(handed))


def abort_all(work: Work) -> Steps[None]:
    """Abort all open transactions of a job that cannot be restarted, including the ones of tasks that were killed."""
    yield from _abort_others(work, (), 0, others=False)


def _find_undecided(handed: Sequence[Handed], decided: BatchDecision) -> tuple[Handed, ...]:
    """Return the transactions whose transactional ids are not in the decision. Each attempt at a batch has its own transactional
    ids.
    """
    parts = {each.transactional_id for each in decided.transactions}
    return tuple(each for each in handed if each.transactional_id not in parts)


def _abort_stray(transactions: tuple[Handed, ...]) -> Steps[None]:
    """Abort transactions that belong to no decided batch.

    A coordinator refuses an abort if the transaction has ended, or if a failed committer has prepared it. Then fence its
    transactional id.
    """
    if transactions:
        ended: list[bool] = yield EndHanded(transactions, committed=False)
        for each, is_ended in zip(transactions, ended, strict=True):
            if not is_ended:
                yield FenceWriter(each.transactional_id)


def _all_open(work: Work, handed: Sequence[Handed]) -> Steps[list[SeenId]]:
    """Return the descriptions of the transactional ids in `handed`. Raises `NotCommitted` unless every transaction is open."""
    seen: list[SeenId | None] = yield DescribeIds(tuple(each.transactional_id for each in handed))
    for each, found in zip(handed, seen, strict=True):
        if (fate := fate_of(each, found)) is not Fate.OPEN:
            raise _not_open(work, each, fate)
    return [found for found in seen if found is not None]


def _prepare(work: Work, handed: Sequence[Handed]) -> Steps[tuple[Handed, ...]]:
    """Remove the timeouts of these transactions if brokers allow that (KIP-939). Raises `NotCommitted` unless all are open.

    From now on brokers refuse their writers. A transaction that keeps its timeout can still end by it before the decision.
    """
    answers: list[Handed | None] = yield PrepareHanded(tuple(handed))
    for each, answer in zip(handed, answers, strict=True):
        if answer is None:
            raise _not_open(work, each, Fate.ABORTED)
    return tuple(answer for answer in answers if answer is not None)


def _not_open(work: Work, handed: Handed, fate: Fate) -> NotCommitted:
    return NotCommitted(
        f"Batch {work.batch_id} of {work.name} is not committed: the transaction of {handed.transactional_id} is "
        f"{fate.value} too early; its timeout may be too short for a batch, which must be written again."
    )


def _begun_ms(seen: Sequence[SeenId], now_ms: int) -> int:
    """Return the time at which the first of the described transactions began, in ms since 1970, or `now_ms` if no time is known."""
    return min((each.started_ms for each in seen if each.started_ms is not None), default=now_ms)


def _in_time(work: Work, handed: Sequence[Handed], seen: Sequence[SeenId], clock: Clock) -> Steps[int]:
    """Return the current time. Raises `NotCommitted` if a transaction is too close to its timeout.

    Timeouts depend on the brokers' clock. It is read only if the committer's clock is certainly wrong, or would stop the batch.
    """
    now_ms = clock()
    if _begun_ms(seen, now_ms) <= now_ms:
        try:
            _check_margins(work, handed, seen, now_ms)
        except NotCommitted:
            pass
        else:
            return now_ms
    brokers_ms: int = yield ReadBrokerClock()
    _check_margins(work, handed, seen, brokers_ms)
    return brokers_ms


def _check_margins(work: Work, handed: Sequence[Handed], seen: Sequence[SeenId], now_ms: int) -> None:
    """Raise `NotCommitted` if too little time is left before the timeout of a transaction."""
    for each, found in zip(handed, seen, strict=True):
        began_ms = now_ms if found.started_ms is None else found.started_ms
        margin_ms = min(MOST_MARGIN_MS, found.timeout_ms // 4)
        is_endless = each.prepared is not None or found.timeout_ms == ENDLESS_MS
        if not is_endless and began_ms + found.timeout_ms - now_ms < margin_ms:
            raise NotCommitted(
                f"Batch {work.batch_id} of {work.name} took {(now_ms - began_ms) / 1000:.0f} s, too near to the timeout of its "
                f"transactions, {found.timeout_ms / 1000:.0f} s: write smaller batches, or raise transaction.max.timeout.ms "
                "of the brokers."
            )


def _finish(work: Work, decision: BatchDecision, clock: Clock) -> Steps[None]:
    """Commit the open transactions of a decision, possibly of another committer.

    Do nothing if the decision is recorded as finished. Coordinators forget transactional ids after some time. Raises `Torn`,
    `Overtaken`, `NotCommitted`.
    """
    if decision.is_finished:
        return
    transactions = decision.transactions
    fates = yield from _fates(transactions)
    still_open = _open(transactions, fates)
    if set(fates) <= {Fate.OPEN, Fate.COMMITTED}:
        is_committed = not still_open or all((yield EndHanded(still_open, committed=True)))
        if not is_committed:
            # If an end was refused, another process or a timeout may have ended the transaction.
            fates = yield from _fates(transactions)
            still_open = _open(transactions, fates)
        if is_committed or set(fates) == {Fate.COMMITTED}:
            yield NoteFinished(decision._replace(is_finished=True))
            return
    if still_open and set(fates) == {Fate.OPEN, Fate.ABORTED}:
        # No record of the batch was ever visible. Once the rest is aborted, the batch can be written again.
        yield EndHanded(still_open, committed=False)
        fates = yield from _fates(transactions)
    if set(fates) != {Fate.ABORTED}:
        raise _explain(work, transactions, fates)
    yield Decide(decision._replace(verdict=BatchVerdict.VOID, transactions=(), decided_ms=clock()))
    raise NotCommitted(
        f"Batch {work.batch_id} of {work.name} was decided, but not committed before the timeout of its transactions: "
        "nothing of it is visible. Restart the query or the job to write it again."
    )


def _open(transactions: Sequence[Handed], fates: Sequence[Fate]) -> tuple[Handed, ...]:
    """Return the transactions whose fate is OPEN."""
    return tuple(each for each, fate in zip(transactions, fates, strict=True) if fate is Fate.OPEN)


def _commit(work: Work, transactions: tuple[Handed, ...]) -> Steps[None]:
    """Commit transactions. Raises `Torn` if one of them can no longer be committed."""
    if transactions and not all((yield EndHanded(transactions, committed=True))):
        # If an end was refused, another process may have ended the transaction.
        fates = yield from _fates(transactions)
        if set(fates) != {Fate.COMMITTED}:
            raise _explain(work, transactions, fates)


def _fates(transactions: Sequence[Handed]) -> Steps[list[Fate]]:
    seen: list[SeenId | None] = yield DescribeIds(tuple(each.transactional_id for each in transactions))
    return [fate_of(each, found) for each, found in zip(transactions, seen, strict=True)]


def _explain(work: Work, transactions: Sequence[Handed], fates: Sequence[Fate]) -> Torn | Overtaken:
    if Fate.MOVED_ON in fates:
        return _overtaken(work)
    lacking = [(each, fate) for each, fate in zip(transactions, fates, strict=True) if fate is not Fate.COMMITTED]
    rows = sum(each.rows for each, _ in lacking)
    places = sorted({f"{topic}-{index}" for each, _ in lacking for topic, index in each.partitions})
    found = " and ".join(sorted({fate.value for _, fate in lacking}))
    return Torn(
        f"Batch {work.batch_id} of {work.name} was decided, and {len(transactions) - len(lacking)} of its {len(transactions)} "
        f"transactions are committed, but the other {len(lacking)}, with {rows} rows in {', '.join(places)}, are {found}: the "
        "process that had to end them was away for longer than their timeout. Write those rows by hand, then start with a new "
        "checkpointLocation (or jobId) behind this batch; raise transaction.max.timeout.ms of the brokers against another time."
    )


def _overtaken(work: Work) -> Overtaken:
    return Overtaken(
        f"Another run of {work.name} continued while this one was finishing batch {work.batch_id}: both use one "
        "checkpoint. Stop both, then start one."
    )


def _set_back(work: Work, decided: BatchDecision) -> SetBack:
    return SetBack(
        f"The checkpoint of {work.name} is at batch {work.batch_id}, but batch {decided.batch_id} was written before: it was "
        "reset, or another run is active. Stop that run; restore the newer checkpoint; or start with a new checkpointLocation and "
        "the offsets to continue from."
    )


def _abort_others(work: Work, handed: Sequence[Handed], started_ms: int, *, others: bool = True) -> Steps[None]:
    """Abort open transactions of this run that are not in `handed`.

    With `others`, also abort transactions of dead runs that began before `started_ms`.
    """
    own = {each.transactional_id for each in handed}
    prefix = run_prefix_of(work)
    listed: list[str] = yield ListOpen(prefix_of(work.name) if others else prefix)
    left = [each for each in listed if each not in own]
    for each in left:
        if each.startswith(prefix):
            yield FenceWriter(each)
    of_others = [each for each in left if not each.startswith(prefix)]
    if not of_others:
        return
    seen: list[SeenId | None] = yield DescribeIds(tuple(of_others))
    for name, found in zip(of_others, seen, strict=True):
        if found is not None and found.state == "Ongoing" and found.started_ms is not None and found.started_ms < started_ms:
            decided: BatchDecision | None = yield ReadDecision()
            if decided is not None and decided.batch_id > work.batch_id:
                return  # another run has continued: the open transactions may belong to it
            # End only this transaction, and no later one of the id, about which a concurrent run may decide.
            is_ended: list[bool] = yield EndHanded((Handed(name, found.producer_id, found.producer_epoch, 0, ()),), committed=False)
            if is_ended == [False] and found.timeout_ms == ENDLESS_MS:
                yield FenceWriter(name)  # the transaction was prepared, so it is the last one of its id
