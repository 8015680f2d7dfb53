"""The commit of a batch beside the driver, after all tasks: the decision, and the commit of the tasks' transactions.

Spark calls this module in processes that it can use again. They keep their connections, and the producer that fences other
committers.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from ottla.client.errors import KafkaError, ProducerFenced
from ottla.net.client.producer.async_producer import AsyncProducer
from ottla.once.committer import CommitOutcome, abort_all, abort_batch, commit_batch, committing_unrecorded
from ottla.once.decisions import BatchDecision, Handed, encode
from ottla.once.names import Work, decider_id_of
from ottla.once.steps import Decide, FenceCommitters, NoteFinished, PrepareHanded, ReadBrokerClock, Result, Steps
from ottla.spark.errors import OptionError
from ottla.spark.exactly_once.step_runner import OnceCluster, run
from ottla.spark.options import WriteOptions

logger = logging.getLogger("ottla.spark")

DECIDER_TIMEOUT_MS = 10_000
"""The longest time that writing a decision may take, in ms. Until then, an unfinished one keeps later decisions from being read."""


CLOCK_KEY: Final = b"clock"
"""The key of records whose transaction is aborted at once, to read the brokers' clock. No decision has this key."""
TOLD_SKEW_MS: Final = 5_000
MOST_LEADS: Final = 5
"""The maximum number of times that a process fences other committers for one batch."""
FENCED_AGAIN: Final = "Other processes decide about {} all the time: two runs use one checkpoint. Stop both, then start one."

NOT_ALLOWED: Final = "The brokers allow no two-phase commit (transaction.two.phase.commit.enable)."


def wall_ms() -> int:
    return int(time.time() * 1000)


