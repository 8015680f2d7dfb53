"""What the two machines of a write ask for, and what they are handed. Values only; whoever runs them carries it out.

A step that fails is raised where it was asked for; those that brokers may do at another try were tried again before.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, NamedTuple, TypeVar

from ottla.once.decisions import BatchDecision, Handed

Result = TypeVar("Result")
Steps = Generator[Any, Any, Result]
"""Yields the steps below, is sent their answers, and returns its result."""


ENDLESS_MS: Final = 2**31 - 1
"""The timeout of transactions that have none (KIP-939)."""


class SeenId(NamedTuple):
    """A transactional id as its coordinator describes it. `started_ms` is None while no transaction is under way."""

    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int | None


class Identified(NamedTuple):
    """The producer id and epoch that a transactional id goes on with."""

    producer_id: int
    producer_epoch: int


class LookUp(NamedTuple):
    """Read the last decision. The answer is a `BatchDecision` or None."""


class TakeLead(NamedTuple):
    """Fence all others who may decide, then read the last decision. The answer is a `BatchDecision` or None."""


class Decide(NamedTuple):
    """Keep a decision for good. Fails if another one leads by now."""

    decision: BatchDecision


class NoteFinished(NamedTuple):
    """Keep that all transactions of a decision are committed. A note that fails is left out: it saves a question alone."""

    decision: BatchDecision


class ReadBrokerClock(NamedTuple):
    """Read the clock by which brokers tell when transactions began. The answer is in ms since 1970."""


class DescribeIds(NamedTuple):
    """Ask coordinators about transactional ids. The answer has a `SeenId` for each; None for one that is not known."""

    transactional_ids: tuple[str, ...]


class PrepareHanded(NamedTuple):
    """Take the timeouts from transactions that were handed over. The answer has each as it is to be ended from now on.

    That is unchanged where brokers allow no two-phase commit, and None for one that is open no more.
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
    """Abort what is open under a transactional id, and fence its producer."""

    transactional_id: str


class BeginId(NamedTuple):
    """Get an id and epoch for a transactional id of this process that was never used, or not for long."""

    transactional_id: str


class TakeBack(NamedTuple):
    """Go on with a transactional id whose transaction somebody else has ended."""

    transactional_id: str
    identity: Identified


class OpenWith(NamedTuple):
    """Write the first rows in a transaction, until brokers have them. The answer is False if there are none."""

    transactional_id: str


class WriteOn(NamedTuple):
    """Write all other rows, until brokers have them, and leave the transaction open. The answer is `Handed`."""

    transactional_id: str


class GiveUp(NamedTuple):
    """Abort one's own transaction."""

    transactional_id: str
