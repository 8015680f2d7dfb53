"""Running seeds one by one or on all processors, and reporting failures, for every simulation's command."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

Lived = TypeVar("Lived")

CHUNK = 40
"""How many seeds are started before violations are looked for."""


class Violation(AssertionError):
    """Something that must be true is not."""


def in_chunks(
    seeds: range, attempt: Callable[[int], Lived | str], seconds: float, jobs: int | None
) -> tuple[list[Lived], list[str]]:
    """Return what was lived and what was violated; ends early at the first violation, or when time is up.

    `attempt` lives one seed in a process of its own: a string that it returns is a violation.
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