class OnceCommitter:
    """The committer of one query or job, which commits and aborts batches on Spark's driver."""

    def __init__(self, options: WriteOptions, name: str) -> None:
        self._options, self._name = options, name
        self._cluster = OnceCluster(options.client, options.decision_topic)
        self._decider: AsyncProducer | None = None
        self._decided_run: str | None = None
        self._has_told = False

    def commit(self, work: Work, handed: Sequence[Handed], *, found_decided: bool, recorded: bool) -> None:
        """Commit all transactions of a batch. Raises `KafkaError`, after which Spark runs the batch again."""
        if recorded:
            has_decided = self._decided_run == work.run_id
            outcome = self._decide_alone(
                lambda: commit_batch(work, handed, wall_ms, found_decided=found_decided, has_decided=has_decided)
            )
        else:
            outcome = run(committing_unrecorded(work, handed, wall_ms), self._carry_out)
        if outcome is CommitOutcome.WRITTEN_BEFORE:
            self._log_written_before(work)
        self._cluster.coordinators.forget(each.transactional_id for each in handed)

    def _log_written_before(self, work: Work) -> None:
        """Log that a batch was written before. For a job, warn, because this run may have other rows."""
        job_id = self._options.job_id if self._options.run_id is None else None
        before = self._cluster.loop.run(self._cluster.decisions.last(self._name))
        if job_id is None or before is None:
            logger.info("batch %d of %s was written before, and is not written again", work.batch_id, work.name)
            return
        logger.warning(
            "job %s was written before, at %s with %d rows: nothing is written again; rows that are others need another jobId",
            job_id,
            datetime.fromtimestamp(before.decided_ms / 1000, UTC).isoformat(sep=" ", timespec="seconds"),
            before.rows,
        )

    def abort(self, work: Work, handed: Sequence[Handed], *, recorded: bool) -> None:
        """Abort all transactions of a batch, unless the batch was decided.

        Raises `KafkaError`. Brokers then abort the transactions after their timeouts.
        """
        try:
            self._decide_alone(lambda: abort_batch(work, handed, wall_ms, recorded=recorded))
        except OptionError:  # a refused topic has no decision, and readers must not wait for the timeouts
            decided = self._cluster.loop.run(self._cluster.decisions.last(self._name))
            if decided is None or decided.batch_id != work.batch_id:
                run(abort_batch(work, handed, wall_ms, recorded=False), self._carry_out)
        if not recorded:
            run(abort_all(work), self._carry_out)

    def _decide_alone(self, begin: Callable[[], Steps[Result]]) -> Result:
        """Run steps that write a decision. If another process has written a decision meanwhile, read that decision and begin again.

        Spark can use several processes for the commits of one run. Raises `ProducerFenced` if other processes keep writing
        decisions.
        """
        for _ in range(MOST_LEADS):
            try:
                return run(begin(), self._carry_out)
            except ProducerFenced:
                if self._decider is None:
                    raise
                self._release_role()
        raise ProducerFenced(FENCED_AGAIN.format(self._name))

    def _carry_out(self, step: Any) -> Any:
        match step:
            case FenceCommitters():
                self._fence_committers()
                return self._cluster.loop.run(self._cluster.decisions.last(self._name))
            case Decide(decision):
                self._decide(decision)
                return None
            case NoteFinished(decision):
                self._note(decision)
                return None
            case ReadBrokerClock():
                return self._brokers_ms()
            case PrepareHanded(transactions):
                return self._prepare(transactions)
        return self._cluster.carry_out(self._name, step)

    def _fence_committers(self) -> None:
        """Fence all other committers. If another committer fences this process later, this process's next decision fails."""
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
                **settings.security_settings(),
            )
            self._cluster.loop.run(decider.start())
            self._decider = decider
            self._cluster.loop.run(decider.init_transactions())

    def _prepare(self, transactions: tuple[Handed, ...]) -> list[Handed | None]:
        """Prepare transactions for the commit (KIP-939), which removes their timeouts, if brokers allow that.

        Raises `OptionError` if brokers refuse and the option requires it.
        """
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

    def _note(self, decision: BatchDecision) -> None:
        try:
            self._decide(decision)
        except KafkaError as error:
            logger.debug("batch %d of %s is committed, which was not noted: %s", decision.batch_id, self._name, error)
            self._release_role()

    def _release_role(self) -> None:
        if self._decider is not None:
            decider, self._decider = self._decider, None
            self._cluster.loop.run(decider.close())

    def _brokers_ms(self) -> int:
        """Return the brokers' time: begin a transaction, read its start time, and abort it. Raises `KafkaError`."""
        self._fence_committers()
        assert self._decider is not None, "the lead was taken"
        here_ms = wall_ms()
        found_ms = self._cluster.loop.run(self._begun_ms(self._decider))
        if found_ms is None:
            return here_ms
        if abs(found_ms - here_ms) > TOLD_SKEW_MS:
            ahead = "ahead of" if here_ms > found_ms else "behind"
            logger.warning(
                "the clock of this machine is %.0f s %s the brokers': have both set by NTP", abs(found_ms - here_ms) / 1000, ahead
            )
        return found_ms

    async def _begun_ms(self, decider: AsyncProducer) -> int | None:
        await decider.begin_transaction()
        try:
            await (await decider.send(self._options.decision_topic, b"", key=CLOCK_KEY, partition=0))
            (seen,) = await self._cluster.coordinators.describe([decider_id_of(self._name)])
        finally:
            await decider.abort_transaction()
        return None if seen is None else seen.started_ms

    def close(self) -> None:
        if self._decider is not None:
            self._cluster.loop.run(self._decider.close())
        self._cluster.close()


_COMMITTERS: dict[tuple[WriteOptions, str], OnceCommitter] = {}


def committer_for(options: WriteOptions, name: str) -> OnceCommitter:
    """Return this process's committer for a query or a job."""
    key = (replace(options, batch_id=0), name)
    if key not in _COMMITTERS:
        _COMMITTERS[key] = OnceCommitter(options, name)
    return _COMMITTERS[key]


def drop_committer(options: WriteOptions, name: str) -> None:
    """Close and remove a committer after an error, because its state is unknown.

    The next `committer_for` creates another committer, which fences the removed one.
    """
    kept = _COMMITTERS.pop((replace(options, batch_id=0), name), None)
    if kept is not None:
        kept.close()
