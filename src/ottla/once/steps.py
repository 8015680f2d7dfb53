"""The steps that writers and committers yield, and their results. Values only; the caller carries out the steps.

If a step fails, its exception is raised at the yield. Retriable errors have been retried before.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, NamedTuple, TypeVar

from ottla.once.decisions import BatchDecision, Handed

Result = TypeVar("Result")
Steps = Generator[Any, Any, Result]
"""A generator that yields the steps below, is sent their results, and returns its own result."""


ENDLESS_MS: Final = 2**31 - 1
"""The timeout, in ms, of transactions without a timeout (KIP-939)."""


class SeenId(NamedTuple):
    """A transactional id, as its coordinator describes it. `started_ms` is None without an open transaction."""

    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int | None


class Identified(NamedTuple):
    """The producer id and epoch that the next transaction of a transactional id must use."""

    producer_id: int
    producer_epoch: int


class ReadDecision(NamedTuple):
    """Read the last decision. The result is a `BatchDecision` or None."""


class FenceCommitters(NamedTuple):
    """Fence all other committers, then read the last decision. The result is a `BatchDecision` or None."""


class Decide(NamedTuple):
    """Store a decision durably. The step fails if a newer committer has fenced this one."""

    decision: BatchDecision


class NoteFinished(NamedTuple):
    """Store that all transactions of a decision are committed.

    A failure is ignored, because its only effect is one more query later.
    """

    decision: BatchDecision


class ReadBrokerClock(NamedTuple):
    """Read the clock by which brokers report when transactions began. The result is in ms since 1970."""


class DescribeIds(NamedTuple):
    """Request descriptions of transactional ids. The result has a `SeenId` for each id, or None for an unknown id."""

    transactional_ids: tuple[str, ...]


class PrepareHanded(NamedTuple):
    """Prepare transactions for a commit (KIP-939), which removes their timeouts.

    The result has each transaction as it must be ended from now on, or None for a transaction that is no longer open. A transaction
    is returned unchanged if its broker does not allow two-phase commit.
    """

    transactions: tuple[Handed, ...]


class EndHanded(NamedTuple):
    """Commit or abort transactions that tasks have left open for the committer.

    The result has True for each transaction that ended as requested, and False for one that the coordinator refused to end.
    """

    transactions: tuple[Handed, ...]
    committed: bool


class ListOpen(NamedTuple):
    """List the transactional ids with this prefix that have an open transaction. The result is a list of ids."""

    prefix: str


class FenceWriter(NamedTuple):
    """Abort the open transaction of a transactional id, and fence the producer that used the id."""

    transactional_id: str


class BeginId(NamedTuple):
    """Request a producer id and epoch for one of this process's transactional ids, whether new or used before."""

    transactional_id: str


class ContinueId(NamedTuple):
    """Continue a transactional id with the producer id and epoch in `identity`, after another process has ended its last
    transaction.
    """

    transactional_id: str
    identity: Identified


class OpenWith(NamedTuple):
    """Write the first rows in a transaction, and wait until brokers have acknowledged them. The result is False if there are no
    rows.
    """

    transactional_id: str


class WriteOn(NamedTuple):
    """Write all other rows, wait until brokers have acknowledged them, and leave the transaction open. The result is its
    `Handed`.
    """

    transactional_id: str


class AbortOwn(NamedTuple):
    """Abort the open transaction of the task that runs these steps."""

    transactional_id: str
