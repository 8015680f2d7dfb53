"""Pipelines that write once in a bad world: drivers, tasks and brokers die, repeat and go on as zombies; then rows are counted.

    python -m tests.sim.pipelines --seeds 10000     seeds 0 to 9999 on all processors
    python -m tests.sim.pipelines --seed 17         one seed again, with what happens in it

Everything comes from the seed. A violation is printed with the command that shows it again; `lives.pipeline_life` names what is
checked. The machines of `ottla.once` and of the coordinator are the real ones. What it cannot see: Spark itself, and brokers
that lose what they have acknowledged (`tests.sim.brokers` has those).
"""

from __future__ import annotations

from tests.sim.lives.pipeline_life import PipelineLife, PipelineResult
from tests.sim.seeds import live_once, run_program, run_seeds, seeds_parser


def live(seed: int, *, tell: bool = False) -> PipelineResult:
    """Live one seed. Raises `Violation`, or any other fault, with the command that repeats it."""
    return live_once(lambda: PipelineLife(seed, tell=print if tell else None).live(), "pipelines", seed)


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 0 no violation, 1 a violation, 2 out of time."""
    parser = seeds_parser("pipelines", "Pipelines that write once, in a bad world.", seeds=10_000)
    chosen = parser.parse_args(arguments)
    return run_seeds(chosen, live, _summary)


def _summary(lived: list[PipelineResult], took_s: float) -> str:
    return (
        f"lived {len(lived)} seeds in {took_s:.0f} s, {len(lived) / took_s:.1f} a second: {sum(each.runs for each in lived)} runs, "
        f"{sum(each.attempts for each in lived)} tasks, "
        f"{sum(each.starts - 1 for each in lived)} deaths of brokers, {sum(each.voided for each in lived)} decisions voided, "
        f"{sum(each.torn for each in lived)} queries stopped because somebody stayed away too long"
    )


if __name__ == "__main__":
    run_program(main)
