"""`make clients-elsewhere`: the tests of Ottla's clients on releases of Apache Kafka, and a table of what passed.

    python -m tests.client.elsewhere --peers kafka-0.8.2,kafka-2.8 --seconds 600

Each release runs in a process of its own for so many seconds at most. Last come three brokers of the newest release that are killed
in turn under producers, groups and copiers. Without Java everything is skipped, and the table says so.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from bench.apache_kafka import Unavailable, java
from tests.support.elsewhere import PEERS, TODAY, release_of

CHOSEN = ("kafka-0.8.2", "kafka-0.10.2", "kafka-1.1", "kafka-2.8", "kafka-3.9", TODAY)
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
    "client_metrics",
    "admin",
)
"""The files with tests of a broker that is given, without `test_` and `.py`."""
CLUSTER = "tests/torture/test_clients.py::test_clients_of_three_brokers_of_apache_kafka_whose_leaders_die_lose_and_double_nothing"
Results = Mapping[str, Counter[str]]
"""Passed, skipped and failed tests, by file."""


def run(arguments: Sequence[str], seconds: float) -> Path:
    """Run pytest, interrupted after so many seconds, and return the file with its results."""
    report = Path(tempfile.mkdtemp(prefix="ottla-elsewhere-")) / "results.xml"
    command = [sys.executable, "-m", "pytest", "-n0", "-p", "no:randomly", "--timeout", "60", "--tb", "short"]
    command += ["-o", "timeout_func_only=true", "-o", "junit_family=xunit1", f"--junitxml={report}", *arguments]
    with subprocess.Popen(command) as running:
        try:
            running.wait(seconds)
        except subprocess.TimeoutExpired:
            os.kill(running.pid, signal.SIGINT)  # a run that is interrupted still writes its results
            print(f"STOPPED after {seconds:.0f} s, before all tests had run", flush=True)
            running.wait(60)
    return report


def results(report: Path) -> Results:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.get("classname", "").rpartition(".")[2].removeprefix("test_")
        kinds = {"skipped", "failure", "error"} & {child.tag for child in case}
        found[name][min(kinds, default="passed")] += 1
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


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.client.elsewhere")
    parser.add_argument("--peers", default=",".join(CHOSEN), help="which brokers, separated by commas")
    parser.add_argument("--seconds", type=float, default=600, help="the longest time for each of them")
    chosen = parser.parse_args()
    try:
        java()
    except Unavailable as missing:
        print(f"SKIPPED: no other broker can be started, because {missing}")
        return 0
    peers = [peer for peer in chosen.peers.split(",") if peer]
    if unknown := [peer for peer in peers if peer not in PEERS]:
        parser.error(f"there is no {unknown[0]}: choose from {', '.join(PEERS)}")
    files = [f"tests/client/test_{name}.py" for name in FILES]
    found = {peer: results(run([f"--peer={peer}", *files], chosen.seconds)) for peer in peers}
    cluster = results(run([CLUSTER], chosen.seconds))["clients"]
    print(table(found))
    print(f"three brokers of {release_of(TODAY)} whose leaders die: {cell(cluster)}")
    failed = sum(each["failure"] + each["error"] for counted in found.values() for each in counted.values())
    return 1 if failed or cluster["failure"] + cluster["error"] else 0


if __name__ == "__main__":
    sys.exit(main())
