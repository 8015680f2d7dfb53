"""The shipped clients in simulation: producers, groups of consumers and brokers, first with faults and then without.

    python -m tests.sim.clients --seeds 10000     seeds 0 to 9999 on all processors
    python -m tests.sim.clients --seed 17         one seed again, with what happens in it

Everything comes from the seed. A violation is printed with the command that shows it again; `lives.client_ledger` names what is
checked. `AsyncProducer` and `AsyncConsumer` run as they are shipped, on simulated event loops. What it cannot see: the blocking
faces and their threads, TLS and SASL.
"""

from __future__ import annotations

from functools import partial

from tests.sim.lives.client_life import ClientLife, ClientLifeResult
from tests.sim.seeds import live_once, run_program, run_seeds, seeds_parser


def live(seed: int, *, tell: bool = False) -> ClientLifeResult:
    """Live one seed. Raises `Violation`, or any other fault, with the command that repeats it."""
    return live_once(partial(_live, seed, tell=tell), "clients", seed)


def _live(seed: int, *, tell: bool) -> ClientLifeResult:
    return ClientLife(seed, tell=tell).live()


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 0 no violation, 1 a violation, 2 out of time."""
    parser = seeds_parser("clients", "The shipped clients in a bad world.", seeds=10_000, seconds=7_200)
    chosen = parser.parse_args(arguments)
    return run_seeds(chosen, live, _summary)


def _summary(lived: list[ClientLifeResult], took_s: float) -> str:
    def total(name: str) -> int:
        return sum(getattr(each, name) for each in lived)

    return (
        f"lived {len(lived)} seeds in {took_s:.0f} s, {len(lived) / took_s:.1f} a second: "
        f"{total('acknowledged')} records acknowledged and {total('failed')} failed, {total('handed')} handed out in "
        f"{total('shares')} shares, {total('commits')} commits, {total('transactions')} transactions; "
        f"{total('lives')} lives of brokers, {total('connections')} connections, {total('lied')} wrong answers; "
        f"done after {max((each.done_ms for each in lived), default=0)} ms of peace at most"
    )


if __name__ == "__main__":
    run_program(main)
