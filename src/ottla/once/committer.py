"""The committer of a batch: it finds the transactions open, decides, ends them, and aborts those left open by others.

It yields steps of `ottla.once.steps`; the package says why it is safe. Brokers are unknown here; the clock is an argument.
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
    FenceWriter,
    ListOpen,
    LookUp,
    NoteFinished,
    PrepareHanded,
    ReadBrokerClock,
    SeenId,
    Steps,
    TakeLead,
)

MOST_MARGIN_MS: Final = 60_000
"""The most time before the timeouts, in ms, that a decision needs; a quarter of them if less. A committer may need to restart."""

Clock = Callable[[], int]
"""The committer's wall clock in ms, which may differ from the brokers'."""


class CommitOutcome(Enum):
    """How a batch was committed."""

    WRITTEN = "written"
    WRITTEN_BEFORE = "an earlier attempt had written it"
    EMPTY = "no task wrote a row"


class NotCommitted(KafkaError):
    """No record of the batch is visible: it can be written again."""


class SetBack(KafkaError):
    """The batch is older than the last decision: writing it would repeat rows, and skipping it could lose some."""


class Torn(KafkaError):
    """A decided batch is partly aborted by timeouts, or its ids are forgotten."""


class Overtaken(KafkaError):
    """Another run continues what this one has to finish: both cannot be right."""


def committing(
    work: Work, handed: Sequence[Handed], clock: Clock, *, found_decided: bool, has_decided: bool = False
) -> Steps[CommitOutcome]:
    """Commit a batch. `found_decided`: a task found it decided.

    `has_decided`: this process has decided an earlier batch of the run; if another run has decided since, that run continues.

    Raises `NotCommitted`, `SetBack`, `Torn`, `Overtaken`, and exceptions of its steps, after which the decision is unknown.
    """
    if not handed and not found_decided:
        return CommitOutcome.EMPTY
    decided: BatchDecision | None = yield TakeLead()
    if has_decided and decided is not None and decided.run_id != work.run_id:
        raise _overtaken(work)
    if decided is not None and decided.batch_id > work.batch_id:
        raise _set_back(work, decided)
    if decided is not None and decided.covers(work.batch_id):
        yield from _dropped(_undecided(handed, decided))
        yield from _finished(work, decided, clock)
        # Transactions from before the decision that are not part of it are of a dead run, or lost a race.
        yield from _cleared(work, decided.transactions, decided.decided_ms)
        return CommitOutcome.WRITTEN_BEFORE
    if found_decided:
        raise NotCommitted(f"Batch {work.batch_id} of {work.name} was decided and voided meanwhile: it must be written again.")
    seen = yield from _all_open(work, handed)
    prepared = yield from _prepared(work, handed)
    now_ms = yield from _in_time(work, prepared, seen, clock)
    decision = BatchDecision(work.run_id, work.batch_id, BatchVerdict.WRITTEN, prepared, now_ms)
    yield Decide(decision)
    if all((yield EndHanded(prepared, committed=True))):
        yield NoteFinished(decision._replace(is_finished=True))
    else:
        yield from _finished(work, decision, clock)
    # At every batch: a task of a dead run may open its transaction after this run's first batch.
    yield from _cleared(work, prepared, _begun_ms(seen, now_ms))
    return CommitOutcome.WRITTEN


def committing_unrecorded(work: Work, handed: Sequence[Handed], clock: Clock) -> Steps[CommitOutcome]:
    """Commit a batch of a job without a name, which no later attempt can look up. Raises `NotCommitted`, `Torn`."""
    if not handed:
        return CommitOutcome.EMPTY
    seen = yield from _all_open(work, handed)
    now_ms = yield from _in_time(work, handed, seen, clock)
    yield from _committed(work, tuple(handed))
    yield from _cleared(work, handed, _begun_ms(seen, now_ms), others=False)
    return CommitOutcome.WRITTEN


def aborting(work: Work, handed: Sequence[Handed], clock: Clock, *, recorded: bool) -> Steps[None]:
    """Abort the transactions of a failed batch; but commit them if they were decided meanwhile. Raises `Torn`."""
    decided: BatchDecision | None = (yield TakeLead()) if recorded and handed else None
    if decided is not None and decided.batch_id == work.batch_id and decided.covers(work.batch_id):
        yield from _dropped(_undecided(handed, decided))
        yield from _finished(work, decided, clock)
    else:
        yield from _dropped(tuple(handed))


def giving_up(work: Work) -> Steps[None]:
    """Abort all open transactions of a job that cannot be restarted: its tasks may have been killed before they could."""
    yield from _cleared(work, (), 0, others=False)


def _undecided(handed: Sequence[Handed], decided: BatchDecision) -> tuple[Handed, ...]:
    """Return the transactions that are not in the decision. Within a batch, each attempt has another transactional id."""
    parts = {each.transactional_id for each in decided.transactions}
    return tuple(each for each in handed if each.transactional_id not in parts)


def _dropped(transactions: tuple[Handed, ...]) -> Steps[None]:
    """Abort transactions that are not part of a batch. A refused one was ended elsewhere, or prepared by a failed committer."""
    if transactions:
        ended: list[bool] = yield EndHanded(transactions, committed=False)
        for each, is_ended in zip(transactions, ended, strict=True):
            if not is_ended:
                yield FenceWriter(each.transactional_id)


def _all_open(work: Work, handed: Sequence[Handed]) -> Steps[list[SeenId]]:
    """Return the descriptions of these transactions. Raises `NotCommitted` unless all are open."""
    seen: list[SeenId | None] = yield DescribeIds(tuple(each.transactional_id for each in handed))
    for each, found in zip(handed, seen, strict=True):
        if (fate := fate_of(each, found)) is not Fate.OPEN:
            raise _not_open(work, each, fate)
    return [found for found in seen if found is not None]


def _prepared(work: Work, handed: Sequence[Handed]) -> Steps[tuple[Handed, ...]]:
    """Return these transactions without timeouts, if brokers allow that (KIP-939). Raises `NotCommitted` unless all are open.

    From now on their writers are fenced. Until they are prepared, timeouts end transactions without a decision.
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
    """Return when the first of these transactions began."""
    return min((each.started_ms for each in seen if each.started_ms is not None), default=now_ms)


