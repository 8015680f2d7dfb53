"""Pipelines that write once in a bad world: drivers, tasks and brokers die, repeat and go on as zombies; then rows are counted.

    python -m ottla.sim.pipelines --seeds 10000     seeds 0 to 9999 on all processors
    python -m ottla.sim.pipelines --seed 17         one seed again, with what happens in it

Everything comes from the seed. A violation is printed with the command that shows it again; `ottla.sim.pipeline_life` names what is
checked. The machines of `ottla.once` and of the coordinator are the real ones. What it cannot see: Spark itself, and brokers
that lose what they have acknowledged (`ottla.sim.brokers` has those).
"""

from __future__ import annotations

import sys

from ottla.sim.pipeline_life import PipelineLife, PipelineResult
from ottla.sim.seeds import Violation, live_seeds, seeds_parser, settle_hashes


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
    parser = seeds_parser("pipelines", "Pipelines that write once, in a bad world.", seeds=10_000)
    chosen = parser.parse_args(arguments)
    if chosen.seed is not None:
        print(live(chosen.seed, tell=True))
        return 0
    return live_seeds(chosen, _try, _summary)


def _summary(lived: list[PipelineResult], took_s: float) -> str:
    return (
        f"lived {len(lived)} seeds in {took_s:.0f} s, {len(lived) / took_s:.1f} a second: {sum(each.runs for each in lived)} runs, "
        f"{sum(each.attempts for each in lived)} tasks, "
        f"{sum(each.starts - 1 for each in lived)} deaths of brokers, {sum(each.voided for each in lived)} decisions voided, "
        f"{sum(each.torn for each in lived)} queries stopped because somebody stayed away too long"
    )


if __name__ == "__main__":
    settle_hashes()
    sys.exit(main())
