"""What is written once, and the transactional ids that belong to it. Values only."""

from __future__ import annotations

from typing import Final, NamedTuple

ROOT: Final = "ottla-once/"


class Work(NamedTuple):
    """Batch `batch_id` of what is called `name` (a query or a job), as run `run_id` writes it."""

    name: str
    run_id: str
    batch_id: int


def quote(text: str) -> str:
    """The text without slashes, and no two texts alike."""
    return text.replace("%", "%25").replace("/", "%2F")


def prefix_of(name: str) -> str:
    """What the transactional ids of a query or job begin with, and those of no other."""
    return f"{ROOT}{quote(name)}/"


def run_prefix_of(work: Work) -> str:
    """What the transactional ids of one run begin with."""
    return f"{prefix_of(work.name)}{quote(work.run_id)}/"


def transactional_id_of(work: Work, process: str, number: int) -> str:
    """The transactional id number `number` of a process that writes for this run."""
    return f"{run_prefix_of(work)}{process}/{number}"


def decider_id_of(name: str) -> str:
    """The transactional id under which decisions are written: the newest one who decides fences those before."""
    return f"{prefix_of(name)}decider"
