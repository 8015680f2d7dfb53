"""`make bitrot`: every byte region of every file kind is damaged, after an orderly stop and after a kill.

    python -m tests.bitrot                                     a share of all cases, some thousands
    python -m tests.bitrot --every 1                           all of them
    python -m tests.bitrot --only kill/plain-0/                those whose names begin so, with all that the broker said
    python -m tests.bitrot --list

Each case is a broker on real files that are damaged in one way, and ends in one of: no effect on what clients see, healed and
logged, refused and named. Everything else is printed with the name that repeats it, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.bitrot.run import CHUNK, Ward
from tests.bitrot.trial import OUTCOMES, SILENT, Verdict

EVERY = 8


def table(verdicts: Iterable[Verdict]) -> str:
    """Outcomes by the kind of file and the way of the damage."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for verdict in verdicts:
        for row in ((verdict.case.kind, verdict.case.way), ("", "all")):
            counts.setdefault(row, Counter())[verdict.outcome] += 1
    width = max(len(kind) for kind, _ in counts)
    lines = [f"{'file':{width}}  {'way':12}" + "".join(f"{outcome:>12}" for outcome in OUTCOMES)]
    for (kind, way), found in sorted(counts.items(), key=lambda row: (not row[0][0], row[0])):
        lines.append(f"{kind:{width}}  {way:12}" + "".join(f"{found[outcome] or '':>12}" for outcome in OUTCOMES))
    return "\n".join(lines)


def show(verdict: Verdict, *, all_told: bool) -> None:
    print(f"{verdict.outcome}: {verdict.case}", flush=True)
    for fault in verdict.faults:
        print(f"    {fault}")
    for line in verdict.told if all_told else ():
        print(f"    the broker says: {line}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bitrot", description="Damaged files, and what a broker makes of them.")
    parser.add_argument("--only", action="append", metavar="NAME", help="only cases whose names begin so; may be given again")
    parser.add_argument("--every", type=int, default=EVERY, help="only every n-th case")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--dir", type=Path, help="where the files lie")
    parser.add_argument("--list", action="store_true", help="print the names and try nothing")
    chosen = parser.parse_args(arguments)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    with Ward(chosen.dir) as ward:
        found = ward.cases()
        only = tuple(chosen.only or ())
        found = [case for case in found if str(case).startswith(only)] if only else found[:: chosen.every]
        if chosen.list:
            print("\n".join(map(str, found)))
            return 0
        began = time.monotonic()
        verdicts = []
        for verdict in ward.run(found, min(chosen.jobs, 1 + len(found) // CHUNK)):
            verdicts.append(verdict)
            if chosen.only or verdict.outcome == SILENT:
                show(verdict, all_told=bool(chosen.only))
    silent = [verdict for verdict in verdicts if verdict.outcome == SILENT]
    print(table(verdicts))
    print(f"{len(verdicts)} cases in {time.monotonic() - began:.0f} s, {len(silent)} of them silent")
    return 1 if silent or not verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
