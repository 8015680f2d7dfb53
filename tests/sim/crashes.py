"""A log that lives through power cuts: random work on a simulated disk, cut off at a random operation, checked after each restart.

    python -m tests.sim.crashes --points 20000     every seed from 0 on, until so many power cuts were survived
    python -m tests.sim.crashes --seed 17          one seed again: the same work, the same power cuts

Everything comes from the seed. A fault is printed with the command that shows it again.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from random import Random

from ottla.sim.power import PowerCut
from tests.sim.lives.life import LogLife

CUTS_PER_SEED = 25
MOST_OPERATIONS = 120
"""How many operations of the disk may pass between two power cuts."""


def live(seed: int) -> LogLife:
    """Let a log work through power cuts. Raises AssertionError at the first fault."""
    life = LogLife(Random(seed))
    for _ in range(CUTS_PER_SEED):
        life.disk.cut_soon(MOST_OPERATIONS, life.random)
        try:
            while True:
                life.random.choice(life.acts())()
        except PowerCut:
            life.restart()
    return life


def survive(seed: int) -> int:
    """Live one seed; returns the number of power cuts. Raises AssertionError at a fault, with the command that repeats it."""
    try:
        live(seed)
        return CUTS_PER_SEED
    except Exception as failure:
        again = f"python -m tests.sim.crashes --seed {seed}"
        raise AssertionError(f"seed {seed}: {type(failure).__name__}: {failure}. See it again: {again}") from failure


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.crashes", description="Logs that live through power cuts.")
    parser.add_argument("--points", type=int, default=20_000, help="how many power cuts to survive")
    parser.add_argument("--seconds", type=float, default=600, help="stop after so long, and say so")
    parser.add_argument("--first", type=int, default=0, help="the seed to begin with")
    parser.add_argument("--seed", type=int, help="live this seed alone")
    chosen = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    if chosen.seed is not None:
        print(f"seed {chosen.seed}: survived {survive(chosen.seed)} power cuts")
        return 0
    started, survived, seed = time.monotonic(), 0, chosen.first
    while survived < chosen.points and time.monotonic() - started < chosen.seconds:
        try:
            survived += survive(seed)
        except AssertionError as failure:
            print(failure)
            return 1
        seed += 1
    took = time.monotonic() - started
    print(f"survived {survived} power cuts of seeds {chosen.first} to {seed - 1} in {took:.0f} s")
    return 0 if survived >= chosen.points else 2


if __name__ == "__main__":
    sys.exit(main())
