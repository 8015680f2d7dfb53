"""Transactions in a bad world: producers, their zombies and a broker that dies, then peace, then what must be true.

    python -m tests.sim.transactions --seeds 1000     seeds 0 to 999 on all processors
    python -m tests.sim.transactions --seed 17        one seed again, with what happens in it

Everything comes from the seed. A violation is printed with the command that shows it again; `lives.transaction_ledger` names
what is checked. Some seeds have outside coordinators (KIP-939), members of the classic protocol, a disk that fails, a clock that
jumps, levels of transactions that change, topics and records that are deleted, internal topics that are compacted all the time.
What it cannot see: more than one broker, a clock that jumps by days, epochs that run out.
"""

from __future__ import annotations

from tests.sim.lives.transaction_life import PROTOCOLS, TransactionLife, TransactionLifeResult
from tests.sim.seeds import live_once, run_program, run_seeds, seeds_parser


def live(seed: int, *, protocol: str | None = None, tell: bool = False) -> TransactionLifeResult:
    """Live one seed. Raises `Violation`, or any other fault, with the command that repeats it."""
    return live_once(
        TransactionLife(seed, protocol=protocol, tell=tell).live,
        "transactions",
        seed,
        "" if protocol is None else f" --protocol {protocol}",
    )


def main(arguments: list[str] | None = None) -> int:
    """Return the exit code: 0 no violation, 1 a violation, 2 out of time."""
    parser = seeds_parser("transactions", "Transactions in a bad world.", seeds=1_000)
    parser.add_argument("--protocol", choices=PROTOCOLS, help="producers of this protocol only")
    chosen = parser.parse_args(arguments)
    return run_seeds(chosen, live, _summary, protocol=chosen.protocol)


def _summary(lived: list[TransactionLifeResult], took_s: float) -> str:
    return (
        f"lived {len(lived)} seeds in {took_s:.0f} s, {len(lived) / took_s:.1f} a second: "
        f"{sum(each.lives for each in lived)} lives of brokers, {sum(each.processes for each in lived)} producers, "
        f"{sum(each.transactions for each in lived)} transactions, "
        f"{sum(each.commits for each in lived)} of them committed; {sum(each.faults for each in lived)} faults of disks, "
        f"{sum(each.compacted for each in lived)} offsets compacted; done after {max((each.done_ms for each in lived), default=0)} "
        f"ms of peace at most"
    )


if __name__ == "__main__":
    run_program(main)
