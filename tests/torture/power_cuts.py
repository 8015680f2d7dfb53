"""A broker whose disk loses power again and again under the load of idempotent producers; no acknowledged record may suffer.

    python -m tests.torture.power_cuts --rounds 100

As `tests.torture.kills`, with a file system of its own that forgets, at a random moment, all that is not on stable storage; then
the broker is killed, and started on what is left. It needs root on Linux; elsewhere it says so, and does nothing.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from ottla.net.startup.data_directory import BOOT
from ottla.testing.process import BrokerProcess
from tests.torture.forgetful_disk import ForgetfulDisk, NotHere
from tests.torture.kills import JOURNAL_BYTES, Tortured, command, report, rounds_parser, torture

LEAST_DISK_BYTES, ROOM = 512 << 20, 16
"""The size of the disk, and how many times a file of the journal it has room for: a broker makes none where that is short."""


def cut_power(disk: ForgetfulDisk, broker: BrokerProcess, choice: random.Random) -> int:
    """Cut the power, and start the broker again.

    The broker is paused first: a file system that is shut down may still report a sync under way as done, and no machine without
    power could acknowledge that.
    """
    broker.pause()
    disk.cut_power()
    broker.kill()
    disk.restore_power()
    (broker.data_dir / BOOT).unlink(missing_ok=True)  # the machine has not been started again, though it has lost what it cached
    broker.start()
    return 1


def torture_by_power_cuts(directory: Path, rounds: int, seed: int, limit_s: float, journal_bytes: int = JOURNAL_BYTES) -> Tortured:
    """Cut the power of a broker's disk `rounds` times; fewer if `limit_s` is over. Raises `NotHere`."""
    with ForgetfulDisk(directory, size_bytes=max(LEAST_DISK_BYTES, ROOM * journal_bytes)) as disk:
        return torture(disk.path, rounds, seed, limit_s, partial(cut_power, disk), directory / "broker.log", journal_bytes)


def main() -> int:
    chosen = rounds_parser("power_cuts", "cut from power").parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ottla-torture-") as directory:
        try:
            done = torture_by_power_cuts(Path(directory), chosen.rounds, chosen.seed, chosen.seconds, chosen.journal_bytes)
        except NotHere as reason:
            print(f"skipped: {reason}")
            return 0
    return report(done, "power cuts", time.monotonic() - started, chosen.rounds, command("power_cuts", chosen))


if __name__ == "__main__":
    sys.exit(main())
