"""Share coordinators in a bad world: leaders write states of share partitions on a broker that dies; then peace, then a look.

    python -m tests.sim.share_states --seeds 10000    seeds 0 to 9 999 on all processors
    python -m tests.sim.share_states --seed 17        one seed again, with what happens in it

Everything comes from the seed. `lives.share_state_ledger` names what must be true: each state that is read back is one that the
acknowledged operations explain, in their order, and older epochs are fenced. What it cannot see: more than one broker.
"""

from __future__ import annotations

from tests.sim.lives.share_state_life import ShareStateLife, ShareStateLifeResult
from tests.sim.seeds import live_once, run_program, run_seeds, seeds_parser


def live(seed: int, *, tell: bool = False) -> ShareStateLifeResult:
    """Live one seed. Raises `Violation`, or any other fault, with the command that repeats it."""
    return live_once(lambda: ShareStateLife(seed, tell=tell).live(), "share_states", seed)


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 0 no violation, 1 a violation, 2 out of time."""
    parser = seeds_parser("share_states", "Share coordinators in a bad world.", seeds=1_000)
    return run_seeds(parser.parse_args(arguments), live, _summary)


def _summary(lived: list[ShareStateLifeResult], took_s: float) -> str:
    return (
        f"lived {len(lived)} seeds in {took_s:.0f} s, {len(lived) / took_s:.1f} a second: "
        f"{sum(each.lives for each in lived)} lives of brokers, {sum(each.acknowledged for each in lived)} operations answered, "
        f"{sum(each.pruned for each in lived)} records pruned"
    )


if __name__ == "__main__":
    run_program(main)
