"""Running seeds one by one or on all processors, and reporting failures, for every simulation's command."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

Lived = TypeVar("Lived")

CHUNK = 40
"""How many seeds are started before violations are looked for."""


class Violation(AssertionError):
    """Something that must be true is not."""


def settle_hashes() -> None:
    """Begin this process anew, unless strings have the same hashes in every process: sets of them have no other order."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | {"PYTHONHASHSEED": "0"})


def seeds_parser(module: str, description: str, *, seeds: int, seconds: float = 1_200) -> argparse.ArgumentParser:
    """What every simulation's command understands; `seeds` and `seconds` are the defaults."""
    parser = argparse.ArgumentParser(prog=f"python -m ottla.sim.{module}", description=description)
    parser.add_argument("--seeds", type=int, default=seeds, help="how many seeds to live")
    parser.add_argument("--first", type=int, default=0, help="the seed to begin with")
    parser.add_argument("--seconds", type=float, default=seconds, help="stop after so long, and say so")
    parser.add_argument("--jobs", type=int, help="processes; as many as processors without it")
    parser.add_argument("--seed", type=int, help="live this seed alone, and tell what happens")
    return parser


def live_seeds(
    chosen: argparse.Namespace, attempt: Callable[[int], Lived | str], summary: Callable[[list[Lived], float], str]
) -> int:
    """Live the seeds that were chosen and print what came of them; `summary(lived, seconds)` ends that.

    Returns the exit code: 0 no violation, 1 a violation, 2 out of time.
    """
    began = time.monotonic()
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    lived, violations = in_chunks(seeds, attempt, chosen.seconds, chosen.jobs)
    for violation in violations:
        print(violation)
    print(summary(lived, time.monotonic() - began))
    return 1 if violations else 0 if len(lived) == chosen.seeds else 2


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
