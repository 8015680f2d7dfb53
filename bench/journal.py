"""Speed of acknowledgements after a sync to disk: `python -m bench.journal`, `make bench-journal`.

Three brokers take the same loads in turn: Ottla, Ottla without its journal, and Apache Kafka, which answers from the page cache.
Each figure stands beside the others of the same run. Writes bench/RESULTS-journal.md. Names of parts as arguments measure these
alone, and write nothing; so does `--alone`, which leaves Apache Kafka out.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path

from bench import journal_loads, journal_starts
from bench.apache_kafka import Unavailable
from bench.figures import Figure, measure, page
from bench.journal_loads import NO_JOURNAL, Sides
from bench.servers import QUICK_GROUPS, Kafka, Ottla

PAGE = Path(__file__).with_name("RESULTS-journal.md")
NOTE = """Clients and brokers share the cores, and other
work on the machine and the disk below it change every figure: only the shares of one run count. acks=all means synced to disk on
Ottla; Apache Kafka answers from the page cache. Bytes written are those of the block device until `sync -f` has returned, and
include what the file system writes for itself; those of the process come from /proc/PID/io."""

OF_SIDES: tuple[Callable[[Sides], list[Figure]], ...] = (
    journal_loads.one_at_a_time,
    journal_loads.groups,
    journal_loads.producers,
    journal_loads.partitions,
    journal_loads.bulk,
    journal_loads.transactions,
    journal_loads.written,
)
OF_STARTS: tuple[Callable[[], list[Figure]], ...] = (
    journal_starts.first_acknowledgements,
    journal_starts.memory,
    journal_starts.killed,
)


def started(running: ExitStack, *, alone: bool) -> Sides:
    """The brokers, which all parts use: Java has compiled more with each."""
    ours = running.enter_context(Ottla(QUICK_GROUPS))
    without = running.enter_context(Ottla({**QUICK_GROUPS, **NO_JOURNAL}))
    return Sides(ours, without, None if alone else running.enter_context(Kafka(settings=QUICK_GROUPS)))


def with_sides(sides: Callable[[], Sides], bench: Callable[[Sides], list[Figure]]) -> list[Figure]:
    return bench(sides())


def main(arguments: list[str]) -> int:
    began, alone = time.monotonic(), "--alone" in arguments
    wanted = [name for name in arguments if name != "--alone"]
    with ExitStack() as running:
        sides = cache(partial(started, running, alone=alone))
        parts = {bench.__name__: partial(with_sides, sides, bench) for bench in OF_SIDES}
        try:
            figures = measure({**parts, **{bench.__name__: bench for bench in OF_STARTS}}, wanted)
        except Unavailable as missing:
            print(f"Apache Kafka cannot be measured: {missing}. Call with --alone to leave it out.", file=sys.stderr)
            return 1
    if figures is None:
        return 2
    if not wanted and not alone:
        text = page("What `make bench-journal` measured last", figures, time.monotonic() - began, NOTE)
        PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
