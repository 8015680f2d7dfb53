"""Groups of Kafka 0.7 that live through everything: consumers and a simulated ZooKeeper in a bad world, then peace.

    python -m ottla.sim.consumers07 --seeds 10000    seeds 0 to 9999 on all processors
    python -m ottla.sim.consumers07 --seed 17        one seed again, with what happens in it

Members join, leave, die and stand still; sessions end, watches come late, reads are old, answers are lost, brokers come and go.
`ottla.sim.consumer07_ledger` says what must be true. A violation is printed with the command that shows it again.
"""

from __future__ import annotations

import logging
import sys

from ottla.sim.consumer07_life import GroupLife07, Lived07
from ottla.sim.seeds import Violation, live_seeds, seeds_parser


def live(seed: int, *, tell: bool = False) -> Lived07:
    """Live one seed. Raises `Violation`, or any other fault, with the command that repeats it."""
    try:
        return GroupLife07(seed, tell=tell).live()
    except Exception as failure:
        again = f"python -m ottla.sim.consumers07 --seed {seed}"
        raise Violation(f"seed {seed}: {type(failure).__name__}: {failure}. See it again: {again}") from failure


def _try(seed: int) -> Lived07 | str:
    logging.disable(logging.CRITICAL)
    try:
        return live(seed)
    except Violation as violation:
        return str(violation)


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 0 no violation, 1 a violation, 2 out of time."""
    chosen = seeds_parser("consumers07", "Groups of Kafka 0.7 that live through everything.", seeds=10_000).parse_args(arguments)
    if chosen.seed is not None:
        print(live(chosen.seed, tell=True))
        return 0
    return live_seeds(chosen, _try, _summary)


def _summary(lived: list[Lived07], took_s: float) -> str:
    return (
        f"lived {len(lived)} seeds in {took_s:.0f} s, {len(lived) / took_s:.1f} a second: {sum(each.rounds for each in lived)} "
        f"rebalances, {sum(each.handed for each in lived)} messages read; quiet after "
        f"{max((each.settled_ms for each in lived), default=0)} ms of peace at most"
    )


if __name__ == "__main__":
    sys.exit(main())
