"""Share partitions that live through everything: leaders, members and the share coordinator in a bad world, then peace.

    python -m tests.sim.shares --seeds 10000     seeds 0 to 9999 on all processors
    python -m tests.sim.shares --seed 17         one seed again, with what happens in it

Everything comes from the seed. A violation is printed with the command that shows it again; `lives.share_ledger` names what is
checked. The share partition and the machine of the share coordinator are the real ones; log, members and the way between leader and
coordinator are played. What it cannot see: share sessions and waiting fetches, which the broker adds.
"""

from __future__ import annotations

from tests.sim.lives.share_life import ShareLife, ShareLifeResult
from tests.sim.seeds import live_once, run_program, run_seeds, seeds_parser


def live(seed: int, *, tell: bool = False) -> ShareLifeResult:
    """Live one seed. Raises `Violation`, or any other fault, with the command that repeats it."""
    return live_once(lambda: ShareLife(seed, tell=print if tell else None).live(), "shares", seed)


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 0 no violation, 1 a violation, 2 out of time."""
    parser = seeds_parser("shares", "Share partitions that live through everything.", seeds=10_000)
    chosen = parser.parse_args(arguments)
    return run_seeds(chosen, live, _summary)


def _summary(lived: list[ShareLifeResult], took_s: float) -> str:
    return (
        f"lived {len(lived)} seeds in {took_s:.0f} s, {len(lived) / took_s:.1f} a second: "
        f"{sum(each.leaders for each in lived)} leaders, {sum(each.crashes for each in lived)} crashes of the coordinator; "
        f"{sum(each.records for each in lived)} records delivered "
        f"{sum(each.deliveries for each in lived)} times, {sum(each.accepted for each in lived)} accepted, "
        f"{sum(each.refused for each in lived)} acknowledgements refused; compared {sum(each.compared for each in lived)} times"
    )


if __name__ == "__main__":
    run_program(main)
