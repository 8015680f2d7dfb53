"""Followers that live through everything: leaders change, disks refuse, processes and machines end; then logs are compared.

    python -m ottla.sim.followers --seeds 2000      seeds 0 to 1999 on all processors
    python -m ottla.sim.followers --seed 17         one seed again, with what happens in it

Everything comes from the seed. A violation is printed with the command that shows it again; `ottla.sim.follower_ledger` names what
is checked. The broker is the real one, with its fetcher, cleaner and checkpoints; its leader, controller and registry are played.
What it cannot see: followers of two partitions at once, and leaders that hear of it (`ottla.sim.clusters` has those).
"""

from __future__ import annotations

import logging
import sys

from ottla.sim.follower_life import FollowerLife, FollowerResult
from ottla.sim.seeds import Violation, live_seeds, seeds_parser, settle_hashes


def live(seed: int, *, tell: bool = False) -> FollowerResult:
    """Live one seed. Raises `Violation`, or any other fault, with the command that repeats it."""
    try:
        return FollowerLife(seed, tell=print if tell else None).live()
    except Exception as failure:
        again = f"python -m ottla.sim.followers --seed {seed}"
        raise Violation(f"seed {seed}: {type(failure).__name__}: {failure}. See it again: {again}") from failure


def _try(seed: int) -> FollowerResult | str:
    logging.disable(logging.CRITICAL)
    try:
        return live(seed)
    except Violation as violation:
        return str(violation)


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 0 no violation, 1 a violation, 2 out of time."""
    parser = seeds_parser("followers", "Followers that live through everything.", seeds=2_000)
    chosen = parser.parse_args(arguments)
    if chosen.seed is not None:
        logging.basicConfig(level=logging.INFO, format="             %(message)s")
        print(live(chosen.seed, tell=True))
        return 0
    return live_seeds(chosen, _try, _summary)


def _summary(lived: list[FollowerResult], took_s: float) -> str:
    return (
        f"lived {len(lived)} seeds in {took_s:.0f} s, {len(lived) / took_s:.1f} a second: "
        f"{sum(each.records for each in lived)} records of {sum(each.leaders for each in lived)} leaders, "
        f"{sum(each.ends for each in lived)} ends, {sum(each.refused for each in lived)} refusals; "
        f"compared {sum(each.settled for each in lived)} times"
    )


if __name__ == "__main__":
    settle_hashes()
    sys.exit(main())
