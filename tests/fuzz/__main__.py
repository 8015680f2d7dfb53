"""Fuzz every family of codecs: `make fuzz`, or `python -m tests.fuzz [--seconds N] [--inputs N] [--family NAME] [--seed N]`.

Mutated inputs by the million, on all cores, each held against the invariants of its family; where atheris can be imported, each
family once more guided by coverage. A failure prints the input, and the seed with which to see it again.
"""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import os
import random
import resource
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from tests.fuzz.families import FAMILIES
from tests.fuzz.mutations import mutations

ROUND_INPUTS = 2000
"""Mutations made of the same seeds."""
CHECKED = 8
"""Of so many inputs that are read, one is held against all invariants too."""
MOST_MEMORY_BYTES = 3 << 30
"""Of one process, all libraries included. No input may need more than a few megabytes, so a leak or a bomb meets this soon."""
GUIDED_SHARE = 0.15
"""Of the time, where coverage can guide."""
GOAL_INPUTS = 5_000_000


def main() -> int:
    options = _options()
    names = [options.family] if options.family else list(FAMILIES)
    guided = importlib.util.find_spec("atheris") is not None and not options.inputs
    seconds = options.seconds / len(names)
    print(f"seed {options.seed}, {options.workers} processes, {options.seconds:.0f} seconds for {len(names)} families")
    failures = 0
    for name in names:
        failures += _mutate(name, options, seconds * (1 - GUIDED_SHARE * guided))
    if guided:
        failures += sum(_guide(name, max(1, int(seconds * GUIDED_SHARE))) for name in names)
    elif not options.inputs:
        print("guided by coverage: skipped, atheris cannot be imported (pip install atheris)")
    return 1 if failures else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    seconds = float(os.environ.get("FUZZ_SECONDS", "60"))
    parser.add_argument("--seconds", type=float, default=seconds, help="for all families together (FUZZ_SECONDS, default 60)")
    inputs = int(os.environ.get("FUZZ_INPUTS", "0"))
    parser.add_argument("--inputs", type=int, default=inputs, help="of each family, however long it takes (FUZZ_INPUTS)")
    parser.add_argument("--family", choices=FAMILIES, help="only this one")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    return parser.parse_args()


def _mutate(name: str, options: argparse.Namespace, seconds: float) -> int:
    """Run a family in all workers and print a line of it; how many workers failed."""
    context = multiprocessing.get_context("fork")
    share = -(-options.inputs // options.workers)
    workers = []
    started, used = time.monotonic(), _used_s()
    for number in range(options.workers):
        tried, seed = context.Value("q", 0), context.Value("q", 0)
        first = options.seed + (number << 32)
        process = context.Process(target=_work, args=(name, first, seconds, share, tried, seed))
        process.start()
        workers.append((process, tried, seed))
    failures = 0
    for process, _, seed in workers:
        process.join()
        if process.exitcode:
            failures += 1
            how = f"signal {-process.exitcode}" if process.exitcode < 0 else "an exception"
            print(f"{name} failed by {how}: see it again with --family {name} --workers 1 --inputs 1 --seed {seed.value}")
    total = sum(tried.value for _, tried, _ in workers)
    rate = max(total, 1) / (time.monotonic() - started)
    goal = GOAL_INPUTS / max(total, 1) * (_used_s() - used) / options.workers
    free = f"{options.workers} processors without other work"
    print(f"{name:8} {total:>11,} inputs, {rate:>8,.0f}/s; five million take {goal:4.0f} s of {free}")
    return failures


def _used_s() -> float:
    """Processor time that all workers took which have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _work(name: str, first_seed: int, seconds: float, inputs: int, tried: Any, current: Any) -> None:
    """One process: rounds until the time is over, or until there were enough inputs. Each round has a seed of its own."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))
    until = time.monotonic() + seconds
    seed = first_seed
    while tried.value < inputs if inputs else time.monotonic() < until:
        current.value = seed
        rng = random.Random(seed)
        made = FAMILIES[name](rng)
        tries = list(mutations(made.seeds, rng, ROUND_INPUTS))
        _all(name, made.label, made.read, tries)
        _all(name, made.label, made.check, tries[::CHECKED])
        tried.value += ROUND_INPUTS
        seed += 1


def _all(name: str, label: str, look: Callable[[bytes], None], inputs: list[bytes]) -> None:
    """Look at each; the first that fails ends the process with its bytes told."""
    data = b""
    try:
        for data in inputs:
            look(data)
    except BaseException:
        traceback.print_exc()
        print(f"{name}, {label}: {data!r}", flush=True)
        sys.exit(1)


def _guide(name: str, seconds: int) -> int:
    """The family guided by coverage, in a process of its own, which the library ends itself."""
    import subprocess

    command = [sys.executable, "-m", "tests.fuzz.guided", name, f"-max_total_time={seconds}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    runs = next((line for line in done.stderr.splitlines() if line.startswith("Done ")), "no runs")
    covered = next((line.split("cov: ")[1].split()[0] for line in reversed(done.stderr.splitlines()) if "cov: " in line), "?")
    print(f"{name:8} guided by coverage: {runs.removeprefix('Done ')}, {covered} branches")
    if done.returncode:
        print(done.stdout, done.stderr)
    return int(done.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
