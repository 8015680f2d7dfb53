"""Runs the tests, and the few that failed once more by themselves: what fails twice has failed.

    python -m tools.run_tests                       make test: all but those marked `full` and those of the tree (make check)
    python -m tools.run_tests quick                 make quick: those of pure packages and of the tree, without the long ones
    python -m tools.run_tests full                  make full: all
    python -m tools.run_tests full --share 3/8      a share of those marked `full`; `today` is one after the other by the day
    python -m tools.run_tests full --share today --seconds 600

Two cores carry brokers, clients of other people and Java machines at once here, so a test may lose a race that nothing else ever
makes it lose. It must not pass unseen: each test that needed the second run is named as unstable on the last lines, to be mended.
With `--seconds` a test that would take longer than what is left does not begin, and the run ends soon after them in any case.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

MOST_RUN_AGAIN = 6
"""More failures than these are no accident, and none of them is run again."""
PROCESSES = {"quick": 2, "test": 3, "full": 2}
"""Two cores are the measure. Where brokers and Java start, tests wait for a third of their time, so a third process uses it."""
FAILED = 1
"""What pytest exits with when tests ran and some failed; anything else is about pytest itself."""
LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")
SHARES = 4
"""So many days go by until each test has run in a share of the day."""
GRACE_S = 120
"""How long after its time a run is stopped: its tests should have ended, and their brokers too."""
COLLECTION_S = 60
"""What pytest needs before its first test, on a busy machine: with less time, a run would be stopped and count as failed."""
SPEEDS = {
    "quick": ["-m", "not slow and not full and not java", "tests/tree", "tests/unit", "tests/scenarios"],
    "test": ["-m", "not full", "--durations", "10", "--ignore", "tests/tree"],
    "full": ["--durations", "10"],
}


def pytest(*arguments: str, seconds: float | None = None) -> int:
    """Run pytest with one seed for hashes: simulated worlds walk over sets, and a seed is to be lived in the same way each time."""
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", *arguments], env=environment, start_new_session=seconds is not None
    ) as run:
        try:
            return run.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            print("\nSTOPPED: the time of this run is over, and a test has not ended that was to take less.", flush=True)
            return FAILED


def failures() -> list[str]:
    return sorted(json.loads(LAST_FAILED.read_text())) if LAST_FAILED.exists() else []


def todays_share(now_s: float) -> str:
    """Return the share whose turn it is on that day."""
    return f"{int(now_s // 86_400) % SHARES + 1}/{SHARES}"


def run(arguments: list[str], processes: int, seconds: float | None) -> int:
    """Run tests on several processes, and again, alone, the few that fail."""
    LAST_FAILED.unlink(missing_ok=True)
    workers = ("--numprocesses", str(processes), "--dist", "loadfile", "--no-loadscope-reorder")
    code = pytest(*workers, *arguments, seconds=seconds)
    failed = failures()
    if code != FAILED or not 0 < len(failed) <= MOST_RUN_AGAIN:
        return code
    print(f"\nRunning again, one at a time: {', '.join(failed)}", flush=True)
    code = pytest("-p", "no:randomly", *failed, seconds=None if seconds is None else GRACE_S)
    for name in failed if code == 0 else ():
        print(f"UNSTABLE: {name} failed beside other tests and passed alone: mend it.")
    return code


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.run_tests")
    parser.add_argument("speed", nargs="?", choices=SPEEDS, default="test")
    parser.add_argument("--share", help="3/8, or today")
    parser.add_argument("--seconds", type=float, help="how long the run may take")
    chosen, more = parser.parse_known_args()
    share = todays_share(time.time()) if chosen.share == "today" else chosen.share
    arguments = [*SPEEDS[chosen.speed], *more]
    if chosen.speed == "full" and not share:
        arguments += ["--java-programs"]
    if share:
        print(f"Share {share} of the tests that only `make full` runs; by hand: make full SHARE={share}", flush=True)
        arguments += ["--share", share]
    if chosen.seconds is not None and chosen.seconds < COLLECTION_S:
        print(f"SKIPPED: no test begins, because {max(chosen.seconds, 0):.0f} s are left and pytest needs {COLLECTION_S} to start.")
        return 0
    if chosen.seconds is not None:
        arguments += ["--until", str(time.time() + chosen.seconds)]
    return run(arguments, PROCESSES[chosen.speed], None if chosen.seconds is None else max(chosen.seconds, 0) + GRACE_S)


if __name__ == "__main__":
    sys.exit(main())
