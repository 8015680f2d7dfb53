"""`make clients-elsewhere`: the tests of Ottla's clients on releases of Apache Kafka, and a table of what passed.

    python -m tests.client.elsewhere --peers kafka-0.8.2,kafka-2.8,cluster --seconds 600 --results DIR

Each release runs in a process of its own for so many seconds at most. Last comes `cluster`: three brokers of the newest release
that are killed in turn under producers, groups and copiers. With `--results`, the table also has the results of earlier runs into
the same directory, of other releases or, with `--files`, of other files. Without Java everything is skipped, and the table says so.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from bench.apache_kafka import Unavailable, java
from tests.support.elsewhere import OTTLA, PEERS, TODAY, release_of

CLUSTER = "cluster"
CHOSEN = ("kafka-0.8.2", "kafka-0.9.0", "kafka-0.10.2", "kafka-0.11.0", "kafka-1.1", "kafka-2.8", "kafka-3.9", TODAY, CLUSTER)
FILES = (
    "producer_consumer",
    "async",
    "delivery_callbacks",
    "own_partitioners",
    "smaller_topics",
    "serializers",
    "transactions",
    "isolation",
    "groups",
    "consumer_groups",
    "coordinator_patterns",
    "own_assignors",
    "commits_and_leaving",
    "ranges",
    "bounded_reading",
    "typed_batches",
    "interceptors",
    "client_metrics",
    "statistics",
    "telemetry",
    "shared_clients",
    "admin",
)
"""The files with tests of a broker that is given, without `test_` and `.py`."""
CLUSTER_TEST = (
    "tests/torture/test_clients.py::test_clients_of_three_brokers_of_apache_kafka_whose_leaders_die_lose_and_double_nothing"
)
Results = Mapping[str, Counter[str]]
"""Passed, skipped and failed tests, by file."""


def run(peer: str, names: Sequence[str], report: Path, seconds: float) -> None:
    """Run the tests of some files with a peer into the file `report`, interrupted after so many seconds."""
    files = [f"tests/client/test_{name}.py" for name in names]
    arguments = [CLUSTER_TEST] if peer == CLUSTER else [f"--peer={peer}", *files]
    command = [sys.executable, "-m", "pytest", "-n0", "-p", "no:randomly", "--timeout", "60", "--tb", "short"]
    command += ["-o", "timeout_func_only=true", "-o", "junit_family=xunit1", f"--junitxml={report}", *arguments]
    with subprocess.Popen(command) as running:
        try:
            running.wait(seconds)
        except subprocess.TimeoutExpired:
            os.kill(running.pid, signal.SIGINT)  # a run that is interrupted still writes its results
            print(f"STOPPED after {seconds:.0f} s, before all tests had run", flush=True)
            running.wait(120)


def results(reports: Sequence[Path]) -> Results:
    """Return the results of several runs: of a test that ran again, the last one."""
    last: dict[tuple[str, str], str] = {}
    for report in sorted(reports, key=lambda path: path.stat().st_mtime):
        for case in ElementTree.parse(report).iter("testcase"):
            kinds = {"skipped", "failure", "error"} & {child.tag for child in case}
            last[case.get("classname", ""), case.get("name", "")] = min(kinds, default="passed")
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for (where, _), kind in last.items():
        found[where.rpartition(".")[2].removeprefix("test_")][kind] += 1
    return found


def cell(counted: Counter[str]) -> str:
    """Return "12", or "12, 3 skipped" and the like."""
    failed = counted["failure"] + counted["error"]
    parts = [str(counted["passed"])] if counted["passed"] or not counted["skipped"] else []
    parts += [f"{counted['skipped']} skipped"] if counted["skipped"] else []
    return ", ".join([*parts, *([f"{failed} FAILED"] if failed else [])])


def table(found: Mapping[str, Results]) -> str:
    """Return the results as a table of Markdown, files by releases."""
    rows = [["tests", *(release_of(peer) for peer in found)], ["---"] * (len(found) + 1)]
    rows += [[f"`{name}`", *(cell(each.get(name, Counter())) for each in found.values())] for name in FILES]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.client.elsewhere")
    parser.add_argument("--peers", default=",".join(CHOSEN), help="which brokers, separated by commas")
    parser.add_argument("--seconds", type=float, default=600, help="the longest time for each of them")
    parser.add_argument("--files", default=",".join(FILES), help="which files of tests, without test_ and .py")
    parser.add_argument("--results", type=Path, metavar="DIR", help="where results stay, for a table of several runs")
    chosen = parser.parse_args()
    chosen.peers = [peer for peer in chosen.peers.split(",") if peer]
    if unknown := [peer for peer in chosen.peers if peer not in (*PEERS, CLUSTER)]:
        parser.error(f"there is no {unknown[0]}: choose from {', '.join((*PEERS, CLUSTER))}")
    return chosen


def main() -> int:
    chosen = options()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it, and so would their children
    try:
        java()
    except Unavailable as missing:
        print(f"SKIPPED: no other broker can be started, because {missing}")
        return 0
    reports: Path = chosen.results or Path(tempfile.mkdtemp(prefix="ottla-elsewhere-"))
    reports.mkdir(parents=True, exist_ok=True)
    for peer in chosen.peers:
        names = [name for name in chosen.files.split(",") if name]
        run(peer, names, reports / f"{peer}~{time.time_ns()}.xml", chosen.seconds)
    found = {peer: results(paths) for peer in (OTTLA, *CHOSEN) if (paths := [*reports.glob(f"{peer}~*.xml")])}
    cluster = found.pop(CLUSTER, {}).get("clients")
    print(table(found))
    if cluster is not None:
        print(f"three brokers of {release_of(TODAY)} whose leaders die: {cell(cluster)}")
    counted = [cluster or Counter(), *(each for results_of in found.values() for each in results_of.values())]
    return 1 if sum(each["failure"] + each["error"] for each in counted) else 0


if __name__ == "__main__":
    sys.exit(main())
