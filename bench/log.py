"""Speed and size of the log, each figure beside the limit that the system itself sets in the same run: `python -m bench.log`.

Appends beside `os.writev` of the same buffers, reads beside `os.pread`, shared syncs beside one sync per request, starts beside
Apache Kafka's, and what a producer notices of work in the background. Writes bench/RESULTS-log.md. Names of benchmarks as
arguments run these alone, and write nothing.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench import log_files, log_served, log_starts
from bench.figures import Figure

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


def page(figures: list[Figure], took_s: float) -> str:
    head = "| what | figure | limit in the same run | wanted | |\n|---|---|---|---|---|\n"
    lines = [f"| {f.name} | {f.value} | {f.limit} | {f.wanted} | {f.verdict} |" for f in figures]
    return (
        "# What `make bench-log` measured last\n\n"
        f"{os.cpu_count()} cores, Python {platform.python_version()}, {took_s:.0f} s. {NOTE}\n\n" + head + "\n".join(lines) + "\n"
    )


def main(wanted: list[str]) -> int:
    started, figures = time.monotonic(), list[Figure]()
    benches = [bench for bench in BENCHES if not wanted or bench.__name__ in wanted]
    if wanted and len(benches) < len(wanted):
        print(f"choose among {', '.join(bench.__name__ for bench in BENCHES)}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="ottla-bench-log-") as root:
        for number, bench in enumerate(benches):
            directory = f"{root}/{0 if bench is log_files.reading else number}"
            os.makedirs(directory, exist_ok=True)
            began = time.monotonic()
            for figure in bench(directory):
                print(figure, flush=True)
                figures.append(figure)
            print(f"  ({bench.__name__}: {time.monotonic() - began:.0f} s)", flush=True)
    if not wanted:
        PAGE.write_text(page(figures, time.monotonic() - started), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
