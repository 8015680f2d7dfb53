"""Seeds that are lived one by one or on all processors: what every simulation's command does, and how it tells of a failure."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

Lived = TypeVar("Lived")

CHUNK = 40
"""So many seeds are begun before anybody looks whether one was violated."""


class Violation(AssertionError):
    """Something is not true that must be."""


def in_chunks(
    seeds: range, attempt: Callable[[int], Lived | str], seconds: float, jobs: int | None
) -> tuple[list[Lived], list[str]]:
    """What was lived, and what was violated; ends early with the first violation, or when the time is up.

    `attempt` lives one seed, in a process of its own: what it returns as text is a violation.
    """
    began, lived, violations = time.monotonic(), list[Lived](), list[str]()
    pool = ProcessPoolExecutor(jobs)
    try:
        for first in range(seeds.start, seeds.stop, CHUNK):
            for result in pool.map(attempt, range(first, min(first + CHUNK, seeds.stop)), chunksize=4):
                if isinstance(result, str):
                    violations.append(result)
                else:
                    lived.append(result)
                if time.monotonic() - began > seconds:
                    return lived, violations
            if violations:
                break
    finally:
        pool.shutdown(cancel_futures=True)
    return lived, violations
