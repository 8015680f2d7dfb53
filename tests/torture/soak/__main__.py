"""`python -m tests.torture.soak --minutes 30`: prints how it goes, and a verdict."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tests.torture.soak.run import Soak


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture.soak")
    parser.add_argument("--minutes", type=float, default=30, help="how long the broker is under load")
    parser.add_argument("--seed", type=int, help="of what is killed and when; a random one unless given")
    chosen = parser.parse_args()
    seed = random.randrange(10_000) if chosen.seed is None else chosen.seed
    home = Path(tempfile.mkdtemp(prefix="ottla-soak-"))
    print(f"seed {seed}, in {home}", flush=True)
    soak = Soak(home, seed, lambda line: print(line, flush=True))
    for sentence in soak.result.left_out:
        print(f"left out: {sentence}", flush=True)
    result = soak.run(chosen.minutes * 60)
    for sentence in result.said:
        print(sentence)
    for fault in result.faults:
        print(f"fault: {fault}")
    if result.faults:
        print(f"{len(result.faults)} faults; what is left is in {home}")
        print(f"run again: python -m tests.torture.soak --minutes {chosen.minutes:g} --seed {seed}")
        return 1
    shutil.rmtree(home)
    print(f"all is well: {result.acknowledged} records acknowledged; {dict(result.events)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
