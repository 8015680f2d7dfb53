"""Running seeds one by one or on all processors, and reporting violations, for the program of every simulation."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, NoReturn, TypeVar

Lived = TypeVar("Lived")

CHUNK = 40
"""How many seeds are started before violations are looked for."""


class Violation(AssertionError):
    """Something that must be true is not."""


def described(failure: Exception) -> str:
    """Return the sentence for a failure: its type and its message."""
    return f"{type(failure).__name__}: {failure}"


def live_once(
    live: Callable[[], Lived], program: str, seed: int, options: str = "", *, sentence: Callable[[Exception], str] = described
) -> Lived:
    """Call `live`. Raise `Violation` for any exception, with the seed and the command that repeats it."""
    try:
        return live()
    except Exception as failure:
        again = f"python -m tests.sim.{program} --seed {seed}{options}"
        raise Violation(f"seed {seed}: {sentence(failure)}. See it again: {again}") from failure


def seeds_parser(program: str, description: str, *, seeds: int, seconds: float = 1_200) -> argparse.ArgumentParser:
    """Return the parser of the options that every simulation's program has; `seeds` and `seconds` are the defaults."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.sim.{program}", description=description)
    parser.add_argument("--seeds", type=int, default=seeds, help="how many seeds to live")
    parser.add_argument("--first", type=int, default=0, help="the seed to begin with")
    parser.add_argument("--seconds", type=float, default=seconds, help="stop after so long, and say so")
    parser.add_argument("--jobs", type=int, help="processes; as many as processors without it")
    parser.add_argument("--seed", type=int, help="live this seed alone, and tell what happens")
    return parser


def run_seeds(
    chosen: argparse.Namespace, live: Callable[..., Lived], summary: Callable[[list[Lived], float], str], **options: Any
) -> int:
    """Call `live(seed, **options)` for each chosen seed; print the violations, then `summary(lived, seconds)`.

    Returns the exit code: 0 no violation, 1 a violation, 2 out of time.
    """
    if chosen.seed is not None:
        logging.basicConfig(level=logging.INFO, format="             %(message)s")
        print(live(chosen.seed, tell=True, **options))
        return 0
    began = time.monotonic()
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    lived, violations = in_chunks(seeds, partial(attempt, live, **options), chosen.seconds, chosen.jobs)
    for violation in violations:
        print(violation)
    print(summary(lived, time.monotonic() - began))
    return 1 if violations else 0 if len(lived) == chosen.seeds else 2


def attempt(live: Callable[..., Lived], seed: int, **options: Any) -> Lived | str:
    """Live one seed in silence; return the sentence of its violation if there is one."""
    logging.disable(logging.CRITICAL)
    try:
        return live(seed, **options)
    except Violation as violation:
        return str(violation)


def in_chunks(
    seeds: range, attempt: Callable[[int], Lived | str], seconds: float, jobs: int | None
) -> tuple[list[Lived], list[str]]:
    """Return the results and the violations; end early after the first chunk with a violation, or when time is up.

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


def run_program(main: Callable[[], int]) -> NoReturn:
    """End this process with the exit code of `main`, in a process in which strings have the same hashes each time.

    Sets of strings are then walked over in the same order whenever a seed is lived.
    """
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | {"PYTHONHASHSEED": "0"})
    sys.exit(main())
