"""Speed and size of the log, each figure beside the limit that the system itself sets in the same run: `python -m bench.log`.

Appends beside `os.writev` of the same buffers, reads beside `os.pread`, shared syncs beside one sync per request, starts beside
Apache Kafka's, and what a producer notices of work in the background. Writes bench/RESULTS-log.md. Names of benchmarks as
arguments run these alone, and write nothing.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench import log_files, log_served, log_starts
from bench.figures import Figure, measure, page

PAGE = Path(__file__).with_name("RESULTS-log.md")

NOTE = """Other work on the machine and the disk below it change every
figure: only the shares of one run count. Latencies are those of one producer that sends one record of 100 bytes with acks=1 a
thousand times a second; a request that could not be sent in time counts from when it was due."""

BENCHES: tuple[Callable[[str], list[Figure]], ...] = (
    log_files.appending,
    log_files.reading,
    log_files.looking_up,
    log_files.compacting,
    log_served.syncing,
    log_served.compacting_beside,
    log_served.deleting_beside,
    log_served.creating_beside,
    log_starts.recovering,
    log_starts.starting,
)
"""In this order: `reading` reads what `appending` left."""


def in_directory(root: str, number: int, bench: Callable[[str], list[Figure]]) -> list[Figure]:
    """What one benchmark finds in a directory of its own; `reading` in that of `appending`, the first."""
    directory = f"{root}/{0 if bench is log_files.reading else number}"
    os.makedirs(directory, exist_ok=True)
    return bench(directory)


def main(wanted: list[str]) -> int:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ottla-bench-log-") as root:
        parts = {bench.__name__: partial(in_directory, root, number, bench) for number, bench in enumerate(BENCHES)}
        figures = measure(parts, wanted)
    if figures is None:
        return 2
    if not wanted:
        took_s = time.monotonic() - started
        PAGE.write_text(page("What `make bench-log` measured last", figures, took_s, NOTE), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
