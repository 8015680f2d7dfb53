"""The batch that is written once, and its transactional ids. Values only."""

from __future__ import annotations

from typing import Final, NamedTuple

ROOT: Final = "ottla-once/"


class Work(NamedTuple):
    """The batch `batch_id` of the query or job `name`, and the run `run_id` that writes the batch."""

    name: str
    run_id: str
    batch_id: int


def quote(text: str) -> str:
    """Return `text` with its characters / and % escaped, so that two different texts never give the same result."""
    return text.replace("%", "%25").replace("/", "%2F")


def prefix_of(name: str) -> str:
    """Return the prefix that all transactional ids of a query or job have, and no other ids."""
    return f"{ROOT}{quote(name)}/"


def run_prefix_of(work: Work) -> str:
    """Return the prefix of the transactional ids of one run."""
    return f"{prefix_of(work.name)}{quote(work.run_id)}/"


def transactional_id_of(work: Work, process: str, number: int) -> str:
    """Return a transactional id of the run in `work`. `process` and `number` make it unique within the run."""
    return f"{run_prefix_of(work)}{process}/{number}"


def decider_id_of(name: str) -> str:
    """Return the transactional id of the producer that writes the decisions of `name`. A new committer fences all earlier ones by
    it.
    """
    return f"{prefix_of(name)}decider"
