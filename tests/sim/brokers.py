"""Whole brokers that live for weeks of simulated time with all their housekeeping on, each in a world that one seed decides.

    python -m tests.sim.brokers --seeds 500     seeds 0 to 499 on all processors
    python -m tests.sim.brokers --seed 17       one seed again, with what happens in it

Time jumps from one deadline to the next: retention, compaction, checkpoints, flush.ms, expiry of producers and of offsets all
run at their default intervals, beside topics of all kinds that are made, changed, grown, deleted and made anew, producers with and
without ids, old formats, groups of both protocols, orderly stops, kills and power cuts at any operation of the disk, failing disks
and jumping clocks. What must be true all along stands in `tests.sim.lives.broker_ledger`, `broker_groups`, `broker_looks` and
`broker_life`. A violation is printed with the command that shows it again.

What it cannot see: how long anything takes, for its clock stands still while the broker works; threads, sockets, connections; the
real disk (the registry is the real one, on the simulated disk); transactions; more than one broker; large batches and large logs.
Clients send one request at a time and lose no connection while the broker lives: `tests.sim.groups` has the bad network.
"""

from __future__ import annotations

from tests.sim.lives.broker_life import BrokerLife, BrokerLifeResult, escaped
from tests.sim.seeds import live_once, run_program, run_seeds, seeds_parser

WEEKS = 2.0


def live(seed: int, *, weeks: float = WEEKS, tell: bool = False) -> BrokerLifeResult:
    """Live one seed. Raises `Violation` for whatever goes wrong, with the command that repeats it."""
    return live_once(
        lambda: BrokerLife(seed, weeks=weeks, tell=tell).live(), "brokers", seed, f" --weeks {weeks:g}", sentence=escaped
    )


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 0 no violation, 1 a violation, 2 out of time."""
    parser = seeds_parser("brokers", "Brokers that live for weeks.", seeds=500, seconds=1_800)
    parser.add_argument("--weeks", type=float, default=WEEKS, help="how long each broker lives")
    chosen = parser.parse_args(arguments)
    return run_seeds(chosen, live, _summary, weeks=chosen.weeks)


def _summary(lived: list[BrokerLifeResult], took_s: float) -> str:
    weeks = sum(each.plan.weeks for each in lived)
    return (
        f"lived {len(lived)} seeds in {took_s:.0f} s, {weeks:g} weeks in all: {sum(each.lives for each in lived)} lives, "
        f"{sum(each.acknowledged for each in lived)} batches and {sum(each.commits for each in lived)} commits acknowledged, "
        f"{sum(each.faults for each in lived)} faults of the disk"
    )


if __name__ == "__main__":
    run_program(main)
