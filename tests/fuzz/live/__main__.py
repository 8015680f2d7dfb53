"""Extreme requests to running brokers: `make fuzz-live`, or `python -m tests.fuzz.live [--seconds N] [--seed N] [--api KEY]`.

One broker after the other is asked for `--life` seconds, and started again on what it stored. Each kind of fault is told once.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.live.life import Life


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.live", description=__doc__)
    seconds = float(os.environ.get("FUZZ_SECONDS", "1800"))
    parser.add_argument("--seconds", type=float, default=seconds, help="for all lives together (FUZZ_SECONDS, default 1800)")
    parser.add_argument("--life", type=float, default=60.0, help="how long one broker is asked (default 60)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--api", type=int, action="append", help="ask this API alone; may be given again")
    parser.add_argument("--keep", type=Path, help="where to keep the data and the log of a broker with faults")
    options = parser.parse_args()
    until, faults, seed = time.monotonic() + options.seconds, 0, options.seed
    while time.monotonic() < until:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            life = Life(Path(folder), random.Random(seed), tuple(options.api or ()))
            life.live(min(options.life, max(1.0, until - time.monotonic())))
            line = f"seed {seed}: {life.asked} requests, {life.largest_bytes >> 20} MB at most, {len(life.faults)} kinds of faults"
            print(line, flush=True)
            if options.keep is not None:
                options.keep.mkdir(parents=True, exist_ok=True)
                (options.keep / f"{seed}.log").write_text(life.broker.log)
                (options.keep / f"{seed}.frames").write_text(life.last_frames())
                (options.keep / f"{seed}.replies").write_text(
                    "\n".join(f"{count} {name}" for counts in (life.replies, life.closed) for name, count in counts.most_common())
                )
        faults += len(life.faults)
        seed += 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
