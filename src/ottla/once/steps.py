"""The steps that writers and committers yield, and their results. Values only; the caller carries them out.

A step that fails raises its exception at the yield; errors that a retry may cure were retried before.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, NamedTuple, TypeVar

from ottla.once.decisions import BatchDecision, Handed

Result = TypeVar("Result")
Steps = Generator[Any, Any, Result]
"""Yields the steps below, is sent their answers, and returns its result."""


ENDLESS_MS: Final = 2**31 - 1
"""The timeout in ms of transactions that have none (KIP-939)."""


class SeenId(NamedTuple):
    """A transactional id as its coordinator describes it. `started_ms` is None without an open transaction."""

    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int | None


class Identified(NamedTuple):
    """The producer id and epoch with which a transactional id continues."""

    producer_id: int
    producer_epoch: int


class LookUp(NamedTuple):
    """Read the last decision. The answer is a `BatchDecision` or None."""


class TakeLead(NamedTuple):
    """Fence all other committers, then read the last decision. The answer is a `BatchDecision` or None."""


class Decide(NamedTuple):
    """Store a decision durably. Fails if another committer has taken the lead."""

    decision: BatchDecision


class NoteFinished(NamedTuple):
    """Store that all transactions of a decision are committed. If it fails, it is skipped: it only saves a later lookup."""

    decision: BatchDecision


class ReadBrokerClock(NamedTuple):
    """Read the clock by which brokers report when transactions began. The answer is in ms since 1970."""


class DescribeIds(NamedTuple):
    """Query coordinators for transactional ids. The answer has a `SeenId` for each; None for an unknown id."""

    transactional_ids: tuple[str, ...]


class PrepareHanded(NamedTuple):
    """Remove the timeouts of transactions that were handed over. The answer has each as it must be ended from now on.

    An answer is unchanged if brokers allow no two-phase commit, and None for a transaction that is no longer open.
    """

    transactions: tuple[Handed, ...]


class EndHanded(NamedTuple):
    """Commit or abort transactions that were handed over. The answer has True for each that ended so, False if refused."""

    transactions: tuple[Handed, ...]
    committed: bool


class ListOpen(NamedTuple):
    """List the transactional ids with this prefix whose transactions are open. The answer is a list of them."""

    prefix: str


class FenceWriter(NamedTuple):
    """Abort the open transaction of a transactional id, and fence its producer."""

    transactional_id: str


class BeginId(NamedTuple):
    """Get a producer id and epoch for a transactional id of this process, whether it is new or used before."""

    transactional_id: str


class TakeBack(NamedTuple):
    """Continue with a transactional id whose transaction another process has ended."""

    transactional_id: str
    identity: Identified


class OpenWith(NamedTuple):
    """Write the first rows in a transaction, until brokers have them. The answer is False if there are none."""

    transactional_id: str


class WriteOn(NamedTuple):
    """Write all other rows, until brokers have them, and leave the transaction open. The answer is `Handed`."""

    transactional_id: str


class GiveUp(NamedTuple):
    """Abort the task's own transaction."""

    transactional_id: str
