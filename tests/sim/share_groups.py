"""Share groups that live through everything: members and a broker in a bad world, then peace, then what must be true.

    python -m tests.sim.share_groups --seeds 5000     seeds 0 to 4999 on all processors
    python -m tests.sim.share_groups --seed 17        one seed again, with what happens in it

Everything comes from the seed. A violation is printed with the command that shows it again; `lives.share_group_ledger` names what
is checked.
"""

from __future__ import annotations

from tests.sim.lives.share_group_life import ShareGroupLife, ShareGroupLifeResult
from tests.sim.seeds import live_once, run_program, run_seeds, seeds_parser


def live(seed: int, *, tell: bool = False) -> ShareGroupLifeResult:
    """Live one seed. Raises `Violation`, or any other fault, with the command that repeats it."""
    return live_once(lambda: ShareGroupLife(seed, tell=tell).live(), "share_groups", seed)


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 0 no violation, 1 a violation, 2 out of time."""
    parser = seeds_parser("share_groups", "Share groups that live through everything.", seeds=5_000)
    return run_seeds(parser.parse_args(arguments), live, _summary)


def _summary(lived: list[ShareGroupLifeResult], took_s: float) -> str:
    members = [each.plan.members for each in lived]
    return (
        f"lived {len(lived)} seeds in {took_s:.0f} s, {len(lived) / took_s:.1f} a second: {sum(members)} members, at most "
        f"{max(members, default=0)} at once; {sum(each.deaths for each in lived)} deaths, {sum(each.heartbeats for each in lived)} "
        f"heartbeats answered, {sum(each.administered for each in lived)} changes by administrators; settled in "
        f"{max((each.beats for each in lived), default=0):.0f} heartbeats at most"
    )


if __name__ == "__main__":
    run_program(main)
