"""Groups that live through everything: members of both protocols and a broker in a bad world, then peace, then what must be true.

    python -m ottla.sim.groups --seeds 5000     seeds 0 to 4999 on all processors
    python -m ottla.sim.groups --seed 17        one seed again, with what happens in it

Everything comes from the seed. A violation is printed with the command that shows it again; `ottla.sim.group_ledger` names what is
checked.
"""

from __future__ import annotations

import logging
import sys
from functools import partial

from ottla.sim.group_crowd import KINDS
from ottla.sim.group_life import GroupLife, GroupLifeResult
from ottla.sim.seeds import Violation, live_seeds, seeds_parser, settle_hashes


def live(seed: int, *, kind: str | None = None, tell: bool = False) -> GroupLifeResult:
    """Live one seed. Raises `Violation`, or any other fault, with the command that repeats it."""
    try:
        return GroupLife(seed, kind=kind, tell=tell).live()
    except Exception as failure:
        again = f"python -m ottla.sim.groups --seed {seed}" + (f" --kind {kind}" if kind else "")
        raise Violation(f"seed {seed}: {type(failure).__name__}: {failure}. See it again: {again}") from failure


def _try(seed: int, kind: str | None) -> GroupLifeResult | str:
    logging.disable(logging.CRITICAL)
    try:
        return live(seed, kind=kind)
    except Violation as violation:
        return str(violation)


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 0 no violation, 1 a violation, 2 out of time."""
    parser = seeds_parser("groups", "Groups that live through everything.", seeds=5_000)
    parser.add_argument("--kind", choices=KINDS, help="groups of this kind only")
    chosen = parser.parse_args(arguments)
    if chosen.seed is not None:
        logging.basicConfig(level=logging.INFO, format="             %(message)s")
        print(live(chosen.seed, kind=chosen.kind, tell=True))
        return 0
    return live_seeds(chosen, partial(_try, kind=chosen.kind), _summary)


def _summary(lived: list[GroupLifeResult], took_s: float) -> str:
    members = [each.plan.members for each in lived]
    return (
        f"lived {len(lived)} seeds in {took_s:.0f} s, {len(lived) / took_s:.1f} a second: {sum(members)} members, at most "
        f"{max(members, default=0)} at once; {sum(each.deaths for each in lived)} deaths, {sum(each.commits for each in lived)} "
        f"commits acknowledged and {sum(each.refused for each in lived)} refused, {sum(each.taken for each in lived)} partitions "
        f"taken; settled in {max((each.beats for each in lived), default=0):.0f} heartbeats at most"
    )


if __name__ == "__main__":
    settle_hashes()
    sys.exit(main())
