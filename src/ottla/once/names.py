"""The batch that is written once, and its transactional ids. Values only."""

from __future__ import annotations

from typing import Final, NamedTuple

ROOT: Final = "ottla-once/"


class Work(NamedTuple):
    """Batch `batch_id` of the query or job `name`, written by run `run_id`."""

    name: str
    run_id: str
    batch_id: int


def quote(text: str) -> str:
    """Return the text without slashes; different texts stay different."""
    return text.replace("%", "%25").replace("/", "%2F")


def prefix_of(name: str) -> str:
    """Return the prefix that all transactional ids of a query or job have, and no other ids."""
    return f"{ROOT}{quote(name)}/"


def run_prefix_of(work: Work) -> str:
    """Return the prefix of the transactional ids of one run."""
    return f"{prefix_of(work.name)}{quote(work.run_id)}/"


def transactional_id_of(work: Work, process: str, number: int) -> str:
    """Return the transactional id with this number, for one process that writes the batches of `work`."""
    return f"{run_prefix_of(work)}{process}/{number}"


def decider_id_of(name: str) -> str:
    """Return the transactional id under which decisions are written, so that the newest committer fences all earlier ones."""
    return f"{prefix_of(name)}decider"
