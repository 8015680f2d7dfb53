"""`python -m tests.siege.attacker`: one process of one attack. Says that it is ready, waits for a line, attacks, tells what it did.

It dies with its parent, and whatever happens some seconds after its time.
"""

from __future__ import annotations

import argparse
import json
import resource
import signal
import sys

from tests.siege.attack import all_attacks
from tests.siege.processes import die_with_parent
from tests.siege.site import Site

GRACE_S = 5
MOST_MEMORY_BYTES = 3 << 30


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.siege.attacker")
    parser.add_argument("name")
    parser.add_argument("address")
    parser.add_argument("seconds", type=float)
    parser.add_argument("number", type=int)
    chosen = parser.parse_args()
    die_with_parent()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))

    def wait() -> None:
        print("ready", flush=True)
        if not sys.stdin.readline():
            sys.exit(1)
        signal.setitimer(signal.ITIMER_REAL, chosen.seconds + GRACE_S)

    site = Site(chosen.address, chosen.name, chosen.seconds, chosen.number, wait)
    all_attacks()[chosen.name].run(site)
    print(json.dumps(site.counts), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
