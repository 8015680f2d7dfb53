"""Pipelines that write once in a bad world: drivers, tasks and brokers die, repeat and go on as zombies; then rows are counted.

    python -m ottla.sim.pipelines --seeds 10000     seeds 0 to 9999 on all processors
    python -m ottla.sim.pipelines --seed 17         one seed again, with what happens in it

Everything comes from the seed. A violation is printed with the command that shows it again; `ottla.sim.pipeline_life` names what is
checked. The machines of `ottla.once` and of the coordinator are the real ones. What it cannot see: Spark itself, and brokers
that lose what they have acknowledged (`ottla.sim.brokers` has those).
"""

from __future__ import annotations

import argparse
import sys
import time

from ottla.sim.pipeline_life import PipelineLife, PipelineResult
from ottla.sim.seeds import Violation, in_chunks


def live(seed: int, *, tell: bool = False) -> PipelineResult:
    """Live one seed. Raises `Violation`, or any other fault, with the command that repeats it."""
    try:
        return PipelineLife(seed, tell=print if tell else None).live()
    except Exception as failure:
        again = f"python -m ottla.sim.pipelines --seed {seed}"
        raise Violation(f"seed {seed}: {type(failure).__name__}: {failure}. See it again: {again}") from failure


def _try(seed: int) -> PipelineResult | str:
    try:
        return live(seed)
    except Violation as violation:
        return str(violation)


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 0 no violation, 1 a violation, 2 out of time."""
    parser = argparse.ArgumentParser(prog="python -m ottla.sim.pipelines", description="Pipelines that write once, in a bad world.")
    parser.add_argument("--seeds", type=int, default=10_000, help="how many seeds to live")
    parser.add_argument("--first", type=int, default=0, help="the seed to begin with")
    parser.add_argument("--seconds", type=float, default=1_200, help="stop after so long, and say so")
    parser.add_argument("--jobs", type=int, help="processes; as many as processors without it")
    parser.add_argument("--seed", type=int, help="live this seed alone, and tell what happens")
    chosen = parser.parse_args(arguments)
    if chosen.seed is not None:
        print(live(chosen.seed, tell=True))
        return 0
    began = time.monotonic()
    lived, violations = in_chunks(range(chosen.first, chosen.first + chosen.seeds), _try, chosen.seconds, chosen.jobs)
    for violation in violations:
        print(violation)
    print(_summary(lived, time.monotonic() - began))
    return 1 if violations else 0 if len(lived) == chosen.seeds else 2


def _summary(lived: list[PipelineResult], took_s: float) -> str:
    return (
        f"lived {len(lived)} seeds in {took_s:.0f} s, {len(lived) / took_s:.1f} a second: {sum(each.runs for each in lived)} runs, "
        f"{sum(each.attempts for each in lived)} tasks, "
        f"{sum(each.starts - 1 for each in lived)} deaths of brokers, {sum(each.voided for each in lived)} decisions voided, "
        f"{sum(each.torn for each in lived)} queries stopped because somebody stayed away too long"
    )


if __name__ == "__main__":
    sys.exit(main())
