"""Groups that live through everything: members of both protocols and a broker in a bad world, then peace, then what must be true.

    python -m tests.sim.groups --seeds 5000     seeds 0 to 4999 on all processors
    python -m tests.sim.groups --seed 17        one seed again, with what happens in it

Everything comes from the seed. A violation is printed with the command that shows it again; `lives.group_ledger` names what is
checked.
"""

from __future__ import annotations

from tests.sim.lives.group_crowd import KINDS, STREAMS
from tests.sim.lives.group_life import GroupLife, GroupLifeResult
from tests.sim.seeds import live_once, run_program, run_seeds, seeds_parser


def live(seed: int, *, kind: str | None = None, tell: bool = False) -> GroupLifeResult:
    """Live one seed. Raises `Violation`, or any other fault, with the command that repeats it."""
    return live_once(
        lambda: GroupLife(seed, kind=kind, tell=tell).live(), "groups", seed, "" if kind is None else f" --kind {kind}"
    )


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 0 no violation, 1 a violation, 2 out of time."""
    parser = seeds_parser("groups", "Groups that live through everything.", seeds=5_000)
    parser.add_argument("--kind", choices=(*KINDS, STREAMS), help="groups of this kind only")
    chosen = parser.parse_args(arguments)
    return run_seeds(chosen, live, _summary, kind=chosen.kind)


def _summary(lived: list[GroupLifeResult], took_s: float) -> str:
    members = [each.plan.members for each in lived]
    return (
        f"lived {len(lived)} seeds in {took_s:.0f} s, {len(lived) / took_s:.1f} a second: {sum(members)} members, at most "
        f"{max(members, default=0)} at once; {sum(each.deaths for each in lived)} deaths, {sum(each.commits for each in lived)} "
        f"commits acknowledged and {sum(each.refused for each in lived)} refused, {sum(each.taken for each in lived)} partitions "
        f"taken; settled in {max((each.beats for each in lived), default=0):.0f} heartbeats at most"
    )


if __name__ == "__main__":
    run_program(main)
