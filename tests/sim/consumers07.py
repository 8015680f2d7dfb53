"""Groups of Kafka 0.7 that live through everything: consumers and a simulated ZooKeeper in a bad world, then peace.

    python -m tests.sim.consumers07 --seeds 10000    seeds 0 to 9999 on all processors
    python -m tests.sim.consumers07 --seed 17        one seed again, with what happens in it

Members join, leave, die and stand still; sessions end, watches come late, reads are old, answers are lost, brokers come and go.
`tests.sim.lives.consumer07_ledger` says what must be true. A violation is printed with the command that shows it again.
"""

from __future__ import annotations

from tests.sim.lives.consumer07_life import GroupLife07, Lived07
from tests.sim.seeds import live_once, run_program, run_seeds, seeds_parser


def live(seed: int, *, tell: bool = False) -> Lived07:
    """Live one seed. Raises `Violation`, or any other fault, with the command that repeats it."""
    return live_once(lambda: GroupLife07(seed, tell=tell).live(), "consumers07", seed)


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 0 no violation, 1 a violation, 2 out of time."""
    chosen = seeds_parser("consumers07", "Groups of Kafka 0.7 that live through everything.", seeds=10_000).parse_args(arguments)
    return run_seeds(chosen, live, _summary)


def _summary(lived: list[Lived07], took_s: float) -> str:
    return (
        f"lived {len(lived)} seeds in {took_s:.0f} s, {len(lived) / took_s:.1f} a second: {sum(each.rounds for each in lived)} "
        f"rebalances, {sum(each.handed for each in lived)} messages read; quiet after "
        f"{max((each.settled_ms for each in lived), default=0)} ms of peace at most"
    )


if __name__ == "__main__":
    run_program(main)
