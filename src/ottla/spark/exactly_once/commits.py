"""What is done beside the driver once all tasks have written: the batch is decided and its transactions are ended.

Spark calls this in processes that it may use again: connections and the right to decide stay with them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from ottla.client.errors import ProducerFenced
from ottla.net.client.async_producer import AsyncProducer
from ottla.once.committing import CommitOutcome, aborting, committing, committing_unrecorded
from ottla.once.decisions import BatchDecision, Handed, encode
from ottla.once.names import Work, decider_id_of
from ottla.once.steps import Decide, PrepareHanded, Result, Steps, TakeLead
from ottla.spark.errors import OptionError
from ottla.spark.exactly_once.carrying import OnceCluster, run
from ottla.spark.options import WriteOptions

logger = logging.getLogger("ottla.spark")

DECIDER_TIMEOUT_MS = 10_000
"""How long a decision may take: others that are kept in the same topic are not seen behind it."""


MOST_LEADS: Final = 5
"""How often the right to decide is taken again for one batch."""
FENCED_AGAIN: Final = "Other processes decide about {} all the time: two runs use one checkpoint. Stop both, then start one."

NOT_ALLOWED: Final = "The brokers allow no two-phase commit (transaction.two.phase.commit.enable)."


def wall_ms() -> int:
    return int(time.time() * 1000)


class OnceCommitter:
    """Commits and aborts batches of one query or job."""

    def __init__(self, options: WriteOptions, name: str) -> None:
        self._options, self._name = options, name
        self._cluster = OnceCluster(options.client, options.decision_topic)
        self._decider: AsyncProducer | None = None
        self._committed_run: str | None = None
        self._decided_run: str | None = None
        self._has_told = False

    def commit(self, work: Work, handed: Sequence[Handed], *, found_decided: bool, recorded: bool) -> None:
        """Make what was handed over visible, all of it. Raises `KafkaError`: then Spark is to run the batch again."""
        is_first, self._committed_run = self._committed_run != work.run_id, work.run_id
        if recorded:
            has_decided = self._decided_run == work.run_id
            outcome = self._leading(
                lambda: committing(work, handed, wall_ms, found_decided=found_decided, is_first=is_first, has_decided=has_decided)
            )
        else:
            outcome = run(committing_unrecorded(work, handed, wall_ms), self._carry_out)
        if outcome is CommitOutcome.WRITTEN_BEFORE:
            logger.info("batch %d of %s was written before, and is not written again", work.batch_id, work.name)
        self._cluster.coordinators.forget(each.transactional_id for each in handed)

    def abort(self, work: Work, handed: Sequence[Handed], *, recorded: bool) -> None:
        """Make what was handed over invisible, unless it was decided. Raises `KafkaError`: then brokers abort it in time."""
        self._leading(lambda: aborting(work, handed, wall_ms, recorded=recorded))

    def _leading(self, begin: Callable[[], Steps[Result]]) -> Result:
        """Take steps that decide, and begin anew where another process decided meanwhile: Spark hands commits of a run to several.

        What that one decided is read first. Raises `ProducerFenced` if others go on and on.
        """
        for _ in range(MOST_LEADS):
            try:
                return run(begin(), self._carry_out)
            except ProducerFenced:
                if self._decider is None:
                    raise
                decider, self._decider = self._decider, None
                self._cluster.loop.run(decider.close())
        raise ProducerFenced(FENCED_AGAIN.format(self._name))

    def _carry_out(self, step: Any) -> Any:
        match step:
            case TakeLead():
                self._take_lead()
                return self._cluster.loop.run(self._cluster.decisions.last(self._name))
            case Decide(decision):
                self._decide(decision)
                return None
            case PrepareHanded(transactions):
                return self._prepare(transactions)
        return self._cluster.carry_out(self._name, step)

    def _take_lead(self) -> None:
        """Fence all others who decide. Whoever has done so since fences this one: then its next decision fails."""
        if self._decider is None:
            self._cluster.loop.run(self._cluster.decisions.create())
            settings = self._cluster.settings
            decider = AsyncProducer(
                settings.bootstrap_servers,
                client_id=settings.client_id,
                request_timeout_ms=settings.request_timeout_ms,
                default_api_timeout_ms=settings.default_api_timeout_ms,
                max_block_ms=settings.default_api_timeout_ms,
                transactional_id=decider_id_of(self._name),
                transaction_timeout_ms=DECIDER_TIMEOUT_MS,
                linger_ms=0,
                **settings.secured(),
            )
            self._cluster.loop.run(decider.start())
            self._decider = decider
            self._cluster.loop.run(decider.init_transactions())

    def _prepare(self, transactions: tuple[Handed, ...]) -> list[Handed | None]:
        """Raises `OptionError` where it is asked for by name, and brokers refuse it."""
        wanted = self._options.two_phase_commit
        if wanted is False:
            return list(transactions)
        prepared = self._cluster.loop.run(self._cluster.coordinators.prepare(transactions))
        if any(each is not None and each.prepared is None for each in prepared):
            if wanted:
                raise OptionError(f"{NOT_ALLOWED} Leave out option twoPhaseCommit, or switch that on.")
            if not self._has_told:
                logger.info("%s Transactions keep their timeouts.", NOT_ALLOWED)
            self._has_told = True
        return prepared

    def _decide(self, decision: BatchDecision) -> None:
        assert self._decider is not None, "the lead was taken"
        self._cluster.loop.run(self._keep(self._decider, decision))

    async def _keep(self, decider: AsyncProducer, decision: BatchDecision) -> None:
        key, value = encode(self._name, decision)
        async with decider.transaction():
            await decider.send(self._options.decision_topic, value, key=key, partition=0)
        self._decided_run = decision.run_id

    def close(self) -> None:
        """Close all connections."""
        if self._decider is not None:
            self._cluster.loop.run(self._decider.close())
        self._cluster.close()


_COMMITTERS: dict[tuple[WriteOptions, str], OnceCommitter] = {}


def committer_for(options: WriteOptions, name: str) -> OnceCommitter:
    """This process's committer for a query or a job."""
    key = (replace(options, batch_id=0), name)
    if key not in _COMMITTERS:
        _COMMITTERS[key] = OnceCommitter(options, name)
    return _COMMITTERS[key]


def drop_committer(options: WriteOptions, name: str) -> None:
    """After an error, nothing is known of it for sure: the next call begins anew, and fences it."""
    kept = _COMMITTERS.pop((replace(options, batch_id=0), name), None)
    if kept is not None:
        kept.close()
