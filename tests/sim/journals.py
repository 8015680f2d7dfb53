"""Logs whose unsynced records go into a journal, and that live through power cuts: random work, cut off at a random operation.

    python -m tests.sim.journals --points 20000     every seed from 0 on, until so many power cuts were survived
    python -m tests.sim.journals --seed 17          one seed again: the same work, the same power cuts

A power cut leaves each unsynced sector of each file old, new or torn, a later one on disk and an earlier one not: of the logs, and
of the write to the journal that was under way. In each fourth seed, bits of the journal's files flip, too. `tests.sim.brokers` has
whole brokers with journals.
"""

from __future__ import annotations

import argparse
import logging
import time
from random import Random

from ottla.sim.power import PowerCut
from tests.sim.lives.journal_life import JournalLife
from tests.sim.seeds import in_chunks, run_program

CUTS_PER_SEED = 10
"""How many power cuts end the work; more of them come while a process starts."""
MOST_OPERATIONS = 60, 200, 800
"""How many operations of the disk may pass between two power cuts: as many as one of these."""

EACH_WITH_ROT = 4
"""The journal of each such seed rots: bits of its files are flipped between two starts."""


def live(seed: int) -> JournalLife:
    """Let logs with a journal work through power cuts. Raises AssertionError at the first fault."""
    life = JournalLife(Random(seed), Random(seed) if seed % EACH_WITH_ROT == 0 else None)
    for _ in range(CUTS_PER_SEED):
        life.disk.cut_soon(life.random.choice(MOST_OPERATIONS), life.random)
        try:
            while True:
                life.act()
        except PowerCut:
            life.restart()
    return life


def survive(seed: int) -> int:
    """Live one seed; returns the number of power cuts. Raises AssertionError at a fault, with the command that repeats it."""
    try:
        return live(seed).cuts
    except Exception as failure:
        again = f"python -m tests.sim.journals --seed {seed}"
        raise AssertionError(f"seed {seed}: {type(failure).__name__}: {failure}. See it again: {again}") from failure


def attempt(seed: int) -> int | str:
    """Live one seed in silence; return the number of its power cuts, or the sentence of its fault."""
    logging.disable(logging.CRITICAL)
    try:
        return survive(seed)
    except AssertionError as failure:
        return str(failure)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.journals", description="Journals that live through power cuts.")
    parser.add_argument("--points", type=int, default=20_000, help="how many power cuts to survive")
    parser.add_argument("--seconds", type=float, default=600, help="stop after so long, and say so")
    parser.add_argument("--first", type=int, default=0, help="the seed to begin with")
    parser.add_argument("--jobs", type=int, help="processes; as many as processors without it")
    parser.add_argument("--seed", type=int, help="live this seed alone")
    chosen = parser.parse_args(arguments)
    if chosen.seed is not None:
        print(f"seed {chosen.seed}: survived {survive(chosen.seed)} power cuts")
        return 0
    began = time.monotonic()
    seeds = range(chosen.first, chosen.first + -(-chosen.points // CUTS_PER_SEED))
    survived, faults = in_chunks(seeds, attempt, chosen.seconds, chosen.jobs)
    for fault in faults:
        print(fault)
    took = time.monotonic() - began
    print(f"survived {sum(survived)} power cuts of seeds {chosen.first} to {chosen.first + len(survived) - 1} in {took:.0f} s")
    return 1 if faults else 0 if sum(survived) >= chosen.points else 2


if __name__ == "__main__":
    run_program(main)
