"""Clusters in a bad world: brokers that die, stand still and lose each other, then peace, then what must be true.

    python -m tests.sim.clusters --seeds 1000     seeds 0 to 999 on all processors
    python -m tests.sim.clusters --seed 17        one seed again, with what happens in it

Everything comes from the seed. A violation is printed with the command that shows it again; `lives.cluster_ledger` and
`cluster_agreement` name what is checked, and `transaction_ledger` and `group_ledger` what is in seeds with transactions and groups.
"""

from __future__ import annotations

from functools import partial

from tests.sim.lives.cluster_faults import is_of_a_disk
from tests.sim.lives.cluster_life import ClusterLife, ClusterLifeResult
from tests.sim.lives.error_lines import error_lines
from tests.sim.seeds import Violation, live_once, run_program, run_seeds, seeds_parser


def live(seed: int, *, tell: bool = False) -> ClusterLifeResult:
    """Live one seed. Raises `Violation`, or any other fault, with the command that repeats it."""
    return live_once(partial(_live, seed, tell=tell), "clusters", seed)


def _live(seed: int, *, tell: bool) -> ClusterLifeResult:
    with error_lines(is_of_a_disk) as said:
        lived = ClusterLife(seed, tell=tell).live()
    if said.lines:
        raise Violation(f"nothing at ERROR: {'; '.join(said.lines)}")
    return lived


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 0 no violation, 1 a violation, 2 out of time."""
    parser = seeds_parser("clusters", "Clusters in a bad world.", seeds=1_000)
    chosen = parser.parse_args(arguments)
    return run_seeds(chosen, live, _summary)


def _summary(lived: list[ClusterLifeResult], took_s: float) -> str:
    return (
        f"lived {len(lived)} seeds in {took_s:.0f} s, {len(lived) / took_s:.1f} a second: "
        f"{sum(each.lives for each in lived)} lives of brokers, {sum(each.controllers for each in lived)} controllers, "
        f"{sum(each.frames for each in lived)} requests between brokers, {sum(each.acknowledged for each in lived)} records "
        f"acknowledged; well after {max((each.healed_ms for each in lived), default=0)} ms of peace at most"
    )


if __name__ == "__main__":
    run_program(main)
