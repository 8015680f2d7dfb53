"""Followers that live through everything: leaders change, disks refuse, processes and machines end; then logs are compared.

    python -m tests.sim.followers --seeds 2000      seeds 0 to 1999 on all processors
    python -m tests.sim.followers --seed 17         one seed again, with what happens in it

Everything comes from the seed. A violation is printed with the command that shows it again; `lives.follower_ledger` names what
is checked. The broker is the real one, with its fetcher, cleaner and checkpoints; its leader, controller and registry are played.
What it cannot see: followers of two partitions at once, and leaders that hear of it (`tests.sim.clusters` has those).
"""

from __future__ import annotations

from tests.sim.lives.follower_life import FollowerLife, FollowerResult
from tests.sim.seeds import live_once, run_program, run_seeds, seeds_parser


def live(seed: int, *, tell: bool = False) -> FollowerResult:
    """Live one seed. Raises `Violation`, or any other fault, with the command that repeats it."""
    return live_once(lambda: FollowerLife(seed, tell=print if tell else None).live(), "followers", seed)


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 0 no violation, 1 a violation, 2 out of time."""
    parser = seeds_parser("followers", "Followers that live through everything.", seeds=2_000)
    chosen = parser.parse_args(arguments)
    return run_seeds(chosen, live, _summary)


def _summary(lived: list[FollowerResult], took_s: float) -> str:
    return (
        f"lived {len(lived)} seeds in {took_s:.0f} s, {len(lived) / took_s:.1f} a second: "
        f"{sum(each.records for each in lived)} records of {sum(each.leaders for each in lived)} leaders, "
        f"{sum(each.ends for each in lived)} ends, {sum(each.refused for each in lived)} refusals; "
        f"compared {sum(each.settled for each in lived)} times"
    )


if __name__ == "__main__":
    run_program(main)