def _in_time(work: Work, handed: Sequence[Handed], seen: Sequence[SeenId], clock: Clock) -> Steps[int]:
    """Return the time at which no transaction is too close to its timeout. Raises `NotCommitted` if one is.

    Timeouts run by the brokers' clock, which is read if this one must be wrong or would stop the batch.
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
    """Raise `NotCommitted` if a transaction with a timeout is too close to it."""
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


def _finished(work: Work, decision: BatchDecision, clock: Clock) -> Steps[None]:
    """Commit the transactions of any committer's decision, unless it is noted as finished: coordinators forget ids in time.

    Raises `Torn`, `Overtaken`, `NotCommitted`.
    """
    if decision.is_finished:
        return
    transactions = decision.transactions
    fates = yield from _fates(transactions)
    still_open = _open(transactions, fates)
    if set(fates) <= {Fate.OPEN, Fate.COMMITTED}:
        is_committed = not still_open or all((yield EndHanded(still_open, committed=True)))
        if not is_committed:
            # Another process, or their timeouts, may have ended the transactions that refused to end.
            fates = yield from _fates(transactions)
            still_open = _open(transactions, fates)
        if is_committed or set(fates) == {Fate.COMMITTED}:
            yield NoteFinished(decision._replace(is_finished=True))
            return
    if still_open and set(fates) == {Fate.OPEN, Fate.ABORTED}:
        # No record of it was ever visible: after an abort of the rest, too, the batch can be written again.
        yield EndHanded(still_open, committed=False)
        fates = yield from _fates(transactions)
    if set(fates) != {Fate.ABORTED}:
        raise _torn(work, transactions, fates)
    yield Decide(decision._replace(verdict=BatchVerdict.VOID, transactions=(), decided_ms=clock()))
    raise NotCommitted(
        f"Batch {work.batch_id} of {work.name} was decided, but not committed before the timeout of its transactions: "
        "nothing of it is visible. Restart the query or the job to write it again."
    )


def _open(transactions: Sequence[Handed], fates: Sequence[Fate]) -> tuple[Handed, ...]:
    """Return the transactions that are open by their fates."""
    return tuple(each for each, fate in zip(transactions, fates, strict=True) if fate is Fate.OPEN)


def _committed(work: Work, transactions: tuple[Handed, ...]) -> Steps[None]:
    """Commit these. Raises `Torn` if one of them cannot be committed any more."""
    if transactions and not all((yield EndHanded(transactions, committed=True))):
        # Another process may have ended the transactions that refused to end.
        fates = yield from _fates(transactions)
        if set(fates) != {Fate.COMMITTED}:
            raise _torn(work, transactions, fates)


def _fates(transactions: Sequence[Handed]) -> Steps[list[Fate]]:
    seen: list[SeenId | None] = yield DescribeIds(tuple(each.transactional_id for each in transactions))
    return [fate_of(each, found) for each, found in zip(transactions, seen, strict=True)]


def _torn(work: Work, transactions: Sequence[Handed], fates: Sequence[Fate]) -> Torn | Overtaken:
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


def _cleared(work: Work, handed: Sequence[Handed], started_ms: int, *, others: bool = True) -> Steps[None]:
    """Abort open transactions of this run's lost attempts and, if `others`, of dead runs, if they began before this batch."""
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
            decided: BatchDecision | None = yield LookUp()
            if decided is not None and decided.batch_id > work.batch_id:
                return  # another run has continued: open transactions may be its own by now
            # End this transaction and no later one of the id, about which a concurrent run may decide.
            is_ended: list[bool] = yield EndHanded((Handed(name, found.producer_id, found.producer_epoch, 0, ()),), committed=False)
            if is_ended == [False] and found.timeout_ms == ENDLESS_MS:
                yield FenceWriter(name)  # it was prepared, so it is the last one of its id
